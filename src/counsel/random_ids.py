"""Random numbers for names, many from one system call. Standard library only: the stdio front imports this."""

from __future__ import annotations

import os

_MANY = 128  # ids
_unused: list[str] = []
_process = 0  # whose they are: a child would make the same ids as its parent


def uuid4() -> str:
    """Like `str(uuid.uuid4())`."""
    digits = token()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def token() -> str:
    """128 random bits, as 32 hexadecimal digits."""
    global _process  # noqa: PLW0603 - after a fork, the child forgets what the parent drew
    if _process != os.getpid():
        _process = os.getpid()
        _unused.clear()
    try:
        return _unused.pop()
    except IndexError:
        digits = os.urandom(16 * _MANY).hex()
        _unused.extend(digits[start : start + 32] for start in range(32, len(digits), 32))
        return digits[:32]

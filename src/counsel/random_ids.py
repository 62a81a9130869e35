"""Random UUIDs, many from one system call."""

from __future__ import annotations

import os

_MANY = 128  # ids
_unused: list[str] = []
_process = 0  # whose they are: a child would make the same ids as its parent


def uuid4() -> str:
    """Like `str(uuid.uuid4())`, of which the system call is the larger part."""
    global _process  # noqa: PLW0603
    if not _unused or _process != os.getpid():
        _process = os.getpid()
        digits = os.urandom(16 * _MANY).hex()
        _unused[:] = [digits[start : start + 32] for start in range(0, len(digits), 32)]
    digits = _unused.pop()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"

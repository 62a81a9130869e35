"""Random numbers for names, many from one system call. Standard library only: the stdio front imports this.

Their first four digits are a clock, so that ids made at about the same time are neighbours in a database's indexes.
With random digits, each new row changed another page in each of six indexes: 56 KB were written per call instead of 26.
"""

from __future__ import annotations

import os
import time

CLOCK = 4  # digits of the clock
_TICKS = (
    16  # a second; the clock repeats after 68 minutes, so ids seen side by side differ in their first digits
)
_RANDOM = 28  # digits
_MANY = 128  # ids
_unused: list[str] = []


def uuid8() -> str:
    """A UUID of version 8, whose digits are free to choose: the clock and 106 random bits."""
    clock, rest = _clock(), _random()
    variant = "89ab"[int(rest[12], 16) & 3]
    return f"{clock}{rest[:4]}-{rest[4:8]}-8{rest[9:12]}-{variant}{rest[13:16]}-{rest[16:]}"


def key() -> str:
    """The key of a call: the clock, a dot, and 112 random bits."""
    return f"{_clock()}.{_random()}"


def _clock() -> str:
    return f"{int(time.time() * _TICKS) & 0xFFFF:04x}"


def _random() -> str:
    if not _unused:
        digits = os.urandom(_RANDOM // 2 * _MANY).hex()
        _unused.extend(digits[start : start + _RANDOM] for start in range(0, len(digits), _RANDOM))
    return _unused.pop()


if hasattr(os, "register_at_fork"):  # otherwise a child would use the same ids as its parent
    os.register_at_fork(after_in_child=_unused.clear)

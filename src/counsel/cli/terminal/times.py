"""Times and durations as people read them, in local time."""

from __future__ import annotations

import time
from datetime import datetime

_UNITS = ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s"))
_OLD = 60 * 86_400  # seconds; beyond this, a date says more


def seconds(iso: str) -> float:
    """The Unix time of a document's `2026-11-16T02:03:04.000Z`."""
    return datetime.fromisoformat(iso).timestamp()


def ago(at: float) -> str:
    """`2 min ago`; `just now` also for a time in the future (a clock that is behind); a date after 60 days."""
    age = time.time() - at
    if age < 5:
        return "just now"
    if age > _OLD:
        return time.strftime("%Y-%m-%d", time.localtime(at))
    size, name = next((size, name) for size, name in _UNITS if age >= size)
    count = int(age // size)
    return f"{count} {name}{'s' if name == 'day' and count > 1 else ''} ago"


def local(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def took(duration: float) -> str:
    """`0.8 s`, `185 s`, `42 min`, `5.5 h`: short enough for a column."""
    if duration < 10:
        return f"{duration:.1f} s"
    if duration < 600:
        return f"{duration:.0f} s"
    return f"{duration / 60:.0f} min" if duration < 3 * 3_600 else f"{duration / 3_600:.1f} h"

"""Counts of tokens as vendors and gateways report them: in one event or several, as numbers, text or null."""

from __future__ import annotations

from counsel.types import Json

_MOST = 10**12  # no call has more; the store's integers end somewhere, too


def number(value: object) -> int:
    """The count; 0 for anything that is none."""
    if type(value) is int and 0 <= value <= _MOST:
        return value
    try:
        count = int(value) if isinstance(value, int | float | str) else 0
    except (ValueError, OverflowError):
        return 0
    return min(max(count, 0), _MOST)


def merged(earlier: Json, newer: object) -> Json:
    """The counts with those of a newer event. They only grow: null or 0 means that this event does not state it."""
    counts = newer if isinstance(newer, dict) else {}
    return earlier | {name: value for name, value in counts.items() if value or name not in earlier}


def details(counts: Json, name: str) -> Json:
    inner = counts.get(name)
    return inner if isinstance(inner, dict) else {}

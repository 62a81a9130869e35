"""Counts of tokens as vendors and gateways report them: in one event or several, as numbers, text or null."""

from __future__ import annotations

from counsel.types import Json

_NUMBERS = (int, float, str)
_MOST = 10**12  # no call has more; the store's integers end somewhere, too


def number(value: object) -> int:
    """The count; 0 for anything that is none."""
    if type(value) is int and 0 <= value <= _MOST:
        return value
    try:
        count = int(float(value) if isinstance(value, str) else value) if isinstance(value, _NUMBERS) else 0
    except (ValueError, OverflowError):
        return 0
    return min(max(count, 0), _MOST)


def dollars(value: object) -> float | None:
    """An amount of money; None for anything that is none."""
    try:
        amount = float(value) if isinstance(value, _NUMBERS) and not isinstance(value, bool) else -1.0
    except (ValueError, OverflowError):
        return None
    return amount if 0 <= amount < _MOST else None


def merged(earlier: Json, newer: object) -> Json:
    """The counts with those of a newer event. They only grow: null or 0 means that this event does not state it."""
    counts = newer if isinstance(newer, dict) else {}
    return earlier | {name: value for name, value in counts.items() if value or name not in earlier}


def details(counts: Json, name: str) -> Json:
    inner = counts.get(name)
    return inner if isinstance(inner, dict) else {}

"""What two texts share at their ends. By chunks, which the C library compares: a loop over 6.6 MB would be ours."""

from typing import AnyStr

_CHUNK = 1 << 16


def differing(before: AnyStr, after: AnyStr) -> tuple[int, int]:
    """Start and end, in `before`, of what differs."""
    start = common_prefix(before, after)
    most = min(len(before), len(after)) - start
    return start, len(before) - min(most, common_suffix(before, after))


def common_prefix(one: AnyStr, other: AnyStr) -> int:
    most = min(len(one), len(other))
    for start in range(0, most, _CHUNK):
        piece = other[start : min(start + _CHUNK, most)]
        if not one.startswith(piece, start):
            return start + _first_difference(one[start : start + len(piece)], piece)
    return most


def common_suffix(one: AnyStr, other: AnyStr) -> int:
    most = min(len(one), len(other))
    for done in range(0, most, _CHUNK):
        size = min(_CHUNK, most - done)
        piece = other[len(other) - done - size : len(other) - done]
        if not one.startswith(piece, len(one) - done - size):
            left = one[len(one) - done - size : len(one) - done]
            return done + _first_difference(left[::-1], piece[::-1])
    return most


def _first_difference(one: AnyStr, other: AnyStr) -> int:
    """By halving, of two texts that differ."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

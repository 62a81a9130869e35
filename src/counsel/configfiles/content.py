"""A file's new content: bytes, or its current bytes with one span replaced, which are not copied before writing."""

from collections.abc import Sequence
from typing import AnyStr, TypeAlias

from counsel.records import Record

_CHUNK = 1 << 16  # bytes compared per C call: a Python loop over 6.6 MB would be slow


class Spliced(Record):
    before: bytes
    start: int
    end: int
    new: bytes

    @property
    def changes(self) -> bool:
        return self.before[self.start : self.end] != self.new

    def __repr__(self) -> str:  # no content: it may hold secrets
        return f"Spliced({self.start}, {self.end})"


Content: TypeAlias = bytes | Spliced


def as_bytes(content: Content | None) -> bytes | None:
    return b"".join(pieces(content)) if isinstance(content, Spliced) else content


def pieces(content: Content) -> Sequence[bytes | memoryview]:
    """The parts to write, in order."""
    if isinstance(content, bytes):
        return (content,)
    view = memoryview(content.before)
    return view[: content.start], content.new, view[content.end :]


def size(content: Content) -> int:
    return sum(map(len, pieces(content)))


def difference(before: bytes, content: Content) -> tuple[int, int, bytes]:
    """The smallest span of `before` that changes, and its replacement."""
    base, old, new = 0, before, content
    if isinstance(content, Spliced):
        base, old, new = content.start, before[content.start : content.end], content.new
    assert isinstance(new, bytes)
    start, end = differing_span(old, new)
    return base + start, base + end, new[start : len(new) - (len(old) - end)]


# ── differences between two texts ────────────────────────────────────────────────────────────────────


def differing_span(before: AnyStr, after: AnyStr) -> tuple[int, int]:
    """Start and end of the differing part of `before`."""
    start = common_prefix(before, after)
    most = min(len(before), len(after)) - start
    return start, len(before) - min(most, common_suffix(before, after))


def common_prefix(first: AnyStr, second: AnyStr) -> int:
    shorter = min(len(first), len(second))
    for start in range(0, shorter, _CHUNK):
        piece = second[start : min(start + _CHUNK, shorter)]
        if not first.startswith(piece, start):
            return start + _first_difference(first[start : start + len(piece)], piece)
    return shorter


def common_suffix(first: AnyStr, second: AnyStr) -> int:
    shorter = min(len(first), len(second))
    for count in range(0, shorter, _CHUNK):
        length = min(_CHUNK, shorter - count)
        piece = second[len(second) - count - length : len(second) - count]
        if not first.startswith(piece, len(first) - count - length):
            other_piece = first[len(first) - count - length : len(first) - count]
            return count + _first_difference(other_piece[::-1], piece[::-1])
    return shorter


def _first_difference(first: AnyStr, second: AnyStr) -> int:
    """By bisection, for two texts that differ."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

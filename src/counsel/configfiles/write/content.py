"""What a file shall hold: bytes, or the bytes it holds now with one span changed, which are not copied to be written."""

from collections.abc import Sequence
from typing import TypeAlias

from counsel.configfiles.write import overlap
from counsel.records import Record


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


def whole(content: Content | None) -> bytes | None:
    return b"".join(pieces(content)) if isinstance(content, Spliced) else content


def pieces(content: Content) -> Sequence[bytes | memoryview]:
    """What is to be written, one after the other."""
    if isinstance(content, bytes):
        return (content,)
    view = memoryview(content.before)
    return view[: content.start], content.new, view[content.end :]


def size(content: Content) -> int:
    return sum(map(len, pieces(content)))


def difference(before: bytes, content: Content) -> tuple[int, int, bytes]:
    """The smallest span of `before` that changes, and what takes its place."""
    base, old, new = 0, before, content
    if isinstance(content, Spliced):
        base, old, new = content.start, before[content.start : content.end], content.new
    assert isinstance(new, bytes)  # noqa: S101 - for mypy
    start, end = overlap.differing(old, new)
    return base + start, base + end, new[start : len(new) - (len(old) - end)]

"""A large JSON object that stores only its members' positions; a member is read on access.

Claude Code's projects are nearly all of its 6.6 MB: as objects they would take 20 MB, and more time to create than to read.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

Span: TypeAlias = tuple[int, int]  # from the start of a member's name to the end of its value


class Sparse(Mapping[str, Any]):
    def __init__(
        self,
        text: str,
        spans: Mapping[str, Span],
        read: Callable[[str, int], Any],
        changed: Mapping[str, object] | None = None,
    ) -> None:
        self.text = text
        self.spans = spans
        self._read = read  # reads the member whose name starts at an offset
        self.changed = changed or {}  # members that differ from the text

    def __getitem__(self, key: str) -> object:
        if key in self.changed:
            return self.changed[key]
        return self._read(self.text, self.spans[key][0])

    def __contains__(self, key: object) -> bool:
        return key in self.spans

    def __iter__(self) -> Iterator[str]:
        return iter(self.spans)

    def __len__(self) -> int:
        return len(self.spans)

    def having(self, key: str, value: object) -> "Sparse":
        """The same with another value for one member."""
        spans = self.spans if key in self.spans else {**self.spans, key: (0, 0)}
        return Sparse(self.text, spans, self._read, {**self.changed, key: value})

    def lacking(self, key: str) -> "Sparse":
        """The same without one member."""
        spans = {name: span for name, span in self.spans.items() if name != key}
        changed = {name: value for name, value in self.changed.items() if name != key}
        return Sparse(self.text, spans, self._read, changed)

    def unlike(self, other: "Sparse") -> Iterator[str]:
        """The members that are not in both, written with the same characters."""
        for key in (*self.spans, *(key for key in other.spans if key not in self.spans)):
            if not self._written_like(other, key):
                yield key

    def _written_like(self, other: "Sparse", key: str) -> bool:
        if key in self.changed or key in other.changed or not (key in self.spans and key in other.spans):
            return False
        (start, end), (begin, stop) = self.spans[key], other.spans[key]
        if self.text is other.text:
            return (start, end) == (begin, stop)
        return end - start == stop - begin and self.text[start:end] == other.text[begin:stop]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sparse):
            return super().__eq__(other)
        return self.spans.keys() == other.spans.keys() and all(
            self[key] == other[key] for key in self.unlike(other)
        )

    __hash__ = None  # type: ignore[assignment]

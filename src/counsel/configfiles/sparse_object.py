"""A large JSON object that stores only its members' positions; a member is read on access.

Nearly all of Claude Code's 6.6 MB file is its projects: as Python objects they would take 20 MB, and creating them
would take longer than reading the text.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

Span: TypeAlias = tuple[int, int]  # from the start of a member's name to the end of its value


class Sparse(Mapping[str, Any]):
    def __init__(
        self,
        text: str,
        spans: Mapping[str, Span],
        read_member: Callable[[str, int], Any],
        overrides: Mapping[str, object] | None = None,
    ) -> None:
        self.text = text
        self.spans = spans
        self._read_member = read_member  # takes the text and the offset of a member's name
        self.overrides = overrides or {}  # members that differ from the text

    def __getitem__(self, key: str) -> object:
        if key in self.overrides:
            return self.overrides[key]
        return self._read_member(self.text, self.spans[key][0])

    def __contains__(self, key: object) -> bool:
        return key in self.spans

    def __iter__(self) -> Iterator[str]:
        return iter(self.spans)

    def __len__(self) -> int:
        return len(self.spans)

    def with_member(self, key: str, value: object) -> "Sparse":
        """A copy with another value for one member."""
        spans = self.spans if key in self.spans else {**self.spans, key: (0, 0)}
        return Sparse(self.text, spans, self._read_member, {**self.overrides, key: value})

    def without_member(self, key: str) -> "Sparse":
        """A copy without one member."""
        spans = {name: span for name, span in self.spans.items() if name != key}
        overrides = {name: value for name, value in self.overrides.items() if name != key}
        return Sparse(self.text, spans, self._read_member, overrides)

    def differing_keys(self, other: "Sparse") -> Iterator[str]:
        """The members that are missing in one object or whose text differs."""
        for key in (*self.spans, *(key for key in other.spans if key not in self.spans)):
            if not self._has_same_text(other, key):
                yield key

    def _has_same_text(self, other: "Sparse", key: str) -> bool:
        if key in self.overrides or key in other.overrides or not (key in self.spans and key in other.spans):
            return False
        (start, end), (begin, stop) = self.spans[key], other.spans[key]
        if self.text is other.text:
            return (start, end) == (begin, stop)
        return end - start == stop - begin and self.text[start:end] == other.text[begin:stop]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sparse):
            return super().__eq__(other)
        return self.spans.keys() == other.spans.keys() and all(
            self[key] == other[key] for key in self.differing_keys(other)
        )

    __hash__ = None  # type: ignore[assignment]

"""A JSONC text with everything that is not JSON replaced by spaces: all offsets stay valid in the user's text."""

import re
from typing import Self

from counsel.records import Record

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_COMMENT = rf"(?s){_STRING}|//[^\n\r]*|/\*.*?\*/"  # compiled when a file has comments
_LAST_COMMA = r",(?=[ \t\r\n]*[}\]])"
_COMMA = f"(?s){_STRING}|{_LAST_COMMA}"


class Plain(Record):
    """`text` is as long as `original`, with comments and trailing commas replaced by spaces."""

    original: str
    text: str
    comments: bool
    comment_spans: tuple[tuple[int, int], ...] = ()
    trailing_commas: frozenset[int] = frozenset()  # offsets

    @classmethod
    def of(cls, original: str, *, comments: bool) -> Self:
        text = f" {original[1:]}" if original.startswith("\ufeff") else original
        if not comments:
            return cls(original, text, comments)
        comment_spans: list[tuple[int, int]] = []

        def blank(match: re.Match[str]) -> str:
            if match[0][0] != "/":
                return match[0]
            comment_spans.append(match.span())
            return re.sub(r"[^\r\n]", " ", match[0])

        if "//" in text or "/*" in text:
            text = re.sub(_COMMENT, blank, text)
        trailing_commas: list[int] = []

        def blank_comma(match: re.Match[str]) -> str:
            if match[0] != "," or _last_token(text, match.start()) in "{[,:":
                return match[0]
            trailing_commas.append(match.start())
            return " "

        without = re.sub(_COMMA, blank_comma, text) if re.search(_LAST_COMMA, text) else text
        return cls(original, without, comments, tuple(comment_spans), frozenset(trailing_commas))

    def last_comment_end(self, start: int, end: int) -> int | None:
        """Where the last comment between two offsets ends."""
        return next(
            (span[1] for span in reversed(self.comment_spans) if start <= span[0] and span[1] <= end), None
        )

    def ends_line_comment(self, end: int) -> bool:
        """Whether a `//` comment ends at `end`: what follows it must start on a new line."""
        return any(span[1] == end and self.original.startswith("//", span[0]) for span in self.comment_spans)

    def space_before(self, end: int) -> int:
        """Where the white space before `end` starts; blanks at the end of a `//` comment belong to the comment."""
        floor = next((span[1] for span in reversed(self.comment_spans) if span[1] <= end), 0)
        return max(floor, _space_before(self.original, end))

    def comment_before_newline(self, start: int) -> bool:
        line = end_of_line(self.original, start)
        return any(start <= span[0] < line for span in self.comment_spans)


def skip(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    assert match is not None  # the pattern matches the empty string
    return match.end()


def _last_token(text: str, end: int) -> str:
    return text[_space_before(text, end) - 1 : _space_before(text, end)]


def _space_before(text: str, end: int) -> int:
    start = end
    while start > 0 and text[start - 1] in " \t\r\n":
        start -= 1
    return start


def end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end

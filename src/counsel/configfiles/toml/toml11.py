"""TOML 1.1 converted to TOML 1.0, which is all that `tomllib` reads.

Codex reads 1.1 (measured, 0.166): inline tables over several lines, with comments and a trailing comma; `\\e` and
`\\xHH`; times without seconds.
"""

import re

from counsel.configfiles.toml.scan import BLANK, STRING

_TOKEN = re.compile(
    rf"(?P<string>{STRING.pattern})|(?P<comment>#[^\n]*)|(?P<break>\r?\n)|(?P<mark>[\[\]{{}},])"
    r"|(?P<time>(?<![\w:.+-])(?:\d{4}-\d\d-\d\d[Tt ])?\d\d:\d\d(?![:\d]))",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:(e)|x([0-9A-Fa-f]{2})|.)", re.DOTALL)


class Toml10:
    """The text in TOML 1.0, and the positions of its characters in the original."""

    def __init__(self, text: str) -> None:
        self.original = text
        self.splices: list[tuple[int, int, str]] = []
        self._open: list[int] = []  # the enclosing brackets
        self._comma = -1  # offset of the last comma in an inline table
        for token in _TOKEN.finditer(text):
            self._take(token)
        self.splices.sort()
        pieces, position = list[str](), 0
        for start, end, new in self.splices:
            pieces += (text[position:start], new)
            position = end
        self.text = "".join((*pieces, text[position:]))

    def original_offset(self, offset: int) -> int:
        """The position in the original of the character at `offset`."""
        growth = 0
        for start, end, new in self.splices:
            if start + growth >= offset:
                break
            growth += len(new) - (end - start)
        return max(0, offset - growth)

    def _take(self, token: re.Match[str]) -> None:
        if token["mark"]:
            self._bracket(token[0], token.start())
        elif token["time"]:
            self.splices.append((token.end(), token.end(), ":00"))
        elif token["string"]:
            if token[0][0] == '"':
                self._escapes(token)
        elif self._inline() and not self._within_pair(*token.span()):
            self.splices.append((*token.span(), " " * len(token[0])))

    def _inline(self) -> bool:
        return bool(self._open) and self.original[self._open[-1]] == "{"

    def _within_pair(self, start: int, end: int) -> bool:
        """Whether the span is next to a dot or an equals sign, where TOML allows no line break."""
        while self.original[start - 1] in " \t":
            start -= 1
        return self.original[start - 1] in "=." or self.original.startswith(("=", "."), self._blank(end))

    def _bracket(self, mark: str, offset: int) -> None:
        if mark in "[{":
            self._open.append(offset)
        elif mark == ",":
            self._comma = offset if self._inline() else self._comma
        else:
            if mark == "}" and self._inline() and self._is_last(self._comma, offset):
                self.splices.append((self._comma, self._comma + 1, " "))
            del self._open[-1:]

    def _is_last(self, comma: int, end: int) -> bool:
        """Whether the comma is a trailing one: after a member, with only blanks up to `end`."""
        start = self._open[-1]
        after_member = start < comma and self._blank(start + 1) < comma
        return after_member and self._blank(comma + 1) == end and not self._within_pair(comma, end)

    def _blank(self, offset: int) -> int:
        match = BLANK.match(self.original, offset)
        return match.end() if match else offset

    def _escapes(self, token: re.Match[str]) -> None:
        for match in _ESCAPE.finditer(token[0]):
            if code := "1b" if match[1] else match[2]:
                start, end = (token.start() + offset for offset in match.span())
                self.splices.append((start, end, f"\\u00{code}"))

"""The positions of statements in a TOML text that `tomllib` has accepted: the scanner finds spans, checks nothing."""

import re
import tomllib
from typing import Literal, TypeAlias

from counsel.records import Record

# A path through tables. A number is an element of an array of tables; no path of an edit contains one.
TablePath: TypeAlias = tuple[str | int, ...]

_TOP: TablePath = ()

BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_BEFORE_KEY = re.compile(r"[ \t]*(?:\[\[?[ \t]*)?")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
STRING = re.compile(
    r'''"""(?:\\.|[^\\])*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:'{0,2})|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'''', re.DOTALL
)
_SCALAR = re.compile(r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]+|[^\s,\]}#]+")


class Value(Record):
    start: int
    end: int
    kind: Literal["scalar", "array", "inline"]
    members: "tuple[Member, ...]" = ()  # an inline table's
    items: "tuple[Item, ...]" = ()  # an array's


class Item(Record):
    start: int
    end: int
    comma: int | None


class Member(Record):
    """`key = value` inside an inline table."""

    keys: tuple[str, ...]
    start: int
    value: Value
    comma: int | None


class Statement(Record):
    """A header, or a `key = value`. `start` and `end` are those of its lines, with the line break."""

    kind: Literal["table", "array", "pair"]
    path: TablePath
    start: int
    end: int
    keys: tuple[str, ...]
    section: int  # the statement number of its header; -1 at the top
    stop: int  # where its value or closing bracket ends: a comment may follow
    value: Value | None = None


def scan(text: str) -> list[Statement]:
    return _Scanner(text).statements()


def spans_at(text: str, offset: int) -> list[tuple[int, int]]:
    """The spans of the parts of the dotted key that starts at `offset`."""
    spans: list[tuple[int, int]] = []
    while match := _KEY.match(text, offset):
        spans.append(match.span())
        dot = _DOT.match(text, match.end())
        if not dot:
            break
        offset = dot.end()
    return spans


def key_spans(text: str, statement: Statement) -> list[tuple[int, int]]:
    """The spans of the parts of the key of a header or of a `key = value`."""
    match = _BEFORE_KEY.match(text, statement.start)
    assert match is not None  # the pattern matches the empty string
    return spans_at(text, match.end())


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.counts: dict[TablePath, int] = {}

    def statements(self) -> list[Statement]:
        result: list[Statement] = []
        section, header = -1, _TOP
        offset = self._blank(1 if self.text.startswith("\ufeff") else 0)
        while offset < len(self.text):
            if self.text[offset] == "[":
                statement = self._header(offset, len(result))
                section, header = len(result), statement.path
            else:
                statement = self._pair(offset, header, section)
            result.append(statement)
            offset = self._blank(statement.end)
        return result

    def _header(self, offset: int, number: int) -> Statement:
        double = self.text.startswith("[[", offset)
        keys, stop = self._keys(self._space(offset + (2 if double else 1)))
        stop = self.text.index("]", stop) + (2 if double else 1)
        path: TablePath = (*self._resolved(keys[:-1]), keys[-1])
        if double:
            self.counts[path] = self.counts.get(path, -1) + 1
            path = (*path, self.counts[path])
        elif path in self.counts:
            path = (*path, self.counts[path])
        start, end = self._lines(offset, stop)
        return Statement("array" if double else "table", path, start, end, keys, number, stop, None)

    def _resolved(self, keys: tuple[str, ...]) -> TablePath:
        """The keys as a path: a header that goes through an array of tables refers to its last element."""
        path: TablePath = ()
        for key in keys:
            path = (*path, key)
            if path in self.counts:
                path = (*path, self.counts[path])
        return path

    def _pair(self, offset: int, header: TablePath, section: int) -> Statement:
        keys, after = self._keys(offset)
        value = self._value(self._space(self.text.index("=", after) + 1))
        start, end = self._lines(offset, value.end)
        return Statement("pair", (*header, *keys), start, end, keys, section, value.end, value)

    def _lines(self, first: int, last: int) -> tuple[int, int]:
        end = self.text.find("\n", last)
        start = self.text.rfind("\n", 0, first) + 1
        if start == 0 and self.text.startswith("\ufeff"):
            start = 1
        return start, len(self.text) if end < 0 else end + 1

    def _keys(self, offset: int) -> tuple[tuple[str, ...], int]:
        keys: list[str] = []
        while True:
            match = _KEY.match(self.text, offset)
            assert match is not None  # tomllib has accepted this text
            keys.append(_unquoted(match[0]))
            dot = _DOT.match(self.text, match.end())
            if not dot:
                return tuple(keys), match.end()
            offset = dot.end()

    def _value(self, offset: int) -> Value:
        if self.text[offset] == "[":
            return self._array(offset)
        if self.text[offset] == "{":
            return self._inline(offset)
        match = STRING.match(self.text, offset) or _SCALAR.match(self.text, offset)
        assert match is not None  # tomllib has accepted this text
        return Value(offset, match.end(), "scalar", (), ())

    def _array(self, start: int) -> Value:
        items: list[Item] = []
        offset = self._blank(start + 1)
        while self.text[offset] != "]":
            value = self._value(offset)
            offset = self._blank(value.end)
            comma = offset if self.text[offset] == "," else None
            items.append(Item(value.start, value.end, comma))
            offset = self._blank(offset + 1) if comma is not None else offset
        return Value(start, offset + 1, "array", (), tuple(items))

    def _inline(self, start: int) -> Value:
        members: list[Member] = []
        offset = self._blank(start + 1)
        while self.text[offset] != "}":
            first = offset
            keys, after = self._keys(offset)
            value = self._value(self._blank(self.text.index("=", after) + 1))
            offset = self._blank(value.end)
            comma = offset if self.text[offset] == "," else None
            members.append(Member(keys, first, value, comma))
            offset = self._blank(offset + 1) if comma is not None else offset
        return Value(start, offset + 1, "inline", tuple(members), ())

    def _blank(self, offset: int) -> int:
        match = BLANK.match(self.text, offset)
        assert match is not None  # the pattern matches the empty string
        return match.end()

    def _space(self, offset: int) -> int:
        match = _SPACE.match(self.text, offset)
        assert match is not None  # the pattern matches the empty string
        return match.end()


def _unquoted(key: str) -> str:
    if key[0] == "'":
        return key[1:-1]
    if key[0] != '"':
        return key
    if "\\" not in key:
        return key[1:-1]
    from counsel.configfiles.toml.toml11 import Toml10  # toml11 imports this module

    return str(tomllib.loads(Toml10(f"k = {key}").text)["k"])

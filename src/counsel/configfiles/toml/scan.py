"""The positions of statements in a TOML text that `tomllib` has accepted: this scanner only finds spans."""

import re
import tomllib
from typing import Literal, TypeAlias

from counsel.records import Record

# A path through tables; a number is an element of an array of tables, so that it equals no path of an edit.
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
    """A header, or a `key = value`. `start` and `end` are those of its lines, the line break included."""

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


def spans_at(text: str, at: int) -> list[tuple[int, int]]:
    """The spans of the parts of the dotted key that starts here."""
    spans: list[tuple[int, int]] = []
    while match := _KEY.match(text, at):
        spans.append(match.span())
        dot = _DOT.match(text, match.end())
        if not dot:
            break
        at = dot.end()
    return spans


def key_spans(text: str, statement: Statement) -> list[tuple[int, int]]:
    """The same of a header, or of a `key = value`."""
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
        at = self._blank(1 if self.text.startswith("\ufeff") else 0)
        while at < len(self.text):
            if self.text[at] == "[":
                statement = self._header(at, len(result))
                section, header = len(result), statement.path
            else:
                statement = self._pair(at, header, section)
            result.append(statement)
            at = self._blank(statement.end)
        return result

    def _header(self, at: int, number: int) -> Statement:
        double = self.text.startswith("[[", at)
        keys, stop = self._keys(self._space(at + (2 if double else 1)))
        stop = self.text.index("]", stop) + (2 if double else 1)
        path: TablePath = (*self._resolved(keys[:-1]), keys[-1])
        if double:
            self.counts[path] = self.counts.get(path, -1) + 1
            path = (*path, self.counts[path])
        elif path in self.counts:
            path = (*path, self.counts[path])
        start, end = self._lines(at, stop)
        return Statement("array" if double else "table", path, start, end, keys, number, stop, None)

    def _resolved(self, keys: tuple[str, ...]) -> TablePath:
        """Through an array of tables, a header refers to its last element."""
        path: TablePath = ()
        for key in keys:
            path = (*path, key)
            if path in self.counts:
                path = (*path, self.counts[path])
        return path

    def _pair(self, at: int, header: TablePath, section: int) -> Statement:
        keys, after = self._keys(at)
        value = self._value(self._space(self.text.index("=", after) + 1))
        start, end = self._lines(at, value.end)
        return Statement("pair", (*header, *keys), start, end, keys, section, value.end, value)

    def _lines(self, first: int, last: int) -> tuple[int, int]:
        end = self.text.find("\n", last)
        start = self.text.rfind("\n", 0, first) + 1
        if start == 0 and self.text.startswith("\ufeff"):
            start = 1
        return start, len(self.text) if end < 0 else end + 1

    def _keys(self, at: int) -> tuple[tuple[str, ...], int]:
        keys: list[str] = []
        while True:
            match = _KEY.match(self.text, at)
            assert match is not None  # tomllib has accepted this text
            keys.append(_unquoted(match[0]))
            dot = _DOT.match(self.text, match.end())
            if not dot:
                return tuple(keys), match.end()
            at = dot.end()

    def _value(self, at: int) -> Value:
        if self.text[at] == "[":
            return self._array(at)
        if self.text[at] == "{":
            return self._inline(at)
        match = STRING.match(self.text, at) or _SCALAR.match(self.text, at)
        assert match is not None  # tomllib has accepted this text
        return Value(at, match.end(), "scalar", (), ())

    def _array(self, start: int) -> Value:
        items: list[Item] = []
        at = self._blank(start + 1)
        while self.text[at] != "]":
            value = self._value(at)
            at = self._blank(value.end)
            comma = at if self.text[at] == "," else None
            items.append(Item(value.start, value.end, comma))
            at = self._blank(at + 1) if comma is not None else at
        return Value(start, at + 1, "array", (), tuple(items))

    def _inline(self, start: int) -> Value:
        members: list[Member] = []
        at = self._blank(start + 1)
        while self.text[at] != "}":
            first = at
            keys, after = self._keys(at)
            value = self._value(self._blank(self.text.index("=", after) + 1))
            at = self._blank(value.end)
            comma = at if self.text[at] == "," else None
            members.append(Member(keys, first, value, comma))
            at = self._blank(at + 1) if comma is not None else at
        return Value(start, at + 1, "inline", tuple(members), ())

    def _blank(self, at: int) -> int:
        match = BLANK.match(self.text, at)
        assert match is not None  # the pattern matches the empty string
        return match.end()

    def _space(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        assert match is not None  # the pattern matches the empty string
        return match.end()


def _unquoted(key: str) -> str:
    if key[0] == "'":
        return key[1:-1]
    if key[0] != '"':
        return key
    if "\\" not in key:
        return key[1:-1]
    from counsel.configfiles.toml.toml11 import Older  # it needs this module

    return str(tomllib.loads(Older(f"k = {key}").text)["k"])

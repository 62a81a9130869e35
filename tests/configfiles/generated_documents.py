"""Generated documents in every layout that the formats allow, with their values."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

KEYS = st.sampled_from(
    ["a", "b", "mcpServers", "x y", "é", "k.1", "", "$", "name", "/home/u/p", "😀", 'q"\\']
)
JSON_LEAVES = st.sampled_from(
    [
        ("1", 1),
        ("-0", 0),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1.50", 1.5),
        ("1E3", 1000.0),
        ("true", True),
        ("false", False),
        ("null", None),
        ('""', ""),
        (r'"\u00e9\/\n"', "é/\n"),
        (r'"\ud83d\ude00"', "😀"),
        ('"// no comment, /* nor this */ {[,]}"', "// no comment, /* nor this */ {[,]}"),
        (r'"a\"b\\"', 'a"b\\'),
    ]
)

NEWLINES = st.sampled_from(["\n", "\r\n"])
UNITS = st.sampled_from(["  ", "    ", "\t", ""])
MARKS = st.sampled_from(["", "\ufeff"])
NAMES = st.lists(KEYS, max_size=4)  # a name may repeat: the last counts
GAPS = st.sampled_from(["", " "])


def blanks(newline: str, *, comments: bool) -> st.SearchStrategy[str]:
    """Up to two pieces of white space or comments, as a single choice: four times as fast as a list of pieces."""
    pieces = ["", "", "", " ", "\t", newline]
    if comments:
        pieces += [" /* c, { */ ", f'// c ] " {newline}', "/**/"]
    pairs = [first + second for first in pieces for second in pieces]
    return st.sampled_from(["", *pieces, *pairs])


BLANKS = {
    (newline, comments): blanks(newline, comments=comments)
    for newline in ("\n", "\r\n")
    for comments in (False, True)
}


@dataclass
class GeneratedDocument:
    text: str = ""
    value: Any = None
    spans: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)  # of the values
    members: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)  # with their names
    repeated: set[tuple[str, ...]] = field(default_factory=set)  # names that an object has twice


class JsonMaker:
    """Draws one document; `comments` turns on JSONC's additions."""

    def __init__(self, draw: st.DrawFn, *, comments: bool) -> None:
        self.draw = draw
        self.comments = comments
        self.newline = draw(NEWLINES)
        self.unit = draw(UNITS)
        self.neat = draw(st.booleans())
        self.blanks = BLANKS[self.newline, comments]
        self.result = GeneratedDocument()

    def document(self) -> GeneratedDocument:
        out = self.result
        out.text = self.draw(MARKS)
        self._blank()
        out.value = self._object((), 0)
        self._blank()
        return out

    def _emit(self, text: str) -> None:
        self.result.text += text

    def _blank(self) -> None:
        self._emit(self.draw(self.blanks))

    def _break(self, depth: int, *, lines: bool) -> None:
        if not self.neat:
            self._blank()
        elif lines:
            note = self.comments and self.draw(st.integers(0, 3)) == 0
            self._emit((" // note" if note else "") + self.newline + self.unit * depth)

    def _value(self, path: tuple[str, ...], depth: int) -> Any:
        start = len(self.result.text)
        objects = 3 if depth < 3 else 1  # of six: what is edited stands two and three objects deep
        kind = self.draw(st.integers(0, 5)) if depth < 4 else 5
        if kind < objects:
            value: Any = self._object(path, depth)
        elif kind == objects:
            value = self._array(depth)
        else:
            raw, value = self.draw(JSON_LEAVES)
            self._emit(raw)
        self.result.spans[path] = (start, len(self.result.text))
        return value

    def _object(self, path: tuple[str, ...], depth: int) -> dict[str, Any]:
        names = self.draw(NAMES)
        value: dict[str, Any] = {}
        lines = self.draw(st.booleans())
        self._emit("{")
        for index, name in enumerate(names):
            self._break(depth + 1, lines=lines)
            start = len(self.result.text)
            self._emit(json.dumps(name, ensure_ascii=self.draw(st.booleans())))
            self._gap()
            self._emit(":")
            self._gap()
            if name in value:
                self.result.repeated.add((*path, name))
            value[name] = self._value((*path, name), depth + 1)
            self.result.members[*path, name] = (start, len(self.result.text))
            self._comma(index == len(names) - 1)
        self._break(depth, lines=lines and bool(names))
        self._emit("}")
        return value

    def _array(self, depth: int) -> list[Any]:
        count = self.draw(st.integers(0, 3))
        value = []
        lines = self.draw(st.booleans())
        self._emit("[")
        for index in range(count):
            self._break(depth + 1, lines=lines)
            value.append(self._value(("[]",), depth + 1))
            self._comma(index == count - 1)
        self._break(depth, lines=lines and count > 0)
        self._emit("]")
        return value

    def _gap(self) -> None:
        if self.neat:
            self._emit(self.draw(GAPS))
        else:
            self._blank()

    def _comma(self, last: bool) -> None:
        if not self.neat:
            self._blank()
        if not last or (self.comments and self.draw(st.integers(0, 2)) == 0):
            self._emit(",")


@st.composite
def json_documents(draw: st.DrawFn, *, comments: bool) -> GeneratedDocument:
    return JsonMaker(draw, comments=comments).document()


# ── TOML ─────────────────────────────────────────────────────────────────────────────────────────────

TOML_LEAVES = st.sampled_from(
    [
        "1",
        "0x1F",
        "1_000",
        "1.5e3",
        "nan",
        "-inf",
        "true",
        '"text"',
        '"# no comment [x]"',
        "'literal \\ text'",
        '"""multi\nline "quoted" # x\n[not.a.table]"""',
        "'''raw\n[mcp_servers.no]\n'''",
        '""""quotes""""',
        "1979-05-27T07:32:00Z",
        "1979-05-27 07:32:00",
        "1979-05-27",
        "07:32:00",
        "[1, 2, 3]",
        "[]",
        "[\n  1, # one\n  # two\n  2,\n]",
        "[\n  1, # one\n  2\n]",
        "[1,\n2]",
        "[ 1 , 2 , ]",
        "[ ]",
        "[ # none\n]",
        "[[1], ['a']]",
        "{}",
        "{ a = 1, b.c = 'x' }",
        "{ a = { b = [1, { c = 2 }] } }",
        '[{ a = 1 }, { a = "}" }]',
        "{\n  a = 1, # one\n  # two\n  b.c = 2,\n}",
        "{ # none\n}",
        '"\\e[0m \\x41"',
        "1979-05-27 07:32Z",
    ]
)
TOML_KEYS = st.sampled_from(
    [
        *("a", "b", "c-d", "e_1", '"x y"', "'l.k'", "1", '"é"', "d.e", 'd . "f g"', "h.i.j"),
        *("mcp_servers.a.command", "mcp_servers.b", "mcp_servers . a . env.K"),
    ]
)
LAYOUTS = st.tuples(
    st.sampled_from(["", "", "  ", "\t"]),
    st.sampled_from([" = ", "=", "\t=  "]),
    st.sampled_from(["", "", " ", " # note", "  # [x]"]),
)
COMMENTS = st.sampled_from(["", "", "", "# comment\n", "# [mcp_servers.commented]\n", "\n", "  \n"])

PAIR_KEYS = st.lists(TOML_KEYS, unique=True, max_size=3)
HEADERS = st.lists(
    st.sampled_from(
        [
            "[mcp_servers.a]\n",
            "[mcp_servers.b]  # note\n",
            "[mcp_servers.b.env]\n",
            '[ mcp_servers . "c d" ]\n',
            "[mcp_servers]\n",
            "[other]\n",
            "  [other.deep.er]\n",
            "[[list]]\n",
            "[[list]] # the second\n",
            "[list.in]\n",
            "[[mcp_servers.b.tools]]\n",
            '[projects."/home/u/q"]\n',
        ]
    ),
    unique=True,
    max_size=5,
)


@st.composite
def toml_documents(draw: st.DrawFn) -> str:
    """A text that is usually valid TOML; the tests ask tomllib and skip the others."""
    parts = [draw(COMMENTS), *_pairs(draw)]
    for header in draw(HEADERS):
        parts += [draw(COMMENTS), header, *_pairs(draw)]
    parts.append(draw(COMMENTS))
    text = "".join(parts)
    if draw(st.booleans()):
        text = text.rstrip("\n")
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(MARKS) + text


def _pairs(draw: st.DrawFn) -> list[str]:
    pairs = []
    for key in draw(PAIR_KEYS):
        indent, equals, note = draw(LAYOUTS)
        pairs.append(f"{indent}{key}{equals}{draw(TOML_LEAVES)}{note}\n{draw(COMMENTS)}")
    return pairs

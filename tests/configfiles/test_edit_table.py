"""Many edits of many small documents: the exact text of every result (tests/golden/edits.txt).

`COUNSEL_GOLDEN=write pytest …` rewrites the file: only for an intended change, and read the difference first.
"""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any, Literal

import pytest

from counsel.configfiles.document import parse
from counsel.configfiles.edits import MISSING, AddItem, Drop, DropItem, Edit, Put, Rename, lookup
from counsel.errors import CounselError

GOLDEN = Path(__file__).parent.parent / "golden" / "edits.txt"
Kind = Literal["json", "jsonc", "toml"]

JSON_TEXTS = [
    "", "{}", "{ }", "{\n}\n", '{"s": {}}', '{"s": { }}', '{"s": {"a": 1}}', '{"s":{"a":1,"b":2}}', '{ "s": { "a": 1 } }',
    '{\n  "s": {\n    "a": 1,\n    "b": 2\n  },\n  "l": [\n    "x",\n    "y"\n  ]\n}\n', '{\n\t"s": {\n\t\t"a": {\n\t\t\t"k": 1\n\t\t}\n\t}\n}',
    '{\r\n    "s": {\r\n        "a": 1\r\n    }\r\n}', '{"l": []}', '{"l": ["x"]}', '{"l": ["x", "y", "x"]}', '{"l": [\n  "x"\n]}', '{"s": {"a": 1}, "s": {"b": 2}}',
    '{"s": 5}', '{"l": 5}', '{"l": "x"}', '{"s": null, "l": null}', '{\n  "s": {\n    "a": 1, "b": 2\n  }\n}', '{"é": {"a": "ü"}, "s": {"a": "\\u00fc"}}', "[1]", '{"s": {"a": 1}', '{"s": {"a": 1,}}', "nonsense",
]  # fmt: skip
JSONC_TEXTS = [
    '{"s": {"a": 1,},}', '// head\n{\n  // about s\n  "s": {\n    "a": 1, // one\n    /* two */ "b": 2 // end\n  }\n}\n// tail\n', '{\n  "s": {\n    "a": 1 // one\n    // last\n  }\n}',
    '{\n  "s": {\n    // nothing\n  },\n  "l": [\n    // nothing\n  ],\n}', '{"l": ["x", /* y */ "y",]}', '{\n  "l": [\n    "x", // ex\n    // why\n    "y"\n  ]\n}', '{"s": {"a": 1 /* { */}}', "/* only */", '{"s": {/* in */}}',
]  # fmt: skip
TOML_TEXTS = [
    "", "\n", "# only a comment\n", "x = 1", "x = 1\n\n[s]\na = 1\n", "[s]\na = 1\nb = 2 # two\n\n[t]\nc = 3\n", "[s.a]\nk = 1\n\n[s.b]\nk = 2\n", "s = {a = 1}\n", "s = { a = 1, b = 2 }\n", "s = {a = 1 }\n", "s = {}\n", "s = { }\n",
    "s.a = 1\ns.b = 2\n", "[s]\n", "[s]\na = {k = 1}\n", "[s]\na.k = 1\na.l = 2\n", 'l = ["x"]\n', 'l = ["x", "y", "x"]\n', 'l = [\n  "x", # ex\n  "y",\n]\n', 'l = [\n    "x",\n    # why\n    "y"\n]\n', "l = []\n", "l = [\n]\n", "l = [ ]\n",
    "[[l]]\nk = 1\n\n[[l]]\nk = 2\n", "# head\n\n[s] # about s\n# about a\na = 1\n\n# about t\n[t]\n", '[s."a b"]\nk = 1\n', "[ s ]\na=1\n", "x = 1\r\n\r\n[s]\r\na = 1\r\n", 's = """\nlong\n"""\n', "[s]\na = '''\nx\n'''\nb = 2\n", "s = 5\n", "l = 5\n",
    "[s]\n  a = 1\n  b = 2\n", "[t]\nc = 3\n[s]\na = 1\n[u]\n", "[s.a.deep]\nk = 1\n", "[s]\na = 1\n[s]\n", "a = ", "[s\n", "s = {a = 1, b = {c = 2, d = 3}}\n", "s = {\n  a = 1,\n  b = 2,\n}\n",
]  # fmt: skip
NEWER = {"s = {\n  a = 1,\n  b = 2,\n}\n"}  # TOML 1.1, which `tomllib` does not read
NEW: Any = {"command": "c", "args": ["x", "y"], "env": {"K": "v"}}
EDITS: dict[str, list[Edit]] = {
    "put s.x": [Put(("s", "x"), 2)],
    "put s.a": [Put(("s", "a"), "new")],
    "put s.a.k": [Put(("s", "a", "k"), True)],
    "put s.n as a server": [Put(("s", "n"), NEW)],
    "put s": [Put(("s",), {"only": 1})],
    "put empty": [Put(("s", "x"), {}), Put(("m",), [])],
    "drop s.a": [Drop(("s", "a"))],
    "drop s.b": [Drop(("s", "b"))],
    "drop s.a and s.b": [Drop(("s", "a")), Drop(("s", "b"))],
    "drop s": [Drop(("s",))],
    "drop what is not there": [Drop(("q", "r"))],
    "add an item": [AddItem(("l",), "z")],
    "add two items below s": [AddItem(("s", "l"), 1), AddItem(("s", "l"), 2)],
    "drop an item": [DropItem(("l",), "x")],
    "drop all items": [DropItem(("l",), "x"), DropItem(("l",), "y")],
    "put the list shorter": [Put(("l",), ["y"])],
    "put the list changed": [Put(("l",), ["x", "q", "y"])],
    "rename s.a": [Rename(("s", "a"), "z z")],
    "move": [Drop(("s", "a")), Put(("t", "a"), 1)],
}


def outcome(kind: Kind, text: str, edits: list[Edit]) -> str:
    try:
        return parse(text, kind).edited(edits).text
    except CounselError as error:
        return f"{type(error).__name__}"


def documents() -> list[tuple[Kind, str]]:
    rows: list[tuple[Kind, list[str]]] = [("json", JSON_TEXTS), ("jsonc", JSONC_TEXTS), ("toml", TOML_TEXTS)]
    return [(kind, text) for kind, texts in rows for text in texts]


def test_every_edit_of_every_document_gives_the_stated_text() -> None:
    lines = []
    for kind, text in documents():
        lines.append(f"{kind} {json.dumps(text, ensure_ascii=False)}")
        for name, edits in EDITS.items():
            if (after := outcome(kind, text, edits)) != text:
                lines.append(f"    {name}: {json.dumps(after, ensure_ascii=False)}")
    golden_text = "\n".join(lines) + "\n"
    if os.environ.get("COUNSEL_GOLDEN") == "write":
        GOLDEN.write_text(golden_text, encoding="utf-8")
    assert golden_text == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EDITS)
def test_what_was_written_means_what_was_asked_for(name: str) -> None:
    """Checked with the standard library's own readers."""
    for kind, text in documents():
        if kind == "jsonc" or text in NEWER or (after := outcome(kind, text, EDITS[name])).isidentifier():
            continue
        value = (tomllib.loads if kind == "toml" else json.loads)(after or ("" if kind == "toml" else "{}"))
        for edit in EDITS[name]:
            if isinstance(edit, Put) and edit.value not in ({}, []):
                assert lookup(value, edit.path) == edit.value, (text, after)
            elif isinstance(edit, Drop):
                assert lookup(value, edit.path) is MISSING, (text, after)
            elif isinstance(edit, AddItem):
                assert edit.value in lookup(value, edit.path), (text, after)

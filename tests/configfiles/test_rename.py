"""Rename a member: only the characters of its name change."""

from __future__ import annotations

import pytest

from counsel.configfiles.document import Kind, parse
from counsel.configfiles.edits import Rename

CASES: list[tuple[Kind, tuple[str, ...], str, str]] = [
    (
        "json",
        ("a", "old"),
        '{"a": {"old": {"x": "old"}, "b": 1}}',
        '{"a": {"new one": {"x": "old"}, "b": 1}}',
    ),
    ("json", ("old",), '{ "\\u006fld" :1,"z":"old"}', '{ "new one" :1,"z":"old"}'),
    ("json", ("a", "old"), '{"a": {"old": 1, "old": 2}}', '{"a": {"new one": 1, "new one": 2}}'),
    (
        "jsonc",
        ("a", "old"),
        '{"a": { // old\n  "old" /* old */: 1, // one\n}}',
        '{"a": { // old\n  "new one" /* old */: 1, // one\n}}',
    ),
    ("json", ("a", "old"), '{"a": {"b": 1}}', '{"a": {"b": 1}}'),
    (
        "toml",
        ("a", "old"),
        '[a.old] # old\nx = "old"\n[a.old.env]\nY = 1\n[a.other]\n',
        '[a."new one"] # old\nx = "old"\n[a."new one".env]\nY = 1\n[a.other]\n',
    ),
    ("toml", ("a", "old"), '[ a . "old" ]\nx = 1\n', '[ a . "new one" ]\nx = 1\n'),
    (
        "toml",
        ("a", "old"),
        "[a]\nold.x = 1\nold.y.z = 2\nb.old = 3\n",
        '[a]\n"new one".x = 1\n"new one".y.z = 2\nb.old = 3\n',
    ),
    ("toml", ("a", "old"), "a.old.x = 1\r\na.b = 2\r\n", 'a."new one".x = 1\r\na.b = 2\r\n'),
    (
        "toml",
        ("a", "old"),
        "a = { old = { x = 1 }, b = 2 } # old\n",
        'a = { "new one" = { x = 1 }, b = 2 } # old\n',
    ),
    ("toml", ("a", "old"), "a = { old.x = 1, old.y = 2 }\n", 'a = { "new one".x = 1, "new one".y = 2 }\n'),
    (
        "toml",
        ("a", "old"),
        "[[a.old]]\nx = 1\n[[a.old]]\nx = 2\n",
        '[[a."new one"]]\nx = 1\n[[a."new one"]]\nx = 2\n',
    ),
    ("toml", ("a", "old"), "[a]\nold = 1 # old\n", '[a]\n"new one" = 1 # old\n'),
]


@pytest.mark.parametrize(("kind", "path", "before", "after"), CASES)
def test_only_the_name_changes(kind: Kind, path: tuple[str, ...], before: str, after: str) -> None:
    document = parse(before, kind)
    result = document.edited([Rename(path, "new one")])
    assert result.text == after
    back = result.edited([Rename((*path[:-1], "new one"), path[-1])])
    assert back.value == document.value

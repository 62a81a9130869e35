"""Layouts that people and clients write, and the exact text after an edit."""

from __future__ import annotations

import textwrap

import pytest

from counsel.configfiles.document import parse
from counsel.configfiles.edits import MISSING, AddItem, Drop, DropItem, Edit, Put
from counsel.configfiles.json import read
from counsel.errors import ConfigInvalid

NEW = {"command": "c", "args": []}

JSON_ADDED = {
    "two spaces": ('{\n  "s": {\n    "a": 1\n  }\n}', '{\n  "s": {\n    "a": 1,\n    "x": 2\n  }\n}'),
    "tabs and CRLF": (
        '{\r\n\t"s": {\r\n\t\t"a": 1\r\n\t}\r\n}\r\n',
        '{\r\n\t"s": {\r\n\t\t"a": 1,\r\n\t\t"x": 2\r\n\t}\r\n}\r\n',
    ),
    "one line": ('{"s": {"a": 1}}', '{"s": {"a": 1, "x": 2}}'),
    "compact": ('{"s":{"a":1}}', '{"s":{"a":1,"x":2}}'),
    "empty": ('{\n    "s": {}\n}', '{\n    "s": {\n        "x": 2\n    }\n}'),
    "missing": ('{\n  "t": 0\n}\n', '{\n  "t": 0,\n  "s": {\n    "x": 2\n  }\n}\n'),
    "no file": ("", '{\n  "s": {\n    "x": 2\n  }\n}'),
    "mark": ('\ufeff{"s": {}}', '\ufeff{"s": {"x": 2}}'),
    "repeated key": ('{"s": {"b": 1}, "s": {"a": 1}}', '{"s": {"b": 1}, "s": {"a": 1, "x": 2}}'),
}
JSONC_ADDED = {
    "note at the end of the line": (
        '{\n  "s": {\n    "a": 1 // one\n  }\n}',
        '{\n  "s": {\n    "a": 1, // one\n    "x": 2\n  }\n}',
    ),
    "trailing comma": ('{\n  "s": {\n    "a": 1,\n  },\n}', '{\n  "s": {\n    "a": 1,\n    "x": 2,\n  },\n}'),
    "only a note": (
        '{\n  "s": {\n    // none yet\n  }\n}',
        '{\n  "s": {\n    // none yet\n    "x": 2\n  }\n}',
    ),
    "block note": ('{"s": {"a": 1 /* , */}}', '{"s": {"a": 1, /* , */ "x": 2}}'),
}


def test_json_text_is_written_as_it_is_read_and_only_half_characters_are_escaped() -> None:
    after = parse('{"s": {}}', "json").set_member(("s", "é"), "naïve 🦉 \ud83e").text
    assert after == '{"s": {"é": "naïve 🦉 \\ud83e"}}'


@pytest.mark.parametrize(("before", "after"), JSON_ADDED.values(), ids=JSON_ADDED.keys())
def test_json_is_added_in_the_neighbours_style(before: str, after: str) -> None:
    assert parse(before, "json").set_member(("s", "x"), 2).text == after


@pytest.mark.parametrize(("before", "after"), JSONC_ADDED.values(), ids=JSONC_ADDED.keys())
def test_jsonc_is_added_in_the_neighbours_style(before: str, after: str) -> None:
    assert parse(before, "jsonc").set_member(("s", "x"), 2).text == after


def test_removing_keeps_notes_and_the_neighbours_lines() -> None:
    before = '{\n  "a": 1, // one\n  // about x\n  "x": 2, // two\n  "b": 3\n}'
    after = parse(before, "jsonc").remove_member(("x",)).text
    assert after == '{\n  "a": 1, // one\n  // about x\n  // two\n  "b": 3\n}'


@pytest.mark.parametrize("large", [read._LARGE, -1])
def test_removing_a_repeated_key_removes_all_of_it(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_LARGE", large)
    assert parse('{"x": 1, "a": 0, "x": 2}', "json").remove_member(("x",)).text == '{"a": 0}'
    inside = parse('{"t": {"s": {"b": 1}, "a": 1, "s": 2}}', "json").remove_member(("t", "s"))
    assert inside.text == '{"t": {"a": 1}}'


def test_an_edit_between_members_of_one_name_loses_no_other_member() -> None:
    before = parse('{"a": [1], "b": "", "a": [2]}', "json")
    for length in range(1, 40):  # one of them moves the second as far as it is from the first
        after = before.set_member(("b",), "x" * length)
        assert after.value == {"a": [2], "b": "x" * length}


def test_an_object_that_loses_its_last_member_keeps_its_notes() -> None:
    before = '{"t": {"s": {\n    // note\n    "a": 1\n  }}}'
    after = parse(before, "jsonc").set_member(("t",), {"s": {}}).text
    assert after == '{"t": {"s": {\n    // note\n  }}}'


def test_several_edits_in_one_go_touch_only_their_members() -> None:
    before = '{"s": {"a": {"k": 1, "big": 123456789012345678901234567890, "f": 1.0}}, "z": [ 1,2 ]}'
    edits: list[Edit] = [Put(("s", "a", "k"), "v"), AddItem(("s", "a", "list"), "i"), AddItem(("z",), 3)]
    after = parse(before, "json").edited(edits).text
    assert after == (
        '{"s": {"a": {"k": "v", "big": 123456789012345678901234567890, "f": 1.0, "list": ["i"]}}, "z": [ 1,2,3 ]}'
    )


def test_each_edit_starts_from_what_the_one_before_left() -> None:
    document = parse('{"s": {"x": {"k": 1, "l": 2}}}', "json")
    again = document.edited([Drop(("s", "x")), Put(("s", "x"), {"k": 1, "l": 2})])
    assert again.text == '{"s": {"x": {"k": 1, "l": 2}}}'
    back = document.edited([Put(("s", "x"), {"k": 5}), Put(("s", "x"), {"k": 1, "l": 2})])
    assert back.text == '{"s": {"x": {"k": 1, "l": 2}}}'


@pytest.mark.parametrize("kind", ["json", "jsonc"])
@pytest.mark.parametrize("first", [("a",), ("b", "c")])
def test_a_large_object_that_an_edit_moved_can_be_edited(
    kind: str, first: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "_LARGE", -1)
    before = '{"a": 1, "b": {"c": 1}, "p": {"x": {"k": 1}, "y": {"k": 2}}}'
    document = parse(before, kind).set_member(first, "longer")  # type: ignore[arg-type]
    assert document.set_member(("p", "y", "k"), 3).text == document.text.replace("2", "3")


@pytest.mark.parametrize(
    ("empty", "kind", "expected"), [("{}", "json", '{\n  "k": 1\n}'), ("# note\n", "toml", "k = 1\n# note\n")]
)
def test_an_empty_document_becomes_another_one(empty: str, kind: str, expected: str) -> None:
    assert parse(empty, kind).set_member((), {"k": 1}).text == expected  # type: ignore[arg-type]


def test_an_equal_object_is_not_rewritten() -> None:
    before = '{"a" :{"k" : 1 , "l":[ ]}}'
    assert parse(before, "json").set_member(("a",), {"l": [], "k": 1}).text == before


def test_numbers_that_python_cannot_hold_are_written_as_numbers() -> None:
    document = parse(f'{{"n": {"9" * 5000}, "m": -1E400}}', "json")
    copy = document.edited([Put(("c", name), document.get((name,))) for name in ("n", "m")])
    assert copy.text.endswith(f'"c": {{"n": {"9" * 5000}, "m": -1e999}}}}')


def test_a_number_that_json_does_not_have_is_not_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        parse('{"a": 1}', "json").set_member(("a",), float("nan"))


def test_huge_integers_are_kept_and_compared() -> None:
    text = f'{{"n": {"9" * 5000}}}'
    assert parse(text, "json").set_member(("x",), 1).text == f'{{"n": {"9" * 5000}, "x": 1}}'


@pytest.mark.parametrize(
    ("text", "kind", "line", "column"),
    [
        ('{\n  "a": 1,\n}', "json", 3, 1),
        ("{\n  // note\n}", "json", 2, 3),
        ('{"a": NaN}', "json", 1, 7),
        ("{,}", "jsonc", 1, 2),
        ('{"a": 1,,}', "jsonc", 1, 9),
        ('{"a": 1} x', "jsonc", 1, 10),
        ("[1]", "json", 1, 1),
        ('{"a": "unclosed', "json", 1, 7),
        ('{"a": {"b": 1 "c": 2}}', "json", 1, 15),
        ('{"a": {"b": 1,}}', "json", 1, 15),
        ('{"a": {"b" 1}}', "json", 1, 12),
        ('{"a": {b: 1}}', "json", 1, 8),
        ("a = 1\nb = \n", "toml", 2, 5),
        ("[x]\na = 1\na = 2\n", "toml", 3, 6),
        ('t = 07:32\ne = "\\e"\na = {\n  b = 1,\n}\nc = = 2\n', "toml", 6, 5),
        ("a = {\n  b = 1,\n  c = ,\n}\n", "toml", 3, 7),
        ("a = { , }\n", "toml", 1, 7),
        ("a = { b =\n 1 }\n", "toml", 1, 10),
        ("a = [\n  1, " + "9" * 5000 + "]\n", "toml", 2, 6),
    ],
)
@pytest.mark.parametrize("size", ["small", "large"])
def test_malformed_text_is_refused_with_its_place(
    text: str, kind: str, line: int, column: int, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if size == "large":
        monkeypatch.setattr(read, "_LARGE", -1)
    with pytest.raises(ConfigInvalid) as failure:
        parse(text, kind)  # type: ignore[arg-type]
    places = {(line, column)}
    if text == '{"a": {"b": 1,}}':
        places.add((line, column - 1))  # since Python 3.13 json names the comma, not what follows it
    assert (failure.value.line, failure.value.column) in places


def test_nesting_beyond_the_parser_is_refused() -> None:
    with pytest.raises(ConfigInvalid):
        parse('{"a":' * 100_000, "json")


def toml(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def test_a_table_joins_its_family() -> None:
    before = toml("""
        # my comment
        model = "gpt-5"   # trailing

        [mcp_servers.old]   # kept
        command = "echo"
        args = [
          "a", # first
        ]
        # env = { A = "1" }

        # trusted
        [projects."/home/u/q"]
        trust_level = "trusted"
    """)
    new = '\n[mcp_servers."a b"]\ncommand = "c"\nargs = []\n'
    after = parse(before, "toml").set_member(("mcp_servers", "a b"), NEW).text
    assert after == before.replace('# env = { A = "1" }\n', f'# env = {{ A = "1" }}\n{new}')


def test_dotted_keys_stay_dotted_and_nothing_moves() -> None:
    before = 'mcp_servers.a.command="x"\nmodel="y"\n'
    after = parse(before, "toml").set_member(("mcp_servers", "b"), NEW)
    assert (
        after.text
        == 'mcp_servers.a.command="x"\nmcp_servers.b.command = "c"\nmcp_servers.b.args = []\nmodel="y"\n'
    )
    assert after.get(("model",)) == "y"


def test_inline_tables_are_extended_inline() -> None:
    before = 'mcp_servers = { a = { command = "x" } } # all\n'
    after = parse(before, "toml").set_member(("mcp_servers", "a", "env"), {"K": "v"}).text
    assert after == 'mcp_servers = { a = { command = "x", env = { K = "v" } } } # all\n'


def test_crlf_and_a_byte_order_mark_are_kept() -> None:
    before = '\ufeff[mcp_servers.a]\r\ncommand = "x"'
    document = parse(before, "toml").set_member(("mcp_servers", "a", "enabled"), value=False)
    assert document.text == '\ufeff[mcp_servers.a]\r\ncommand = "x"\r\nenabled = false'


def test_a_removed_key_leaves_its_comment() -> None:
    before = "[a]\nk = 1  # why\nl = [1, # one\n]\n"
    after = parse(before, "toml").remove_member(("a", "k"))
    assert after.text == "[a]\n# why\nl = [1, # one\n]\n"
    assert after.get(("a", "k")) is MISSING


def test_untouched_oddities_survive_a_toml_edit() -> None:
    before = "n = nan\nbig = 1_000\n[[list]]\na = 1\n[[list]]\na = 2\n[list.in]\nb = 1979-05-27 07:32:00\n"
    after = parse(before, "toml").set_member(("mcp_servers", "x"), NEW).text
    assert after == f'{before}\n[mcp_servers.x]\ncommand = "c"\nargs = []\n'


@pytest.mark.parametrize(
    ("before", "path"),
    [
        ("[a.b]\nk = 1\n", ("a",)),
        ("[a]\nb.k = 1 # note\n", ("a", "b")),
        ("a.b.k = 1", ("a", "b")),
        ("a = { b.k = 1 }", ("a", "b")),
        ("[a.b]\n[a.b.c]\nk = 1\n", ("a", "b")),
    ],
)
def test_a_table_can_be_emptied(before: str, path: tuple[str, ...]) -> None:
    after = parse(before, "toml").set_member(path, {})
    assert after.get(path) == {}
    assert after.text.count("#") == before.count("#")


def test_what_is_no_table_makes_room_for_one() -> None:
    before = "a = 1 # one\n[[l]]\nx = 1\n"
    after = parse(before, "toml").edited([Put(("a", "k"), 2), Put(("l", "k"), 3)])
    assert after.value == {"a": {"k": 2}, "l": {"k": 3}}
    assert "# one" in after.text


def test_a_last_line_without_a_break_keeps_its_blanks() -> None:
    before = '[a]\nk = "x"  '
    after = parse(before, "toml").set_member(("mcp_servers", "x"), NEW)
    assert after.text == f'{before}\n\n[mcp_servers.x]\ncommand = "c"\nargs = []'
    assert after.remove_member(("mcp_servers", "x")).text == before


def test_elements_of_an_array_of_tables_come_and_go_alone() -> None:
    before = "# first\n[[l]] # one\nk = 1\n\n[[l]]\nk = 2 # two\n[l.in]\nb = 0x1\n\n[z]\n"
    after = parse(before, "toml").edited([AddItem(("l",), {"in": {"c": 3}, "k": 3})])
    assert after.text == before.replace("\n[z]", "\n[[l]]\nk = 3\n\n[l.in]\nc = 3\n\n[z]")
    assert after.edited([DropItem(("l",), {"in": {"c": 3}, "k": 3})]).text == before
    fewer = parse(before, "toml").edited([DropItem(("l",), {"k": 1})])
    assert fewer.text == "# first\n\n[[l]]\nk = 2 # two\n[l.in]\nb = 0x1\n\n[z]\n"


def test_many_tables_side_by_side_are_as_if_added_one_by_one() -> None:
    before = "[mcp_servers.a]\ncommand = 'x'\n# its note\n\n[z]\n"
    puts = [Put(("mcp_servers", name), {**NEW, "env": {"K": name}}) for name in ("b", "c", "d")]
    one_by_one = parse(before, "toml")
    for put in puts:
        one_by_one = one_by_one.edited([put])
    together = parse(before, "toml").edited([*puts, Put(("mcp_servers", "b", "command"), "d")])
    assert together.text == one_by_one.set_member(("mcp_servers", "b", "command"), "d").text


def test_removing_several_at_once_equals_removing_one_by_one() -> None:
    before = "[s.a]\nk = 1\n\n[s.b] # b\n\n[t]\nd.x = 1 # x\nd.y = 2\n\n[s.c]\nk = { l = 1, m = 2 }\n"
    drops = [Drop(("s", "a")), Drop(("s", "b")), Drop(("t", "d")), Drop(("s", "c", "k", "l"))]
    one_by_one = parse(before, "toml")
    for drop in drops:
        one_by_one = one_by_one.edited([drop])
    assert parse(before, "toml").edited(drops).text == one_by_one.text
    assert one_by_one.text == "[t]\n# x\n\n[s.c]\nk = { m = 2 }\n"


@pytest.mark.parametrize("kind", ["[{}]\nk = 1\n", "{} = 1\n"])
def test_nesting_beyond_the_comparison_is_refused(kind: str) -> None:
    text = kind.format(".".join("a" * 3000))
    with pytest.raises(ConfigInvalid, match="nested too deeply"):
        parse(text, "toml").set_member(("b",), 1)


TOML_11 = """\
at = [07:32, 1979-05-27 07:32, 1979-05-27T07:32:01+01:00, 1979-05-27T07:32-01:00]
"\\x41" = "\\e[0m \\\\e \\x7a"

[mcp_servers]
a = {
  command = "x", # what
  # how
  args = [
    "}", # one
  ],
}
b = { # none
}
"""


def test_toml_1_1_is_read_as_codex_reads_it() -> None:
    value = parse(TOML_11, "toml").value
    assert value["mcp_servers"] == {"a": {"command": "x", "args": ["}"]}, "b": {}}
    assert value["A"] == "\x1b[0m \\e z"
    assert [str(time) for time in value["at"]] == [
        "07:32:00",
        "1979-05-27 07:32:00",
        "1979-05-27 07:32:01+01:00",
        "1979-05-27 07:32:00-01:00",
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (("a", "enabled"), "  ],\n}", "  ],\n  enabled = false,\n}"),
        (("b", "enabled"), "# none\n", "# none\n  enabled = false,\n"),
        (("a", "args"), '[\n    "}", # one\n  ]', "false"),
        (("c",), "b = { # none\n}\n", "b = { # none\n}\nc = false\n"),
    ],
)
def test_inline_tables_over_lines_are_edited_line_by_line(
    path: tuple[str, ...], old: str, new: str, newline: str
) -> None:
    before, old, new = (text.replace("\n", newline) for text in (TOML_11, old, new))
    after = parse(before, "toml").set_member(("mcp_servers", *path), value=False)
    assert after.text == before.replace(old, new)
    if path[-1] != "args":
        assert after.remove_member(("mcp_servers", *path)).text == before


def test_a_member_of_an_inline_table_over_lines_leaves_the_comments() -> None:
    after = parse(TOML_11, "toml").remove_member(("mcp_servers", "a", "command"))
    assert after.text == TOML_11.replace('  command = "x", # what', "   # what")


JSON_LIST = '{\n  "l": [\n    "a", // one\n    // two\n    "b"\n  ], "m": ["x", "y"]\n}'
TOML_BARE_LIST = "l = [\n  1, # one\n  2 # two\n]\ne = [ # none\n]\nb = [\n  1\n]\n"
TOML_LIST = 'l = [\r\n  "a", # one\r\n  # two\r\n  "b", # b\r\n]\r\nm = ["x", "y"]'


@pytest.mark.parametrize(
    ("text", "kind", "key", "value", "old", "new"),
    [
        (JSON_LIST, "jsonc", "l", ["a", "B"], '"b"', '"B"'),
        (JSON_LIST, "jsonc", "l", ["a", "b", "c", "d"], '"b"', '"b",\n    "c",\n    "d"'),
        (JSON_LIST, "jsonc", "l", ["a"], '"a", // one\n    // two\n    "b"', '"a" // one\n    // two'),
        (JSON_LIST, "jsonc", "m", ["x"], '["x", "y"]', '["x"]'),
        (JSON_LIST, "jsonc", "m", ["z", "y", "w"], '["x", "y"]', '["z", "y", "w"]'),
        (TOML_LIST, "toml", "l", ["A", "b"], '"a"', '"A"'),
        (TOML_LIST, "toml", "l", ["a", "b", "c"], "# b\r\n", '# b\r\n  "c",\r\n'),
        (TOML_LIST, "toml", "l", ["a"], '  "b", # b', "   # b"),
        (TOML_LIST, "toml", "l", ["b"], '  "a", # one', "   # one"),
        (TOML_LIST, "toml", "l", [], '"a", # one\r\n  # two\r\n  "b",', " # one\r\n  # two\r\n  "),
        (TOML_LIST, "toml", "m", ["y"], '["x", "y"]', '["y"]'),
        (TOML_BARE_LIST, "toml", "l", [1, 2, 3], "2 # two\n", "2, # two\n  3\n"),
        (TOML_BARE_LIST, "toml", "l", [1], "1, # one\n  2 #", "1 # one\n   #"),
        (TOML_BARE_LIST, "toml", "b", [1, 2], "  1\n", "  1,\n  2\n"),
        (TOML_BARE_LIST, "toml", "e", [1, 2], "# none\n", "# none\n  1,\n  2,\n"),
        (TOML_LIST, "toml", "m", ["x"], '["x", "y"]', '["x"]'),
        (TOML_LIST, "toml", "m", ["x", "y", "z"], '["x", "y"]', '["x", "y", "z"]'),
    ],
)
def test_lists_change_item_by_item(
    text: str, kind: str, key: str, value: list[str], old: str, new: str
) -> None:
    after = parse(text, kind).set_member((key,), value)  # type: ignore[arg-type]
    assert after.text == text.replace(old, new)


def test_items_that_stay_keep_their_comments_when_others_go() -> None:
    before = 'l = [\n  "a", # one\n  "b", # two\n  "c", # three\n  "d", # four\n]\n'
    document = parse(before, "toml")

    def lines_after(*items: str) -> list[str]:
        return [line.strip() for line in document.edited([Put(("l",), list(items))]).text.splitlines()[1:-1]]

    assert lines_after("b", "c", "d") == ["# one", '"b", # two', '"c", # three', '"d", # four']
    assert lines_after("a", "d") == ['"a", # one', "# two", "# three", '"d", # four']
    assert lines_after("a", "b") == ['"a", # one', '"b", # two', "# three", "# four"]

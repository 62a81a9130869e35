"""Properties of edits of TOML files."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st

from configfiles.edit_strategies import (
    LISTS,
    NEW_VALUES,
    any_edits,
    cases,
    equal_except,
    holders,
    merged,
    sorted_text,
    without_empty,
)
from configfiles.generated_documents import toml_documents
from counsel.configfiles.content import difference
from counsel.configfiles.document import parse
from counsel.configfiles.edits import MISSING, AddItem, DropItem, Put, alike, lookup, value_after
from counsel.configfiles.toml.scan import scan
from counsel.configfiles.toml.toml11 import Toml10
from counsel.configfiles.write.safewrite import Target
from counsel.configfiles.write.three_way import Span, without_change
from counsel.errors import ConfigInvalid, Conflict


@cases(
    90,
    900,
    toml_documents(),
    st.sampled_from(["zz", "z y"]),
    NEW_VALUES.filter(lambda value: isinstance(value, dict)),
)
def test_adding_to_toml_and_removing_again_gives_the_same_bytes(text: str, name: str, value: Any) -> None:
    before = valid_toml(text)
    assume(isinstance(before.get("mcp_servers", {}), dict))
    document = parse(text, "toml")
    path = ("mcp_servers", name)
    after = document.set_member(path, value)
    assert after.get(path) == value
    assert equal_except(before, tomllib.loads(Toml10(after.text.removeprefix("\ufeff")).text), path)
    assert after.remove_member(path).text == text


@cases(72, 700, toml_documents(), NEW_VALUES, st.data())
def test_fields_of_toml_tables_come_and_go(text: str, value: Any, data: st.DataObject) -> None:
    before = valid_toml(text)
    home = data.draw(st.sampled_from(holders(before)))
    path = (*home, "new field")
    document = parse(text, "toml")
    after = document.set_member(path, value)
    assert after.get(path) == value
    without_field = after.remove_member(path)
    assert sorted_text(without_field.value) == sorted_text(before)
    if isinstance(value, dict) or not only_below_headers(text, home):
        assert without_field.text == text


@cases(48, 400, toml_documents(), st.data())
def test_toml_members_can_be_replaced_and_removed(text: str, data: st.DataObject) -> None:
    before = valid_toml(text)
    members = [(*home, key) for home in holders(before) for key in lookup(before, home)]
    assume(members)
    path = data.draw(st.sampled_from(members))
    document = parse(text, "toml")
    assert document.set_member(path, "replaced").get(path) == "replaced"
    assert document.remove_member(path).get(path) is MISSING


@cases(60, 400, toml_documents(), st.data())
def test_toml_edits_of_all_kinds_follow_one_another(text: str, data: st.DataObject) -> None:
    valid_toml(text)
    document = parse(text, "toml")
    for _ in range(2):
        edits = any_edits(data, document.value)
        after = document.edited(edits)
        assert without_empty(after.value) == without_empty(value_after(document.value, edits))
        if isinstance(edits[-1], Put):
            assert alike(after.get(edits[-1].path), edits[-1].value)
        document = after


@cases(60, 400, toml_documents(), st.data())
def test_undo_takes_our_edits_out_of_toml_that_others_edited(text: str, data: st.DataObject) -> None:
    valid_toml(text)
    document = parse(text, "toml")
    ours = document.edited(any_edits(data, document.value))
    theirs = ours.edited(any_edits(data, ours.value))
    before, after, current = (version.encode() for version in (text, ours.text, theirs.text))
    span, target = Span(*difference(before, after)[:2]), Target(Path("f"), "toml")
    try:
        undone = without_change(span, target, before, after, current)
    except Conflict:
        return
    expected = merged(document.value, ours.value, theirs.value)
    assert without_empty(parse((undone or b"").decode(), "toml").value) == without_empty(expected)


@cases(40, 300, toml_documents(), st.sampled_from(["an item", {"an": {"item": 1}}]), st.data())
def test_toml_list_items_come_and_go(text: str, item: Any, data: st.DataObject) -> None:
    before = valid_toml(text)
    tables = {row.path[:-1] for row in scan(text) if row.kind == "array"}
    members = [(*home, key) for home in holders(before) for key in lookup(before, home)]
    lists = [path for path in members if isinstance(lookup(before, path), list)]
    lists = [path for path in lists if isinstance(item, dict) or path not in tables]
    assume(lists)
    path = data.draw(st.sampled_from(lists))
    after = parse(text, "toml").edited([AddItem(path, item)])
    assert after.get(path)[-1] == item
    assert after.edited([DropItem(path, item)]).text == text


@cases(30, 120, toml_documents(), LISTS, st.data())
def test_toml_lists_keep_their_comments(text: str, value: list[Any], data: st.DataObject) -> None:
    before = valid_toml(text)
    members = [(*home, key) for home in holders(before) for key in lookup(before, home)]
    lists = [path for path in members if isinstance(lookup(before, path), list) and lookup(before, path)]
    lists = [path for path in lists if all(isinstance(item, int) for item in lookup(before, path))]
    assume(lists)
    path = data.draw(st.sampled_from(lists))
    after = parse(text, "toml").set_member(path, value)
    assert after.get(path) == value
    assert after.text.count("#") == text.count("#")


def valid_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Toml10(text.removeprefix("\ufeff")).text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(ConfigInvalid):
            parse(text, "toml")
        assume(condition=False)
        raise AssertionError from None


def only_below_headers(text: str, home: tuple[str, ...]) -> bool:
    """Whether `[a]` exists only through `[a.b]`: then a new field of `a` needs a header of its own, which stays."""
    family = [row for row in scan(text) if row.path[: len(home)] == home]
    return all(
        (row.kind != "pair" and row.path != home) or len(row.path) - len(row.keys) > len(home)
        for row in family
    )

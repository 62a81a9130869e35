"""Properties of edits, checked with generated documents.

`make check` runs a few hundred cases, the `slow` marker two thousand, both with fixed seeds, so that failures can be
repeated. `make fuzz` runs fourteen thousand with other seeds, and new ones. A case that failed once becomes a line of
`test_layouts.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import assume
from hypothesis import strategies as st

from configfiles.edit_strategies import LISTS, NEW_VALUES, any_edits, cases, holders, merged, puts
from configfiles.generated_documents import GeneratedDocument, json_documents
from counsel.configfiles.content import as_bytes, difference
from counsel.configfiles.document import parse
from counsel.configfiles.edits import MISSING, AddItem, Drop, DropItem, Put, alike, lookup, value_after
from counsel.configfiles.json import read
from counsel.configfiles.write.safewrite import Target
from counsel.configfiles.write.three_way import Span, without_change
from counsel.errors import Conflict

NOTES = ("// c ]", "/* c, {", "/**/", "// note")


def as_kind(generated: GeneratedDocument, kind: str) -> Any:
    document = parse(generated.text, kind)  # type: ignore[arg-type]
    assert document.value == generated.value
    return document


JSON_KINDS = st.sampled_from(["json", "jsonc"]).flatmap(
    lambda kind: st.tuples(st.just(kind), json_documents(comments=kind == "jsonc"))
)


@cases(72, 600, JSON_KINDS, NEW_VALUES, st.data())
def test_adding_to_json_and_removing_again_gives_the_same_bytes(
    case: tuple[str, GeneratedDocument], value: Any, data: st.DataObject
) -> None:
    kind, generated = case
    document = as_kind(generated, kind)
    home = data.draw(st.sampled_from(holders(generated.value)))
    path = (*home, "new")
    after = document.set_member(path, value)
    assert after.value == value_after(generated.value, [*puts(path, value)])
    assert after.remove_member(path).text == generated.text


@cases(48, 300, JSON_KINDS, NEW_VALUES, st.data())
def test_setting_a_member_changes_only_its_value(
    case: tuple[str, GeneratedDocument], value: Any, data: st.DataObject
) -> None:
    kind, generated = case
    members = [
        path for path in generated.spans if "[]" not in path and lookup(generated.value, path) is not MISSING
    ]
    assume(members)
    path = data.draw(st.sampled_from(members))
    assume(not (isinstance(value, dict) and isinstance(lookup(generated.value, path), dict)))
    start, end = generated.spans[path]
    document = as_kind(generated, kind)
    after = document.set_member(path, value)
    assert after.get(path) == value
    assert after.text.startswith(generated.text[:start])
    assert after.text.endswith(generated.text[end:])


@cases(60, 300, JSON_KINDS, NEW_VALUES, st.data())
def test_a_large_document_is_edited_like_a_small_one(
    case: tuple[str, GeneratedDocument], value: Any, data: st.DataObject
) -> None:
    """Of large objects only the positions are stored: the only difference may be time and memory."""
    kind, generated = case
    path = (
        *data.draw(st.sampled_from(holders(generated.value))),
        data.draw(st.sampled_from(["new", "a", "b"])),
    )
    small = as_kind(generated, kind).set_member(path, value)
    with patch.object(read, "_LARGE", -1):
        large = as_kind(generated, kind).set_member(path, value)
        assert (large.text, large.value) == (small.text, small.value)
        assert large.remove_member(path).text == small.remove_member(path).text


@cases(60, 300, json_documents(comments=False), NEW_VALUES, st.data())
def test_large_objects_are_compared_like_small_ones(
    generated: GeneratedDocument, value: Any, data: st.DataObject
) -> None:
    """Members with equal text are compared without being read."""
    path = (
        *data.draw(st.sampled_from(holders(generated.value))),
        data.draw(st.sampled_from(["new", "a"])),
    )
    with patch.object(read, "_LARGE", -1):
        original = as_kind(generated, "json")
        edited_document = original.set_member(path, value)
        back = as_kind(GeneratedDocument(edited_document.text, edited_document.value), "json")
    plain = value_after(generated.value, [Put(path, value)])
    for version in (edited_document.value, back.value):
        assert (original.value == version) is (version == original.value) is (generated.value == plain)
        assert alike(original.value, version) is alike(generated.value, plain)
    assert edited_document.value == back.value == plain
    assert alike(edited_document.value, back.value)
    without_member, plain_without_member = (
        value_after(edited_document.value, [Drop(path)]),
        value_after(plain, [Drop(path)]),
    )
    assert without_member == plain_without_member
    assert list(value_after(edited_document.value, [Put(path, None)])) == list(
        value_after(plain, [Put(path, None)])
    )


@cases(60, 300, JSON_KINDS, st.lists(NEW_VALUES, min_size=1, max_size=2), st.data())
def test_an_edited_document_is_what_its_text_is_read_as(
    case: tuple[str, GeneratedDocument], values: list[Any], data: st.DataObject
) -> None:
    """An edit inside one member reads only that member again, and encodes the result without joining the text."""
    kind, generated = case
    inner = [path for path in holders(generated.value) if path]
    home = data.draw(st.sampled_from(inner or [()]))
    edits = [Put((*home, name), value) for name, value in zip(("new", "a"), values, strict=False)]
    after = as_kind(generated, kind).edited(edits)
    assert as_bytes(after.encoded(generated.text.encode())) == after.text.encode()
    again = as_kind(GeneratedDocument(after.text, after.value), kind)
    assert after.value == again.value


@cases(90, 500, JSON_KINDS, st.sampled_from([-1, 40, 1 << 18]), st.data())
def test_edits_of_all_kinds_follow_one_another(
    case: tuple[str, GeneratedDocument], size: int, data: st.DataObject
) -> None:
    """Edited documents, large and small, are edited again without being read in between."""
    kind, generated = case
    small, value = as_kind(generated, kind), generated.value
    with patch.object(read, "_LARGE", size):
        large = as_kind(generated, kind)
    for _ in range(2):
        edits = any_edits(data, value)
        value, before = value_after(value, edits), small.text.encode()
        small = small.edited(edits)
        with patch.object(read, "_LARGE", size):
            large = large.edited(edits)
            assert as_bytes(large.encoded(before)) == small.text.encode()
        assert alike(large.value, value)
        assert alike(parse(small.text, kind).value, value)  # type: ignore[arg-type]


@cases(60, 400, JSON_KINDS, st.sampled_from([-1, 1 << 18]), st.data())
def test_undo_takes_our_edits_out_of_what_others_made_of_the_file(
    case: tuple[str, GeneratedDocument], size: int, data: st.DataObject
) -> None:
    kind, generated = case
    ours = as_kind(generated, kind).edited(any_edits(data, generated.value))
    theirs = ours.edited(any_edits(data, ours.value))
    before, after, current = (text.encode() for text in (generated.text, ours.text, theirs.text))
    span, target = Span(*difference(before, after)[:2]), Target(Path("f"), kind)  # type: ignore[arg-type]
    with patch.object(read, "_LARGE", size):
        try:
            undone = without_change(span, target, before, after, current)
        except Conflict:
            return
    expected = merged(generated.value, ours.value, theirs.value)
    assert alike(parse((undone or b"").decode(), kind).value, expected)  # type: ignore[arg-type]


@cases(48, 300, JSON_KINDS, st.data())
def test_removing_a_member_keeps_every_comment_outside_it(
    case: tuple[str, GeneratedDocument], data: st.DataObject
) -> None:
    kind, generated = case
    members = [
        path for path in generated.spans if "[]" not in path and lookup(generated.value, path) is not MISSING
    ]
    assume(members)
    path = data.draw(st.sampled_from(members))
    after = as_kind(generated, kind).remove_member(path)
    assert after.get(path) is MISSING
    if not any(path[:depth] in generated.repeated for depth in range(1, len(path) + 1)):
        start, end = generated.members[path]
        outside = generated.text[:start] + generated.text[end:]
        assert [after.text.count(note) for note in NOTES] == [outside.count(note) for note in NOTES]


@cases(30, 250, JSON_KINDS, st.data())
def test_list_items_come_and_go(case: tuple[str, GeneratedDocument], data: st.DataObject) -> None:
    kind, generated = case
    lists = [
        path
        for path in generated.spans
        if "[]" not in path and isinstance(lookup(generated.value, path), list)
    ]
    assume(lists)
    path = data.draw(st.sampled_from(lists))
    after = as_kind(generated, kind).edited([AddItem(path, "an item")])
    assert after.get(path) == [*lookup(generated.value, path), "an item"]
    assert after.edited([DropItem(path, "an item")]).text == generated.text


@cases(36, 200, json_documents(comments=False))
def test_strict_json_is_read_as_the_standard_library_reads_it(generated: GeneratedDocument) -> None:
    assert parse(generated.text, "json").value == json.loads(generated.text.removeprefix("\ufeff"))


@cases(30, 120, JSON_KINDS, LISTS, st.data())
def test_json_lists_keep_their_comments(
    case: tuple[str, GeneratedDocument], value: list[Any], data: st.DataObject
) -> None:
    kind, generated = case
    lists = [
        path
        for path in generated.spans
        if "[]" not in path and isinstance(lookup(generated.value, path), list)
    ]
    assume(lists)
    path = data.draw(st.sampled_from(lists))
    flat = all(not isinstance(item, list | dict) for item in lookup(generated.value, path))
    after = as_kind(generated, kind).set_member(path, value)
    assert after.get(path) == value
    if kind == "jsonc" and flat and lookup(generated.value, path):
        assert (after.text.count("// c"), after.text.count("/* c")) == (
            generated.text.count("// c"),
            generated.text.count("/* c"),
        )

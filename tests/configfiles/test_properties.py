"""The promises of the editors, over generated documents.

`make check` runs a few hundred cases, the `slow` marker two thousand; both from fixed seeds, so that a failure
shows again. `make fuzz` runs fourteen thousand from other seeds, and new ones. A case that once failed becomes a line of `test_layouts.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import assume
from hypothesis import strategies as st

from configfiles.edit_strategies import LISTS, NEW_VALUES, any_edits, cases, holders, merged, puts
from configfiles.generated_documents import Made, json_documents
from counsel.configfiles.content import as_bytes, difference
from counsel.configfiles.document import parse
from counsel.configfiles.edits import MISSING, AddItem, Drop, DropItem, Put, alike, lookup, value_after
from counsel.configfiles.json import read
from counsel.configfiles.write.safewrite import Target
from counsel.configfiles.write.three_way import Span, without_change
from counsel.errors import Conflict

NOTES = ("// c ]", "/* c, {", "/**/", "// note")


def as_kind(made: Made, kind: str) -> Any:
    document = parse(made.text, kind)  # type: ignore[arg-type]
    assert document.value == made.value
    return document


JSON_KINDS = st.sampled_from(["json", "jsonc"]).flatmap(
    lambda kind: st.tuples(st.just(kind), json_documents(comments=kind == "jsonc"))
)


@cases(72, 600, JSON_KINDS, NEW_VALUES, st.data())
def test_adding_to_json_and_removing_again_gives_the_same_bytes(
    case: tuple[str, Made], value: Any, data: st.DataObject
) -> None:
    kind, made = case
    document = as_kind(made, kind)
    home = data.draw(st.sampled_from(holders(made.value)))
    path = (*home, "new")
    added = document.set_member(path, value)
    assert added.value == value_after(made.value, [*puts(path, value)])
    assert added.remove_member(path).text == made.text


@cases(48, 300, JSON_KINDS, NEW_VALUES, st.data())
def test_setting_a_member_changes_only_its_value(
    case: tuple[str, Made], value: Any, data: st.DataObject
) -> None:
    kind, made = case
    members = [path for path in made.spans if "[]" not in path and lookup(made.value, path) is not MISSING]
    assume(members)
    path = data.draw(st.sampled_from(members))
    assume(not (isinstance(value, dict) and isinstance(lookup(made.value, path), dict)))
    start, end = made.spans[path]
    document = as_kind(made, kind)
    after = document.set_member(path, value)
    assert after.get(path) == value
    assert after.text.startswith(made.text[:start])
    assert after.text.endswith(made.text[end:])


@cases(60, 300, JSON_KINDS, NEW_VALUES, st.data())
def test_a_large_document_is_edited_like_a_small_one(
    case: tuple[str, Made], value: Any, data: st.DataObject
) -> None:
    """Of large objects only the places are kept: nothing but time and memory may tell the difference."""
    kind, made = case
    path = (*data.draw(st.sampled_from(holders(made.value))), data.draw(st.sampled_from(["new", "a", "b"])))
    small = as_kind(made, kind).set_member(path, value)
    with patch.object(read, "_LARGE", -1):
        large = as_kind(made, kind).set_member(path, value)
        assert (large.text, large.value) == (small.text, small.value)
        assert large.remove_member(path).text == small.remove_member(path).text


@cases(60, 300, json_documents(comments=False), NEW_VALUES, st.data())
def test_large_objects_are_compared_like_small_ones(made: Made, value: Any, data: st.DataObject) -> None:
    """Members that are written alike are not read to be compared."""
    path = (*data.draw(st.sampled_from(holders(made.value))), data.draw(st.sampled_from(["new", "a"])))
    with patch.object(read, "_LARGE", -1):
        one = as_kind(made, "json")
        two = one.set_member(path, value)
        back = as_kind(Made(two.text, two.value), "json")
    plain = value_after(made.value, [Put(path, value)])
    for other in (two.value, back.value):
        assert (one.value == other) is (other == one.value) is (made.value == plain)
        assert alike(one.value, other) is alike(made.value, plain)
    assert two.value == back.value == plain
    assert alike(two.value, back.value)
    gone, left = value_after(two.value, [Drop(path)]), value_after(plain, [Drop(path)])
    assert gone == left
    assert list(value_after(two.value, [Put(path, None)])) == list(value_after(plain, [Put(path, None)]))


@cases(60, 300, JSON_KINDS, st.lists(NEW_VALUES, min_size=1, max_size=2), st.data())
def test_an_edited_document_is_what_its_text_is_read_as(
    case: tuple[str, Made], values: list[Any], data: st.DataObject
) -> None:
    """Inside one member an edit reads only that member again, and its bytes are put together without the text."""
    kind, made = case
    inner = [path for path in holders(made.value) if path]
    home = data.draw(st.sampled_from(inner or [()]))
    edits = [Put((*home, name), value) for name, value in zip(("new", "a"), values, strict=False)]
    after = as_kind(made, kind).edited(edits)
    assert as_bytes(after.encoded(made.text.encode())) == after.text.encode()
    again = as_kind(Made(after.text, after.value), kind)
    assert after.value == again.value


@cases(90, 500, JSON_KINDS, st.sampled_from([-1, 40, 1 << 18]), st.data())
def test_edits_of_all_kinds_follow_one_another(
    case: tuple[str, Made], size: int, data: st.DataObject
) -> None:
    """An edited document is edited again, large and small, without being read in between."""
    kind, made = case
    small, value = as_kind(made, kind), made.value
    with patch.object(read, "_LARGE", size):
        large = as_kind(made, kind)
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
    case: tuple[str, Made], size: int, data: st.DataObject
) -> None:
    kind, made = case
    ours = as_kind(made, kind).edited(any_edits(data, made.value))
    theirs = ours.edited(any_edits(data, ours.value))
    before, after, current = (text.encode() for text in (made.text, ours.text, theirs.text))
    span, target = Span(*difference(before, after)[:2]), Target(Path("f"), kind)  # type: ignore[arg-type]
    with patch.object(read, "_LARGE", size):
        try:
            undone = without_change(span, target, before, after, current)
        except Conflict:
            return
    wanted = merged(made.value, ours.value, theirs.value)
    assert alike(parse((undone or b"").decode(), kind).value, wanted)  # type: ignore[arg-type]


@cases(48, 300, JSON_KINDS, st.data())
def test_removing_a_member_keeps_every_comment_outside_it(
    case: tuple[str, Made], data: st.DataObject
) -> None:
    kind, made = case
    members = [path for path in made.spans if "[]" not in path and lookup(made.value, path) is not MISSING]
    assume(members)
    path = data.draw(st.sampled_from(members))
    after = as_kind(made, kind).remove_member(path)
    assert after.get(path) is MISSING
    if not any(path[:depth] in made.repeated for depth in range(1, len(path) + 1)):
        start, end = made.members[path]
        outside = made.text[:start] + made.text[end:]
        assert [after.text.count(note) for note in NOTES] == [outside.count(note) for note in NOTES]


@cases(30, 250, JSON_KINDS, st.data())
def test_list_items_come_and_go(case: tuple[str, Made], data: st.DataObject) -> None:
    kind, made = case
    lists = [path for path in made.spans if "[]" not in path and isinstance(lookup(made.value, path), list)]
    assume(lists)
    path = data.draw(st.sampled_from(lists))
    added = as_kind(made, kind).edited([AddItem(path, "an item")])
    assert added.get(path) == [*lookup(made.value, path), "an item"]
    assert added.edited([DropItem(path, "an item")]).text == made.text


@cases(36, 200, json_documents(comments=False))
def test_strict_json_is_read_as_the_standard_library_reads_it(made: Made) -> None:
    assert parse(made.text, "json").value == json.loads(made.text.removeprefix("\ufeff"))


@cases(30, 120, JSON_KINDS, LISTS, st.data())
def test_json_lists_keep_their_comments(
    case: tuple[str, Made], value: list[Any], data: st.DataObject
) -> None:
    kind, made = case
    lists = [path for path in made.spans if "[]" not in path and isinstance(lookup(made.value, path), list)]
    assume(lists)
    path = data.draw(st.sampled_from(lists))
    flat = all(not isinstance(item, list | dict) for item in lookup(made.value, path))
    after = as_kind(made, kind).set_member(path, value)
    assert after.get(path) == value
    if kind == "jsonc" and flat and lookup(made.value, path):
        assert (after.text.count("// c"), after.text.count("/* c")) == (
            made.text.count("// c"),
            made.text.count("/* c"),
        )

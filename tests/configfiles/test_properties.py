"""The promises of the editors, over generated documents.

`make check` runs a few hundred cases, the `slow` marker several thousand; both from fixed seeds, so that a failure
shows again. A case that once failed becomes a line of `test_layouts.py`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

from configfiles.generated_documents import Made, json_documents, toml_documents
from counsel.configfiles.document import parse
from counsel.configfiles.edits import MISSING, AddItem, Drop, DropItem, Edit, Put, alike, intended, lookup
from counsel.configfiles.json import read
from counsel.configfiles.toml.scan import scan
from counsel.configfiles.toml.toml11 import Older
from counsel.configfiles.write.content import difference, whole
from counsel.configfiles.write.safewrite import Target
from counsel.configfiles.write.three_way import Span, _same, without_change
from counsel.errors import ConfigInvalid, Conflict

CALM = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
NEW_VALUES = st.sampled_from(
    [
        {"type": "stdio", "command": "c", "args": ["-m", "x"], "env": {}},
        {"command": "c", "args": [], "env": {"A": "b"}},
        {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Two": '"2"'}},
        "é\\\x7f\t",
        [],
        ["a", 1],
        1,
        True,
        {},
    ]
)


def cases(
    few: int, many: int, *strategies: st.SearchStrategy[Any], seeds: tuple[int, ...] = (4, 44, 444)
) -> Callable[[Callable[..., None]], Callable[[int, int], None]]:
    """One property as a quick test and as slow ones with more cases and other seeds."""
    rows = [pytest.param(0, few, id="quick")]
    rows += [pytest.param(number, many, id=f"seed{number}", marks=pytest.mark.slow) for number in seeds]

    def wrap(check: Callable[..., None]) -> Callable[[int, int], None]:
        @pytest.mark.parametrize(("number", "count"), rows)
        def test(number: int, count: int) -> None:
            limits = settings(
                max_examples=count,
                deadline=None,
                database=None,
                suppress_health_check=CALM,
                phases=[Phase.explicit, Phase.generate, Phase.shrink],
            )
            seed(number)(limits(given(*strategies)(check)))()

        return test

    return wrap


NOTES = ("// c ]", "/* c, {", "/**/", "// note")


def as_kind(made: Made, kind: str) -> Any:
    document = parse(made.text, kind)  # type: ignore[arg-type]
    assert document.value == made.value
    return document


def holders(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path]
    for key, inner in value.items():
        if isinstance(inner, dict):
            found += holders(inner, (*path, key))
    return found


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
    assert added.value == intended(made.value, [*_puts(path, value)])
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
    plain = intended(made.value, [Put(path, value)])
    for other in (two.value, back.value):
        assert (one.value == other) is (other == one.value) is (made.value == plain)
        assert alike(one.value, other) is alike(made.value, plain)
    assert two.value == back.value == plain
    assert alike(two.value, back.value)
    gone, left = intended(two.value, [Drop(path)]), intended(plain, [Drop(path)])
    assert gone == left
    assert list(intended(two.value, [Put(path, None)])) == list(intended(plain, [Put(path, None)]))


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
    assert whole(after.encoded(made.text.encode())) == after.text.encode()
    again = as_kind(Made(after.text, after.value), kind)
    assert after.value == again.value


def any_edits(data: st.DataObject, value: Any) -> list[Edit]:
    """Up to three, each of what the one before left; often all below one object."""
    home = data.draw(st.sampled_from(holders(value)))
    found: list[Edit] = []
    for _ in range(data.draw(st.integers(1, 3))):
        inside = [path for path in holders(value) if path[: len(home)] == home] or holders(value)
        held = data.draw(st.sampled_from(inside))
        path = (*held, data.draw(st.sampled_from([*lookup(value, held), "new", "a"])))
        found.append(data.draw(any_edit(path, lookup(value, path))))
        value = intended(value, found[-1:])
    return found


def any_edit(path: tuple[str, ...], old: Any) -> st.SearchStrategy[Edit]:
    edits: list[st.SearchStrategy[Edit]] = [
        st.just(Drop(path)),
        NEW_VALUES.map(lambda value: Put(path, value)),
    ]
    if isinstance(old, list):
        items = [st.sampled_from(old)] if old else []
        edits += [st.one_of(*items, st.just(1)).map(lambda item: DropItem(path, item))]
    if old is MISSING or isinstance(old, list):
        edits += [NEW_VALUES.map(lambda value: AddItem(path, value))]
    if isinstance(old, dict):
        edits += [st.sampled_from([*old, "new"]).map(lambda key: Put(path, {**old, key: "other"}))]
    return st.one_of(edits)


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
        value, before = intended(value, edits), small.text.encode()
        small = small.edited(edits)
        with patch.object(read, "_LARGE", size):
            large = large.edited(edits)
            assert whole(large.encoded(before)) == small.text.encode()
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


def merged(before: Any, ours: Any, theirs: Any) -> Any:
    """Theirs without what is ours, member by member; an error where `undo` must refuse."""
    if _same(before, theirs) or _same(before, ours):
        return theirs
    if _same(ours, theirs):
        return before
    if theirs is MISSING:  # what we added is gone with its object
        assert merged(before, ours, {}) == {}
        return MISSING
    old = {} if before is MISSING else before
    assert isinstance(old, dict)
    both = {
        key: merged(*(one.get(key, MISSING) for one in (old, ours, theirs)))
        for key in {**theirs, **old, **ours}
    }
    return {key: value for key, value in both.items() if value is not MISSING}


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
    added = document.set_member(path, value)
    assert added.get(path) == value
    assert _same_but(before, tomllib.loads(Older(added.text.removeprefix("\ufeff")).text), path)
    assert added.remove_member(path).text == text


@cases(72, 700, toml_documents(), NEW_VALUES, st.data())
def test_fields_of_toml_tables_come_and_go(text: str, value: Any, data: st.DataObject) -> None:
    before = valid_toml(text)
    home = data.draw(st.sampled_from(holders(before)))
    path = (*home, "new field")
    document = parse(text, "toml")
    added = document.set_member(path, value)
    assert added.get(path) == value
    removed = added.remove_member(path)
    assert _sorted(removed.value) == _sorted(before)
    if isinstance(value, dict) or not only_below_headers(text, home):
        assert removed.text == text


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
        assert without_empty(after.value) == without_empty(intended(document.value, edits))
        if isinstance(edits[-1], Put):
            assert alike(after.get(edits[-1].path), edits[-1].value)
        document = after


@cases(60, 400, toml_documents(), st.data())
def test_undo_takes_our_edits_out_of_toml_that_others_edited(text: str, data: st.DataObject) -> None:
    valid_toml(text)
    document = parse(text, "toml")
    ours = document.edited(any_edits(data, document.value))
    theirs = ours.edited(any_edits(data, ours.value))
    before, after, current = (one.encode() for one in (text, ours.text, theirs.text))
    span, target = Span(*difference(before, after)[:2]), Target(Path("f"), "toml")
    try:
        undone = without_change(span, target, before, after, current)
    except Conflict:
        return
    wanted = merged(document.value, ours.value, theirs.value)
    assert without_empty(parse((undone or b"").decode(), "toml").value) == without_empty(wanted)


@cases(40, 300, toml_documents(), st.sampled_from(["an item", {"an": {"item": 1}}]), st.data())
def test_toml_list_items_come_and_go(text: str, item: Any, data: st.DataObject) -> None:
    before = valid_toml(text)
    tables = {one.path[:-1] for one in scan(text) if one.kind == "array"}
    members = [(*home, key) for home in holders(before) for key in lookup(before, home)]
    lists = [path for path in members if isinstance(lookup(before, path), list)]
    lists = [path for path in lists if isinstance(item, dict) or path not in tables]
    assume(lists)
    path = data.draw(st.sampled_from(lists))
    added = parse(text, "toml").edited([AddItem(path, item)])
    assert added.get(path)[-1] == item
    assert added.edited([DropItem(path, item)]).text == text


def without_empty(value: Any) -> Any:
    """Tables that hold nothing need no words in TOML, so they may come and go with what they held."""
    if not isinstance(value, dict):
        return value
    kept = {key: without_empty(inner) for key, inner in value.items()}
    return {key: inner for key, inner in kept.items() if inner != {}}


LISTS = st.lists(st.sampled_from([1, 2, "a", "]", ["x"]]), min_size=1, max_size=4)


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
        return tomllib.loads(Older(text.removeprefix("\ufeff")).text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(ConfigInvalid):
            parse(text, "toml")
        assume(condition=False)
        raise AssertionError from None


def only_below_headers(text: str, home: tuple[str, ...]) -> bool:
    """Whether `[a]` exists only through `[a.b]`: a field of `a` then brings a header of its own, which stays."""
    family = [one for one in scan(text) if one.path[: len(home)] == home]
    return all(
        (one.kind != "pair" and one.path != home) or len(one.path) - len(one.keys) > len(home)
        for one in family
    )


def _puts(path: tuple[str, ...], value: Any) -> list[Any]:
    return [Put(path, value)]


def _same_but(before: Any, after: Any, path: tuple[str, ...]) -> bool:
    """Equal (by `repr`, since nan is not equal to itself) once the edited member is taken out of both."""
    rest = {key: value for key, value in after.get(path[0], {}).items() if key != path[1]}
    other = {**after, path[0]: rest}
    if path[0] not in before and not rest:
        del other[path[0]]
    return _sorted(other) == _sorted(before)


def _sorted(value: Any) -> str:
    if isinstance(value, dict):
        return repr(sorted((key, _sorted(inner)) for key, inner in value.items()))
    return repr(value)

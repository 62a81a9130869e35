"""Documents and edits for the property tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from counsel.configfiles.edits import MISSING, AddItem, Drop, DropItem, Edit, Put, lookup, value_after
from counsel.configfiles.write.three_way import _same
from fuzz.effort import EXAMPLES

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
    few: int, many: int, *strategies: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[[int | None, int], None]]:
    """One property as a quick test and as a slow one with more cases; `make fuzz` adds seeds and new cases."""
    rows = [pytest.param(0, few, id="quick"), pytest.param(4, many // 3, id="seed4", marks=pytest.mark.slow)]
    if EXAMPLES:
        rows += [pytest.param(number, many, id=f"seed{number}") for number in (44, 444)]
        rows += [pytest.param(None, EXAMPLES, id="new")]

    def wrap(check: Callable[..., None]) -> Callable[[int | None, int], None]:
        @pytest.mark.parametrize(("number", "count"), rows)
        def test(number: int | None, count: int) -> None:
            limits = settings(
                max_examples=count,
                deadline=None,
                database=None,
                print_blob=True,
                suppress_health_check=CALM,
                phases=[Phase.explicit, Phase.generate, Phase.shrink],
            )
            run = limits(given(*strategies)(check))
            (run if number is None else seed(number)(run))()

        return test

    return wrap


def holders(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    result = [path]
    for key, inner in value.items():
        if isinstance(inner, dict):
            result += holders(inner, (*path, key))
    return result


def any_edits(data: st.DataObject, value: Any) -> list[Edit]:
    """Up to three edits, each of the result of the one before; often all below one object."""
    home = data.draw(st.sampled_from(holders(value)))
    matches: list[Edit] = []
    for _ in range(data.draw(st.integers(1, 3))):
        inside = [path for path in holders(value) if path[: len(home)] == home] or holders(value)
        content = data.draw(st.sampled_from(inside))
        path = (*content, data.draw(st.sampled_from([*lookup(value, content), "new", "a"])))
        matches.append(data.draw(any_edit(path, lookup(value, path))))
        value = value_after(value, matches[-1:])
    return matches


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


def merged(before: Any, ours: Any, theirs: Any) -> Any:
    """Their value without our changes, member by member; an error where `undo` must refuse."""
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
        key: merged(*(version.get(key, MISSING) for version in (old, ours, theirs)))
        for key in {**theirs, **old, **ours}
    }
    return {key: value for key, value in both.items() if value is not MISSING}


def without_empty(value: Any) -> Any:
    """The value without empty tables, which TOML need not write: they may appear and disappear with their content."""
    if not isinstance(value, dict):
        return value
    members = {key: without_empty(inner) for key, inner in value.items()}
    return {key: inner for key, inner in members.items() if inner != {}}


LISTS = st.lists(st.sampled_from([1, 2, "a", "]", ["x"]]), min_size=1, max_size=4)


def puts(path: tuple[str, ...], value: Any) -> list[Any]:
    return [Put(path, value)]


def equal_except(before: Any, after: Any, path: tuple[str, ...]) -> bool:
    """Whether both are equal without the edited member (by `repr`, because nan is not equal to itself)."""
    rest = {key: value for key, value in after.get(path[0], {}).items() if key != path[1]}
    document = {**after, path[0]: rest}
    if path[0] not in before and not rest:
        del document[path[0]]
    return sorted_text(document) == sorted_text(before)


def sorted_text(value: Any) -> str:
    if isinstance(value, dict):
        return repr(sorted((key, sorted_text(inner)) for key, inner in value.items()))
    return repr(value)

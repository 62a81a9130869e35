"""The value of a document after edits, independent of its format."""

from __future__ import annotations

import pytest

from counsel.configfiles.edits import Path, without_empty_parents


@pytest.mark.parametrize(
    ("value", "path", "expected"),
    [
        ({"a": {}}, ("a", "x"), {}),
        ({"a": {"b": {}}, "c": 1}, ("a", "b", "x"), {"c": 1}),
        ({"a": {"b": {}, "d": 2}}, ("a", "b", "x"), {"a": {"d": 2}}),
        ({"a": {"y": 1}}, ("a", "x"), {"a": {"y": 1}}),
        ({"a": {"x": {}}}, ("a", "x"), {"a": {"x": {}}}),
        ({"a": {"x": {"k": 1}}}, ("a", "x"), {"a": {"x": {"k": 1}}}),
        ({"a": 5}, ("a", "x"), {"a": 5}),
        ({"c": {}}, ("a", "x"), {"c": {}}),
        ({"x": {}}, ("x",), {"x": {}}),
    ],
)
def test_only_parents_that_hold_nothing_are_left_out(value: object, path: Path, expected: object) -> None:
    assert without_empty_parents(value, path) == expected

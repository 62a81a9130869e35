"""Fields of JSON objects, read by type."""

from __future__ import annotations

from counsel import json_reader as read

FIELDS: dict[str, object] = {
    "text": "t",
    "whole": 3,
    "float": 3.0,
    "half": 2.5,
    "yes": True,
    "null": None,
    "object": {"a": 1},
    "list": [{"a": 1}, "b", None, 4],
}


def test_a_field_of_its_type_is_read() -> None:
    assert read.text(FIELDS, "text") == read.text_or_none(FIELDS, "text") == "t"
    assert read.integer(FIELDS, "whole") == read.integer_or_none(FIELDS, "float") == 3
    assert (read.number(FIELDS, "half"), read.number_or_none(FIELDS, "whole")) == (2.5, 3)
    assert read.flag(FIELDS, "yes")
    assert read.flag_or_none(FIELDS, "yes")
    assert read.part(FIELDS, "object") is FIELDS["object"]
    assert read.parts(FIELDS, "list") == [{"a": 1}]
    assert read.texts(FIELDS, "list") == ("b",)
    assert read.values(FIELDS, "list") == FIELDS["list"]


def test_what_is_missing_null_or_of_another_type_is_the_default() -> None:
    for name in ("missing", "null", "object"):
        assert read.text(FIELDS, name, "d") == "d"
        assert read.text_or_none(FIELDS, name) is None
        assert read.integer(FIELDS, name, 7) == 7
        assert read.integer_or_none(FIELDS, name) is None
        assert read.number(FIELDS, name, 0.5) == 0.5
        assert read.number_or_none(FIELDS, name) is None
        assert read.flag(FIELDS, name, default=True)
        assert read.flag_or_none(FIELDS, name) is None
        assert (read.parts(FIELDS, name), read.texts(FIELDS, name)) == ([], ())
    for name in ("missing", "null", "list"):
        assert read.part(FIELDS, name) == {}
    assert read.integer(FIELDS, "half", 1) == 1, "half a token is no number of tokens"

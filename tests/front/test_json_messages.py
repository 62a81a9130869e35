"""What a message may hold, by the front's own parser."""

from __future__ import annotations

import json

import pytest

from counsel.front import json_messages
from counsel.front.json_messages import MOST_VALUES, Unreadable, parse


def test_commas_brackets_and_escaped_quotes_in_a_text_are_no_values() -> None:
    text = 'a,[{"\\' * (MOST_VALUES // 2)
    assert parse(json.dumps([text, text]).encode()) == [text, text]


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"1," * MOST_VALUES + b"1]",
        b"[" + b"[]," * MOST_VALUES + b"1]",
        b'["a,b"' + b',"x"' * MOST_VALUES + b"]",
        b"{" + b'"a":"b",' * (2 * MOST_VALUES) + b'"a":"b"}',
    ],
    ids=["numbers", "lists", "texts", "members"],
)
def test_too_many_values_are_refused(data: bytes) -> None:
    with pytest.raises(Unreadable, match="at most 100,000 values"):
        parse(data)


def test_exactly_as_many_as_allowed_are_read() -> None:
    assert len(parse(b"[" + b"1," * (MOST_VALUES - 1) + b"1]")) == MOST_VALUES


def test_depth_and_length_are_bounded() -> None:
    deepest = json_messages.DEEPEST
    assert parse(b"[" * deepest + b"]" * deepest)
    with pytest.raises(Unreadable, match=f"at most {deepest} levels"):
        parse(b"[" * (deepest + 1) + b"]" * (deepest + 1))
    longest = json_messages.LONGEST_NUMBER
    assert parse(b"9" * longest)
    with pytest.raises(Unreadable, match=f"at most {longest} digits"):
        parse(b"9" * (longest + 1))
    with pytest.raises(Unreadable, match="NaN is not JSON"):
        parse(b"NaN")
    with pytest.raises(Unreadable, match="not JSON in UTF-8"):
        parse(b'"\xff"')


def test_what_a_caller_sent_is_quoted_only_in_part() -> None:
    longest = json_messages.LONGEST_QUOTE
    assert json_messages.quoted("x" * longest) == "x" * longest
    assert json_messages.quoted("x" * (longest + 1)) == "x" * longest + "…"
    assert json_messages.quoted({"a": 1}) == '{"a": 1}'

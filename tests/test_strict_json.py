"""JSON from outside, read by msgspec and by the standard library: the same values, and the same refusals."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counsel import strict_json

EVENT = '{"type":"response.output_text.delta","delta":"wörd \\ud83d\\ude00","output_index":0}'
TEXTS = [
    EVENT,
    '"\\ud83d"',
    '{"a":"\\ude00 half"}',
    "12345678901234567890123",
    "-0",
    "1E5",
    "0.1",
    '{"a":1,"a":2}',
    " [1 , 2]\n",
    "\u2028",
    "NaN",
    "-Infinity",
    "1e999",
    "1" * 5000,
    "[" * 100_000,
    '"\t"',
    "[1,]",
    "01",
    "1.",
    "'a'",
    "",
    " ",
    "\ufeff1",
    "nul",
    "[1] 2",
]


@pytest.fixture
def accelerated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_json, "_quick_decode", None)
    monkeypatch.setattr(strict_json, "_quick_encode", None)
    strict_json.accelerate()


def outcome(text: str) -> Any:
    try:
        value = strict_json.loads(text)
    except ValueError:
        return ValueError
    return repr(value)


@pytest.mark.parametrize("text", TEXTS)
def test_both_read_the_same(text: str, accelerated: None, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = outcome(text)
    monkeypatch.setattr(strict_json, "_quick_decode", None)
    assert quick == outcome(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=JSON, junk=st.text(max_size=3), at=st.integers(0, 40), is_ascii=st.booleans())
def test_both_read_any_text_the_same(value: Any, junk: str, at: int, is_ascii: bool) -> None:
    strict_json.accelerate()
    text = json.dumps(value, ensure_ascii=is_ascii)
    for candidate in (text, text[:at] + junk + text[at:]):
        quick = outcome(candidate)
        before, strict_json._quick_decode = strict_json._quick_decode, None
        try:
            assert quick == outcome(candidate)
        finally:
            strict_json._quick_decode = before


@given(value=JSON)
def test_what_is_written_is_read_again(value: Any) -> None:
    strict_json.accelerate()
    assert json.loads(strict_json.encode(value)) == value
    assert strict_json.encode_line(value).count(b"\n") == 1
    assert json.loads(strict_json.dumps(value)) == value


@pytest.mark.parametrize("is_quick", [True, False])
def test_half_a_character_is_written_as_an_escape(
    is_quick: bool, accelerated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_quick:
        monkeypatch.setattr(strict_json, "_quick_encode", None)
    assert strict_json.encode({"a": "ö\ud83d"}) == b'{"a":"\\u00f6\\ud83d"}'
    assert strict_json.encode({"a": "ö\ud83d"}, "replace") == '{"a":"ö?"}'.encode()
    assert strict_json.encode(2**70) == str(2**70).encode()
    assert strict_json.encode({"a": ("b", None), "c": 1.5}) == b'{"a":["b",null],"c":1.5}'


def test_a_number_without_an_end_is_not_written(accelerated: None) -> None:
    assert strict_json.encode([math.inf]) == b"[null]"

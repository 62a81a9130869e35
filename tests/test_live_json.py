"""JSON answers as people see them while they arrive."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counsel import live_json
from counsel.live_json import LiveJson


def in_pieces(text: str, size: int) -> str:
    live = LiveJson()
    return "".join(live.feed(text[start : start + size]) for start in range(0, len(text), size))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"reason": "It scales.", "choice": "PostgreSQL"}', "It scales.\n\nPostgreSQL"),
        ('```json\n{"reason": "It scales.", "choice": "A"}\n```', "It scales.\n\nA"),
        ('{"a": ["one", "two"], "b": {"c": "three", "d": 4, "e": null}}', "one\n\ntwo\n\nthree"),
        ('{"reason": "half an answ', "half an answ"),
        ('{"reason": "a \\"quoted\\" line\\nand \\u00e9, \\ud83d\\ude00', 'a "quoted" line\nand é, 😀'),
        ('{"reason": "an escape is cut \\u00', "an escape is cut "),
        ('{"reason": "lone \\ude00 half"}', "lone � half"),
        ('{"broken": ]]}}, "x": "goes on"', "x\n\ngoes on"),
        ("I pick PostgreSQL.", "I pick PostgreSQL."),
        ("  no JSON, `code` and {braces}", "no JSON, `code` and {braces}"),
        ("", ""),
    ],
)
def test_strings_are_shown_without_keys_quotes_and_escapes(text: str, expected: str) -> None:
    assert live_json.readable(text) == expected


@given(
    st.dictionaries(st.text(), st.recursive(st.text() | st.integers(), st.lists, max_leaves=5), max_size=4),
    st.integers(1, 7),
    st.booleans(),
)
def test_pieces_of_any_size_show_the_same_as_the_whole(
    document: dict[str, object], size: int, ascii_only: bool
) -> None:
    text = json.dumps(document, ensure_ascii=ascii_only)
    assert in_pieces(text, size) == live_json.readable(text)

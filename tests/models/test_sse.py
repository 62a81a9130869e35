from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counsel.models.connections.sse import EventParser, TooLarge

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["", "ping", "message_delta"]),
        st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1, max_size=12),
    ),
    max_size=6,
)


def parsed(stream: bytes, cuts: list[int]) -> list[tuple[str, str]]:
    parser = EventParser()
    events: list[tuple[str, str]] = []
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for start, end in itertools.pairwise(edges):
        events += parser.feed(stream[start:end])
    return events + parser.end()


@settings(deadline=None)
@given(
    EVENTS, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 999), max_size=20), st.booleans()
)
def test_any_cut_of_the_bytes_gives_the_same_events(
    events: list[tuple[str, str]], newline: str, cuts: list[int], bom: bool
) -> None:
    lines = [
        line
        for name, data in events
        for line in (": comment", *([f"event: {name}"] if name else []), f"data: {data}", "")
    ]
    stream = ("\ufeff" if bom else "").encode() + "".join(line + newline for line in lines).encode()
    assert parsed(stream, cuts) == events


@pytest.mark.parametrize("size", [1, 2, 3, 99])
def test_one_stream_may_end_its_lines_in_several_ways(size: int) -> None:
    stream = b"data: a\r\n\ndata: b\n\r\ndata: c\r\rdata: d\n\n"
    cuts = list(range(0, len(stream), size))
    assert parsed(stream, cuts) == [("", letter) for letter in "abcd"]


def test_lines_of_data_are_joined_and_one_space_is_cut() -> None:
    assert parsed(b"data:a\ndata:  b\ndata\n\n", []) == [("", "a\n b\n")]


def test_an_event_without_data_is_none_and_leaves_no_name() -> None:
    assert parsed(b"event: lost\n\ndata: x\n\nid: 7\nretry: 1\n\n", []) == [("", "x")]


@pytest.mark.parametrize("size", [1, 2, 99])
@pytest.mark.parametrize("empty", [b"data:\n\n", b"data: \n\n", b"event: ping\ndata: \n\n", b"data\n\n"])
def test_an_event_with_empty_data_is_none(empty: bytes, size: int) -> None:
    stream = b"data: a\n\n" + empty + b"event: end\ndata: b\n\n" + empty
    assert parsed(stream, list(range(0, len(stream), size))) == [("", "a"), ("end", "b")]


def test_the_last_empty_line_may_be_missing() -> None:
    assert parsed(b"data: [DONE]", []) == [("", "[DONE]")]


def test_a_large_event_in_small_pieces() -> None:
    data = json.dumps({"text": "é" * 300_000}, ensure_ascii=False)
    stream = f"data: {data}\n\n".encode()
    parser = EventParser()
    result = [
        event for start in range(0, len(stream), 999) for event in parser.feed(stream[start : start + 999])
    ]
    assert result == [("", data)]


def test_a_line_without_an_end_is_refused() -> None:
    parser = EventParser(1000)
    parser.feed(b"data: " + b"x" * 900)
    with pytest.raises(TooLarge, match="more than"):
        parser.feed(b"x" * 900)

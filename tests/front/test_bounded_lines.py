"""Lines of bytes: complete lines are passed on; of a line that is too long, only its ends are kept."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counsel.front.bounded_lines import LONGEST, Lines, TooLong


@settings(max_examples=40, deadline=None)
@given(
    lines=st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=6),
    cuts=st.sets(st.integers(0, 80)),
)
def test_lines_are_the_same_however_their_bytes_are_cut(lines: list[bytes], cuts: set[int]) -> None:
    data = b"".join(line + b"\n" for line in lines) + b"rest"
    ends = [0, *sorted(position for position in cuts if position < len(data)), len(data)]
    reader = Lines()
    assert [line for start, end in pairwise(ends) for line in reader.feed(data[start:end])] == lines
    assert reader.unfinished == 4
    assert reader.end() == b"rest"
    assert (reader.unfinished, reader.end()) == (0, b"")


@pytest.mark.parametrize("size", [9, 10, 11, 25])
def test_a_line_that_is_too_long_is_counted_and_the_next_one_is_read(size: int) -> None:
    reader = Lines(longest=10)
    lines = [line for start in range(0, size, 4) for line in reader.feed(b"x" * min(4, size - start))]
    lines += reader.feed(b"\nnext\n")
    first, second = lines
    assert second == b"next"
    if size <= 10:
        assert first == b"x" * size
    else:
        assert isinstance(first, TooLong)
        assert first.size == size


def test_a_line_can_be_given_up_or_forgotten() -> None:
    reader = Lines()
    reader.feed(b"abc")
    reader.give_up()
    assert reader.unfinished == 0
    (line,) = reader.feed(b"de\n")
    assert isinstance(line, TooLong)
    assert (line.size, line.head, line.tail) == (5, b"abc", b"abcde")
    reader.feed(b"abc")
    reader.clear()
    assert reader.feed(b"d\n") == [b"d"]


def test_the_ends_of_a_long_line_are_kept() -> None:
    line = TooLong(b"a" * 5000)
    line.grow(b"b" * 3000)
    assert (line.size, len(line.head), line.head) == (8000, 4096, b"a" * 4096)
    assert line.tail == b"a" * 1096 + b"b" * 3000
    assert "8,000 bytes" in line.message
    assert f"the limit is {LONGEST:,}" in line.message


@pytest.mark.parametrize(
    ("head", "tail", "identity"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"x":"', b'"}}', 7),
        (b'{"id": "a\\"b" , "params":{"x":"', b'"}}', 'a"b'),
        (b'{"method":"m","params":{"x":"', b'"},"jsonrpc":"2.0","id":-3}', -3),
        (b'{"method":"m","params":{"x":"', b'"},"id":"z","method":"m" } ', "z"),
        (b'{"method":"m","params":{"x":"', b'"}}', None),
        (b'{"params":{"id":1,"x":"', b'"}}', None),
    ],
)
def test_its_refusal_names_the_request_if_it_can_be_found(head: bytes, tail: bytes, identity: object) -> None:
    line = TooLong(head)
    line.grow(b"x" * 9000 + tail)
    response = json.loads(json.dumps(line.response()))
    assert (response["jsonrpc"], response["id"]) == ("2.0", identity)
    assert response["error"]["code"] == -32600
    assert response["error"]["data"] == {"size": line.size, "limit": LONGEST}

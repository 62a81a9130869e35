"""Texts that grow by pieces: read completely, from an offset, and after a cut."""

from __future__ import annotations

import pytest

from counsel import text
from counsel.text import TextBuffer, TextTail


@pytest.fixture(params=[1, 2, 1024])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_PIECES", request.param)


def filled(*parts: str) -> TextBuffer:
    buffer = TextBuffer()
    for part in parts:
        buffer.append(part)
    return buffer


@pytest.mark.usefixtures("pieces")
def test_a_buffer_is_its_pieces_joined() -> None:
    buffer = filled("ab", "", "cde", "f")
    assert (buffer.text(), buffer.length) == ("abcdef", 6)
    assert buffer.text() == "abcdef"
    assert (TextBuffer().text(), TextBuffer("x").text(), TextBuffer("xy").length) == ("", "x", 2)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("offset", range(8))
def test_the_text_since_an_offset(offset: int) -> None:
    buffer = filled("ab", "cde", "f")
    assert buffer.since(offset) == "abcdef"[offset:]
    assert buffer.text() == "abcdef"
    assert buffer.since(offset) == "abcdef"[offset:]


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("length", range(8))
def test_a_cut_forgets_what_is_behind_it(length: int) -> None:
    buffer = filled("ab", "cde", "f")
    buffer.cut(length)
    assert (buffer.text(), buffer.length) == ("abcdef"[:length], min(length, 6))
    buffer.append("!")
    assert buffer.text() == "abcdef"[:length] + "!"
    buffer.put(1, "new")
    assert buffer.text() == ("a" if length else "!") + "new"


def test_many_pieces_are_joined_as_they_come() -> None:
    buffer = TextBuffer()
    for _ in range(3 * text._PIECES):
        buffer.append("x")
        assert len(buffer._pieces) < text._PIECES
    assert len(buffer._blocks) == 3
    assert buffer.length == len(buffer.text()) == 3 * text._PIECES


def test_a_tail_keeps_the_end_and_counts_the_whole() -> None:
    tail = TextTail(4)
    tail.put(0, "abc")
    tail.put(3, "defg")
    assert (tail.text(), tail.length) == ("defg", 7)
    tail.put(6, "X")  # the last one again
    assert (tail.text(), tail.length) == ("defX", 7)
    tail.cut(5)
    assert (tail.text(), tail.length) == ("de", 5)
    tail.put(2, "new")  # behind what is kept: nothing of it is known
    assert (tail.text(), tail.length) == ("new", 5)
    tail.cut(0)
    assert (tail.text(), tail.length) == ("", 0)


def test_similar_names_are_suggested_in_one_question() -> None:
    assert text.did_you_mean(["a"]) == "Did you mean a?"
    assert text.did_you_mean(["a", "b"]) == "Did you mean a or b?"
    assert text.did_you_mean(["a", "b", "c"]) == "Did you mean a, b or c?"
    assert text.did_you_mean([]) == ""

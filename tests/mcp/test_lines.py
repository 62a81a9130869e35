"""Lines of JSON on a connection: their limits, their order, and who has to wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counsel.front.bounded_lines import TooLong
from counsel.mcp import jsonlines
from counsel.mcp.jsonlines import LinePipe, Splitter, UnfinishedBytes


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.log: list[str] = []
        self.closing = False
        self.unread = 0

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None:
        self.log.append("pause")

    def resume_reading(self) -> None:
        self.log.append("resume")

    def abort(self) -> None:
        self.log.append("abort")

    def close(self) -> None:
        self.log.append("close")

    def write_eof(self) -> None:
        self.log.append("eof")


def test_unfinished_lines_count_until_they_end() -> None:
    lines: list[bytes] = []
    total = UnfinishedBytes()
    splitter = Splitter(lines.append, lambda _: None, total=total)
    splitter.feed(b"one\ntwo")
    assert (lines, total.bytes) == ([b"one"], 3)
    splitter.feed(b"!\n \n")
    assert (lines, total.bytes) == ([b"one", b"two!"], 0)
    splitter.feed(b"three")
    splitter.end()
    assert (lines, total.bytes) == ([b"one", b"two!", b"three"], 0)
    splitter.feed(b"four")
    splitter.drop()
    splitter.end()
    assert (lines[3:], total.bytes) == ([], 0)


def test_all_unfinished_lines_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlines, "MOST_UNFINISHED", 10)
    lines: list[bytes] = []
    refused: list[TooLong] = []
    total = UnfinishedBytes()
    first = Splitter(lines.append, refused.append, total=total)
    second = Splitter(lines.append, refused.append, total=total)
    first.feed(b"x" * 6)
    second.feed(b"y" * 4)
    assert total.bytes == 10
    second.feed(b"y")
    assert total.bytes == 6  # the one that went too far loses its line
    second.feed(b"y\nnext\n")
    assert [line.size for line in refused] == [6]
    assert lines == [b"next"]
    first.feed(b"\n")
    assert lines == [b"next", b"x" * 6]


def test_a_line_may_be_as_long_as_allowed() -> None:
    lines: list[bytes] = []
    refused: list[TooLong] = []
    splitter = Splitter(lines.append, refused.append, longest=5, total=UnfinishedBytes())
    splitter.feed(b"12345\n")
    splitter.feed(b"123456\n")
    assert (lines, [line.size for line in refused]) == ([b"12345"], [6])
    splitter.allow(6)
    splitter.feed(b"123456\n")
    assert lines == [b"12345", b"123456"]


def pipe(*, is_server: bool = True, **more: Any) -> tuple[LinePipe, Transport, list[bytes]]:
    lines: list[bytes] = []
    made = LinePipe(
        more.pop("on_line", lines.append), more.pop("on_lost", lambda: None), is_server=is_server, **more
    )
    transport = Transport()
    made.connection_made(transport)
    return made, transport, lines


async def test_many_lines_are_handled_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlines, "LINES_AT_ONCE", 2)
    made, transport, lines = pipe()
    made.data_received(b"1\n2\n3\n4\n5\n")
    assert lines == [b"1", b"2"]
    assert transport.log == ["pause"]
    made.data_received(b"6\n")  # no second turn beside the first
    assert lines == [b"1", b"2"]
    await asyncio.sleep(0)
    assert lines == [b"1", b"2", b"3", b"4"]
    await asyncio.sleep(0)
    assert lines == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert transport.log[-1] == "resume"


@pytest.mark.parametrize(("is_server", "log"), [(True, ["pause", "resume"]), (False, ["resume", "resume"])])
async def test_only_a_server_stops_reading_from_a_peer_that_reads_nothing(
    is_server: bool, log: list[str]
) -> None:
    made, transport, _ = pipe(is_server=is_server)
    made.pause_writing()
    states = [made.full]
    waiting = asyncio.ensure_future(made.drain())
    await asyncio.sleep(0)
    assert not waiting.done()
    made.resume_writing()
    assert [*states, made.full] == [True, False]
    await waiting
    assert transport.log == log


async def test_what_is_written_in_one_turn_is_joined() -> None:
    made, transport, _ = pipe()
    made.write(b"a")
    made.write(b"b")
    assert transport.written == []
    await asyncio.sleep(0)
    made.write(b"c")
    await asyncio.sleep(0)
    assert transport.written == [b"ab", b"c"]
    transport.closing = True
    made.write(b"d")
    await asyncio.sleep(0)
    assert transport.written == [b"ab", b"c"]


@pytest.mark.parametrize(("unread", "log"), [(128 * 1024 * 1024, []), (128 * 1024 * 1024 + 1, ["abort"])])
async def test_a_peer_that_never_reads_is_cut_off(unread: int, log: list[str]) -> None:
    made, transport, _ = pipe()
    transport.unread = unread
    made.write(b"a")
    await asyncio.sleep(0)
    assert transport.log == log


async def test_a_refusal_is_the_last_that_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlines, "REFUSAL_TIMEOUT", 0.0)
    made, transport, lines = pipe()
    made.data_received(b"unfinished")
    made.refuse(b"no")
    assert transport.written == [b"no"]
    assert transport.log[-1] == "eof"
    made.write(b"more")
    made.data_received(b"more\n")
    await asyncio.sleep(0.01)
    assert (transport.written, lines) == ([b"no"], [])
    assert transport.log[-1] == "close"


async def test_closing_sends_what_was_written() -> None:
    made, transport, _ = pipe()
    made.write(b"last")
    made.close()
    assert (transport.written, transport.log) == ([b"last"], ["close"])


async def test_a_lost_connection_is_told_and_forgets_its_lines() -> None:
    lost: list[str] = []
    made, transport, lines = pipe(on_lost=lambda: lost.append("lost"))
    made.pause_writing()
    made.write(b"a")
    made.data_received(b"half")
    made.connection_lost(None)
    async with asyncio.timeout(5):
        await made.drain()
    await asyncio.sleep(0)
    made.splitter.end()
    assert (lost, transport.written, lines) == (["lost"], [], [])


async def test_a_line_that_is_too_long_ends_a_connection_without_a_word_for_it() -> None:
    made, transport, _ = pipe()
    made.splitter.allow(3)
    made.data_received(b"12345\n")
    assert "abort" in transport.log
    seen: list[TooLong] = []
    made, transport, _ = pipe(on_too_long=seen.append)
    made.splitter.allow(3)
    made.data_received(b"12345\n")
    assert "abort" not in transport.log
    assert [line.size for line in seen] == [5]


async def test_a_line_may_end_its_own_connection() -> None:
    handled: list[bytes] = []

    def on_line(line: bytes) -> None:
        handled.append(line)
        made.close()

    made, _, _ = pipe(on_line=on_line)
    made.data_received(b"1\n2\n")
    assert handled == [b"1"]

"""Lines of JSON on a connection: their limits and order, and which side waits."""

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
    refusals: list[TooLong] = []
    total = UnfinishedBytes()
    first = Splitter(lines.append, refusals.append, total=total)
    second = Splitter(lines.append, refusals.append, total=total)
    first.feed(b"x" * 6)
    second.feed(b"y" * 4)
    assert total.bytes == 10
    second.feed(b"y")
    assert total.bytes == 6  # the splitter that exceeded the limit loses its line
    second.feed(b"y\nnext\n")
    assert [line.size for line in refusals] == [6]
    assert lines == [b"next"]
    first.feed(b"\n")
    assert lines == [b"next", b"x" * 6]


def test_a_line_may_be_as_long_as_allowed() -> None:
    lines: list[bytes] = []
    refusals: list[TooLong] = []
    splitter = Splitter(lines.append, refusals.append, longest=5, total=UnfinishedBytes())
    splitter.feed(b"12345\n")
    splitter.feed(b"123456\n")
    assert (lines, [line.size for line in refusals]) == ([b"12345"], [6])
    splitter.allow(6)
    splitter.feed(b"123456\n")
    assert lines == [b"12345", b"123456"]


def pipe(*, is_server: bool = True, **more: Any) -> tuple[LinePipe, Transport, list[bytes]]:
    lines: list[bytes] = []
    line_pipe = LinePipe(
        more.pop("on_line", lines.append), more.pop("on_lost", lambda: None), is_server=is_server, **more
    )
    transport = Transport()
    line_pipe.connection_made(transport)
    return line_pipe, transport, lines


async def test_many_lines_are_handled_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlines, "LINES_AT_ONCE", 2)
    line_pipe, transport, lines = pipe()
    line_pipe.data_received(b"1\n2\n3\n4\n5\n")
    assert lines == [b"1", b"2"]
    assert transport.log == ["pause"]
    line_pipe.data_received(b"6\n")  # starts no second turn
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
    line_pipe, transport, _ = pipe(is_server=is_server)
    line_pipe.pause_writing()
    states = [line_pipe.full]
    waiting = asyncio.ensure_future(line_pipe.drain())
    await asyncio.sleep(0)
    assert not waiting.done()
    line_pipe.resume_writing()
    assert [*states, line_pipe.full] == [True, False]
    await waiting
    assert transport.log == log


async def test_what_is_written_in_one_turn_is_joined() -> None:
    line_pipe, transport, _ = pipe()
    line_pipe.write(b"a")
    line_pipe.write(b"b")
    assert transport.written == []
    await asyncio.sleep(0)
    line_pipe.write(b"c")
    await asyncio.sleep(0)
    assert transport.written == [b"ab", b"c"]
    transport.closing = True
    line_pipe.write(b"d")
    await asyncio.sleep(0)
    assert transport.written == [b"ab", b"c"]


@pytest.mark.parametrize(("unread", "log"), [(128 * 1024 * 1024, []), (128 * 1024 * 1024 + 1, ["abort"])])
async def test_a_peer_that_never_reads_is_cut_off(unread: int, log: list[str]) -> None:
    line_pipe, transport, _ = pipe()
    transport.unread = unread
    line_pipe.write(b"a")
    await asyncio.sleep(0)
    assert transport.log == log


async def test_a_refusal_is_the_last_that_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlines, "REFUSAL_TIMEOUT", 0.0)
    line_pipe, transport, lines = pipe()
    line_pipe.data_received(b"unfinished")
    line_pipe.refuse(b"no")
    assert transport.written == [b"no"]
    assert transport.log[-1] == "eof"
    line_pipe.write(b"more")
    line_pipe.data_received(b"more\n")
    await asyncio.sleep(0.01)
    assert (transport.written, lines) == ([b"no"], [])
    assert transport.log[-1] == "close"


async def test_closing_sends_what_was_written() -> None:
    line_pipe, transport, _ = pipe()
    line_pipe.write(b"last")
    line_pipe.close()
    assert (transport.written, transport.log) == ([b"last"], ["close"])


async def test_a_lost_connection_is_reported_and_forgets_its_lines() -> None:
    calls: list[str] = []
    line_pipe, transport, lines = pipe(on_lost=lambda: calls.append("lost"))
    line_pipe.pause_writing()
    line_pipe.write(b"a")
    line_pipe.data_received(b"half")
    line_pipe.connection_lost(None)
    async with asyncio.timeout(5):
        await line_pipe.drain()
    await asyncio.sleep(0)
    line_pipe.splitter.end()
    assert (calls, transport.written, lines) == (["lost"], [], [])


async def test_a_line_that_is_too_long_ends_a_connection_without_a_handler_for_it() -> None:
    line_pipe, transport, _ = pipe()
    line_pipe.splitter.allow(3)
    line_pipe.data_received(b"12345\n")
    assert "abort" in transport.log
    long_lines: list[TooLong] = []
    line_pipe, transport, _ = pipe(on_too_long=long_lines.append)
    line_pipe.splitter.allow(3)
    line_pipe.data_received(b"12345\n")
    assert "abort" not in transport.log
    assert [line.size for line in long_lines] == [5]


async def test_a_line_may_end_its_own_connection() -> None:
    lines: list[bytes] = []

    def on_line(line: bytes) -> None:
        lines.append(line)
        line_pipe.close()

    line_pipe, _, _ = pipe(on_line=on_line)
    line_pipe.data_received(b"1\n2\n")
    assert lines == [b"1"]

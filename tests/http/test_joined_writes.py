"""What is written within one turn of the event loop is sent together."""

from __future__ import annotations

import asyncio
from typing import cast

from counsel.http.joined_writes import MOST_PENDING, JoinedWrites


class RecordingTransport:
    def __init__(self) -> None:
        self.calls: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def is_closing(self) -> bool:
        return "close" in self.calls


def new_writes() -> tuple[JoinedWrites, RecordingTransport]:
    transport = RecordingTransport()
    return JoinedWrites(cast(asyncio.Transport, transport)), transport


async def test_writes_of_one_turn_are_one_write() -> None:
    writes, transport = new_writes()
    for piece in (b"head", b"", b"body", b"end"):
        writes.write(piece)
    assert transport.calls == []
    await asyncio.sleep(0)
    assert transport.calls == [b"headbodyend"]
    writes.write(b"next")
    await asyncio.sleep(0)
    assert transport.calls == [b"headbodyend", b"next"]


async def test_an_urgent_write_stays_after_the_earlier_ones() -> None:
    writes, transport = new_writes()
    writes.write(b"head")
    writes.write_at_once(b"chunk")
    assert transport.calls == [b"head", b"chunk"]
    await asyncio.sleep(0)
    assert transport.calls == [b"head", b"chunk"]


async def test_only_a_little_waits_so_that_a_slow_reader_is_noticed() -> None:
    writes, transport = new_writes()
    piece = b"x" * (MOST_PENDING // 4)
    for _ in range(5):
        writes.write(piece)
    assert transport.calls == [piece * 5]


async def test_closing_sends_the_rest_and_aborting_drops_it() -> None:
    writes, transport = new_writes()
    writes.write(b"last")
    writes.close()
    assert transport.calls == [b"last", "close"]
    assert writes.is_closing()
    writes, transport = new_writes()
    writes.write(b"last")
    writes.abort()
    await asyncio.sleep(0)
    assert transport.calls == ["abort"]

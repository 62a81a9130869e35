"""The fake's answers on the wire: streams, whole bodies, and broken ones."""

from __future__ import annotations

import asyncio
import json
from types import ModuleType
from typing import TYPE_CHECKING

from aiohttp import web

from .answer import Answer, Frame
from .behaviour import BEFORE_HEADERS, Behaviour
from .records import Received

if TYPE_CHECKING:
    from .server import FakeAPI


class ConnectionCut(Exception):
    """The connection is aborted on purpose."""


class Steps:
    """Gates, hangs and aborts at positions of an answer."""

    def __init__(self, fake: FakeAPI, behaviour: Behaviour, record: Received) -> None:
        self.fake, self._behaviour, self._record = fake, behaviour, record

    async def at(self, position: int) -> None:
        behaviour = self._behaviour
        if behaviour.gate and behaviour.gate_after == position:
            await self.fake.gate(behaviour.gate).wait()
        if behaviour.hang_after == position:
            await asyncio.Event().wait()
        if behaviour.cut_after == position and (behaviour.cut == "abort" or position == BEFORE_HEADERS):
            raise ConnectionCut


class Stream:
    def __init__(self, request: web.Request, record: Received, behaviour: Behaviour, steps: Steps) -> None:
        self._request, self._record, self._behaviour, self._steps = request, record, behaviour, steps
        self._sizes = behaviour.write_sizes()
        self._response = web.StreamResponse(
            headers={"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
        )

    async def send(self, vendor: ModuleType, reply: Answer, error_frames: list[Frame]) -> web.StreamResponse:
        self._record.status = 200
        await self._response.prepare(self._request)
        behaviour, count = self._behaviour, 0
        if behaviour.raw is not None:
            await self._bytes(behaviour.raw.encode())
            self._record.deltas = 1
            self._notify()
            await self._steps.at(1)
            return await self._end([])
        await self._steps.at(0)
        for frame in vendor.frames(reply):
            if behaviour.error_after == count:
                return await self._end(error_frames)
            if behaviour.cut_after == count:
                return await self._end([])
            if frame.delta and behaviour.chunk_delay:
                await asyncio.sleep(behaviour.chunk_delay)
            await self._write(frame)
            if frame.delta:
                count += 1
                self._record.deltas = count
                self._notify()
                await self._steps.at(count)
        return await self._end(error_frames if behaviour.error_after is not None else [])

    def _notify(self) -> None:
        self._steps.fake.log.changed()

    async def _end(self, last: list[Frame]) -> web.StreamResponse:
        for frame in last:
            await self._write(frame)
        await self._response.write_eof()
        return self._response

    async def _write(self, frame: Frame) -> None:
        newline = self._behaviour.newline
        data = frame.data if isinstance(frame.data, str) else json.dumps(frame.data, ensure_ascii=False)
        if self._behaviour.malformed == "event" and frame.delta:
            data = '{"broken": '
        lines = [f"event: {frame.event}"] if frame.event else []
        lines += [f"data: {data}", "", ""]
        if self._behaviour.comments:
            lines.insert(0, ": keep-alive" + newline)
        await self._bytes(newline.join(lines).encode(errors="backslashreplace"))

    async def _bytes(self, payload: bytes) -> None:
        if self._sizes is None:
            await self._response.write(payload)
            return
        while payload:
            size = next(self._sizes)
            await self._response.write(payload[:size])
            await asyncio.sleep(0)
            payload = payload[size:]


MALFORMED = {
    "body": ("application/json", '{"this is not": '),
    "html": ("text/html", "<html><body><h1>502 Bad Gateway</h1></body></html>"),
}


def malformed(record: Received, kind: str) -> web.Response:
    content_type, text = MALFORMED[kind]
    record.status = 200
    return web.Response(text=text, content_type=content_type)


async def plain_response(
    request: web.Request, record: Received, vendor: ModuleType, reply: Answer, *, array: bool
) -> web.StreamResponse:
    record.status = 200
    content = [frame.data for frame in vendor.frames(reply)] if array else vendor.plain(reply)
    response = web.json_response(content)
    await response.prepare(request)
    await response.write_eof()
    return response

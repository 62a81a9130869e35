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


class Cut(Exception):
    """The connection is aborted on purpose."""


class Steps:
    """Gates, hangs and aborts at positions of an answer."""

    def __init__(self, fake: FakeAPI, chosen: Behaviour, received: Received) -> None:
        self.fake, self._chosen, self._received = fake, chosen, received

    async def at(self, position: int) -> None:
        chosen = self._chosen
        if chosen.gate and chosen.gate_after == position:
            await self.fake.gate(chosen.gate).wait()
        if chosen.hang_after == position:
            await asyncio.Event().wait()
        if chosen.cut_after == position and (chosen.cut == "abort" or position == BEFORE_HEADERS):
            raise Cut


class Stream:
    def __init__(self, request: web.Request, received: Received, chosen: Behaviour, steps: Steps) -> None:
        self._request, self._received, self._chosen, self._steps = request, received, chosen, steps
        self._sizes = chosen.write_sizes()
        self._response = web.StreamResponse(
            headers={"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
        )

    async def send(self, vendor: ModuleType, made: Answer, broken: list[Frame]) -> web.StreamResponse:
        self._received.status = 200
        await self._response.prepare(self._request)
        chosen, sent = self._chosen, 0
        if chosen.raw is not None:
            await self._bytes(chosen.raw.encode())
            self._received.deltas = 1
            self._received_changed()
            await self._steps.at(1)
            return await self._end([])
        await self._steps.at(0)
        for frame in vendor.frames(made):
            if chosen.error_after == sent:
                return await self._end(broken)
            if chosen.cut_after == sent:
                return await self._end([])
            if frame.delta and chosen.chunk_delay:
                await asyncio.sleep(chosen.chunk_delay)
            await self._write(frame)
            if frame.delta:
                sent += 1
                self._received.deltas = sent
                self._received_changed()
                await self._steps.at(sent)
        return await self._end(broken if chosen.error_after is not None else [])

    def _received_changed(self) -> None:
        self._steps.fake.log.changed()

    async def _end(self, last: list[Frame]) -> web.StreamResponse:
        for frame in last:
            await self._write(frame)
        await self._response.write_eof()
        return self._response

    async def _write(self, frame: Frame) -> None:
        newline = self._chosen.newline
        data = frame.data if isinstance(frame.data, str) else json.dumps(frame.data, ensure_ascii=False)
        if self._chosen.malformed == "event" and frame.delta:
            data = '{"broken": '
        lines = [f"event: {frame.event}"] if frame.event else []
        lines += [f"data: {data}", "", ""]
        if self._chosen.comments:
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


def malformed(received: Received, kind: str) -> web.Response:
    content_type, text = MALFORMED[kind]
    received.status = 200
    return web.Response(text=text, content_type=content_type)


async def plain_response(
    request: web.Request, received: Received, vendor: ModuleType, made: Answer, *, array: bool
) -> web.StreamResponse:
    received.status = 200
    content = [frame.data for frame in vendor.frames(made)] if array else vendor.plain(made)
    response = web.json_response(content)
    await response.prepare(request)
    await response.write_eof()
    return response

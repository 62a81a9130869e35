"""One MCP request over HTTP and its answer: JSON, or a stream of server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from counsel.front import protocol
from counsel.http.auth import Receive, Send
from counsel.strict_json import encode
from counsel.types import Json

KEEP_ALIVE = 15.0  # seconds without output before a waiting client gets a comment

STATUS = {
    protocol.PARSE_ERROR: 400,
    protocol.INVALID_REQUEST: 400,
    protocol.INVALID_PARAMS: 400,
    protocol.HEADER_MISMATCH: 400,
    protocol.UNSUPPORTED_VERSION: 400,
    protocol.MISSING_CAPABILITY: 400,
    protocol.METHOD_NOT_FOUND: 404,
}

Notify = Callable[[Json], None]
Work = Callable[[Notify], Awaitable[object]]
Subject = tuple[str, object, object]
OnDisconnect = Callable[[asyncio.Future[object]], Awaitable[None]]


class Exchange:
    """Responds with JSON if the answer is all there is to send, otherwise with a stream of events."""

    def __init__(self, receive: Receive, send: Send, *, takes_stream: bool) -> None:
        self.send = send
        self._receive = receive
        self._takes_stream = takes_stream
        self._streaming = False
        self._pending: dict[Subject, Json] = {}  # a client that reads slowly gets only the newest of each
        self._changed = asyncio.Event()

    async def run(
        self, start: Work, *, by_code: bool = False, on_disconnect: OnDisconnect | None = None
    ) -> None:
        """Start the work and send its result. If the client disconnects: call `on_disconnect`, else cancel the work."""
        work = asyncio.ensure_future(start(self._notify))
        disconnect = asyncio.ensure_future(_wait_for_disconnect(self._receive))
        for task in (work, disconnect):
            task.add_done_callback(lambda _: self._changed.set())
        try:
            while not work.done() and not disconnect.done():
                await self._wait()
            if work.done():
                await self._finish(work.result(), by_code=by_code)
            elif on_disconnect is not None:
                await on_disconnect(work)
        finally:
            for task in (work, disconnect):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    def _notify(self, message: Json) -> None:
        if self._takes_stream:
            self._pending[_subject(message)] = message
            self._changed.set()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(KEEP_ALIVE):
                await self._changed.wait()
        except TimeoutError:
            if self._takes_stream:
                await self._write(b": still here\n\n")
            return
        self._changed.clear()
        await self._write_notifications()

    async def _write_notifications(self) -> None:
        notifications, self._pending = self._pending, {}
        for notification in notifications.values():
            await self._write(_event(notification))

    async def _finish(self, response: Any, *, by_code: bool) -> None:
        if self._streaming:
            await self._write_notifications()
            last = b"" if response is None else _event(response)
            await self.send({"type": "http.response.body", "body": last})
        elif response is None:  # cancelled: there is no answer
            await reply(self.send, 202)
        else:
            code: int = response.get("error", {}).get("code", 0) if by_code else 0
            await reply_json(self.send, response, STATUS.get(code, 200))

    async def _write(self, data: bytes) -> None:
        if not self._streaming:
            self._streaming = True
            headers = [
                (b"content-type", b"text/event-stream"),
                (b"cache-control", b"no-cache, no-transform"),
                (b"x-accel-buffering", b"no"),
            ]
            await self.send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.send({"type": "http.response.body", "body": data, "more_body": True})


def _subject(message: Json) -> Subject:
    """Identify the call whose progress a notification reports, or the task of a subscription."""
    params = message["params"]
    return message["method"], params.get("progressToken"), params.get("taskId")


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(message: object) -> bytes:
    return b"event: message\ndata: " + encode(message) + b"\n\n"


async def reply_json(send: Send, message: object, status: int, *more: tuple[bytes, bytes]) -> None:
    await reply(send, status, encode(message), (b"content-type", b"application/json"), *more)


async def reply(send: Send, status: int, body: bytes = b"", *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})

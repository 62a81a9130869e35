"""Ends a request whose token ends while it is being answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from counsel.errors import AuthenticationFailed
from counsel.http.auth import V1, refuse
from counsel.http.v1 import errors as v1_errors

if TYPE_CHECKING:
    from counsel.http.auth import Message, Receive, Send
    from counsel.http.chunks import Chunks


class Ending:
    """A request whose token may end: the client then gets no more of the answer, and the application sees a
    disconnect."""

    def __init__(self, path: str, receive: Receive, send: Send, chunks: Chunks | None = None) -> None:
        self._path = path
        self._receive = receive
        self._send = send
        self._chunks = chunks
        self._started = self._finished = self._streams = False
        self._ended = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        return self._ended.is_set()

    def end(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
            self.task = asyncio.get_running_loop().create_task(self._close())

    async def receive(self) -> Message:
        if self._ended.is_set():
            return {"type": "http.disconnect"}
        message = asyncio.ensure_future(self._receive())
        end = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait({message, end}, return_when=asyncio.FIRST_COMPLETED)
            return message.result() if message.done() else {"type": "http.disconnect"}
        finally:
            message.cancel()
            end.cancel()

    async def send(self, message: Message) -> None:
        if self._ended.is_set():
            return
        self._started = True
        if message["type"] == "http.response.start":
            self._streams = any(value.startswith(_EVENTS) for _, value in message["headers"])
        self._finished = message["type"] == "http.response.body" and not message.get("more_body")
        await self._send(message)

    def takes_chunk(self) -> bool:
        return not self._ended.is_set() and self._chunks is not None and self._chunks.takes_chunk()

    def write_chunk(self, data: bytes) -> None:
        assert self._chunks is not None  # `takes_chunk` has checked
        self._chunks.write_chunk(data)

    async def _close(self) -> None:
        if self._finished:
            return
        if self._started:
            await self._send({"type": "http.response.body", "body": self._last_event()})
        else:
            await refuse(401, _ENDED, self._send, self._path)

    def _last_event(self) -> bytes:
        """An error event: OpenAI's and Anthropic's SDKs take a stream that simply ends for a complete answer."""
        is_answer = self._streams and self._path.startswith(V1)
        return v1_errors.event_of_path(self._path, _ENDED, 401) if is_answer else b""


_EVENTS = b"text/event-stream"
_ENDED = AuthenticationFailed(
    "This token no longer works.", hint="Ask an admin of the team's server for a new one."
)

"""A job's events as the stream of one API."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from counsel.answer_parts import AnswerPart
from counsel.errors import CounselError, UpstreamError
from counsel.http.auth import Send
from counsel.http.chunks import Chunks
from counsel.http.v1 import errors
from counsel.http.v1.api import Api, ApiAnswer, ApiRequest
from counsel.http.v1.own import Own
from counsel.job_events import (
    JobEvent,
    ModelStarted,
    Noticed,
    PartAdded,
    Restarted,
    TextAdded,
    ThinkingAdded,
    ToolInputAdded,
)
from counsel.strict_json import encode

KEEPALIVE = 10.0  # seconds of silence after which a comment is sent, and the response begins if it has not
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class RestartedElsewhere(UpstreamError):
    """Another process runs the job now and asks its model again."""


class Stream:
    def __init__(
        self,
        api: Api,
        request: ApiRequest,
        job: str,
        send: Send,
        headers: list[tuple[bytes, bytes]],
        *,
        chunks: Chunks | None = None,
    ) -> None:
        self._api = api
        self._request = request
        self._send = send
        self._chunks = chunks
        self._writes = 0  # in progress
        self._renderer = api.renderer(request, job)
        self._headers = headers
        self._ignored = list(request.ignored)
        self._length = 0  # characters of the text that were sent
        self._inputs: dict[str, int] = {}  # by tool call: characters of its arguments that were sent
        self._calls: set[str] = set()  # ids of tool calls that were sent completely
        self._began = False
        self._over = False
        self._quiet = True  # nothing was sent since the last tick
        # Writes a comment, which a client may be slow to read.
        self._writing: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._tick = loop.call_later(KEEPALIVE, self._keep_alive)

    async def add(self, event: JobEvent) -> None:
        kind = type(event)
        if kind is TextAdded:
            await self._text(event)  # type: ignore[arg-type] # by its kind
        elif kind is ThinkingAdded:
            await self._write(self._renderer.thinking(event.text))  # type: ignore[attr-defined]
        elif kind is ToolInputAdded:
            await self._tool_input(event)  # type: ignore[arg-type]
        elif kind is PartAdded:
            await self._part(event.part)  # type: ignore[attr-defined]
        elif kind is ModelStarted or kind is Restarted:
            self._check_restart(event)
            if kind is ModelStarted:  # settings that an earlier model did not accept no longer matter
                self._ignored = list(self._request.ignored)
        elif isinstance(event, Noticed) and event.kind_of == "left_out" and event.setting:
            self._ignored.append(event.setting)

    def push(self, event: JobEvent) -> bool:
        """Write a text at once, if this keeps the order and the client has read everything sent before."""
        if type(event) is not TextAdded or self._chunks is None:
            return False
        if not self._began or self._over or self._writes or not self._chunks.takes_chunk():
            return False
        if new := self._unsent(event):
            self._quiet = False
            self._chunks.write_chunk(self._renderer.text(new))
        return True

    async def note(self, text: str) -> None:
        """Write progress, as reasoning."""
        await self._write(self._renderer.thinking(text))

    async def write_text(self, text: str) -> None:
        await self._write(self._renderer.text(text))

    async def _text(self, event: TextAdded) -> None:
        if new := self._unsent(event):
            await self._write(self._renderer.text(new))

    def _unsent(self, event: TextAdded) -> str:
        """The part of a text that was not sent yet: to a late follower the text so far arrives as one event."""
        new = event.text[max(0, self._length - event.offset) :]
        self._length += len(new)
        return new

    async def _tool_input(self, event: ToolInputAdded) -> None:
        """Send a piece of a call's arguments. A call that began before the client followed is sent when complete."""
        length = self._inputs.get(event.id)
        if event.id in self._calls or (length is None and event.offset):
            return
        new = event.text[max(0, (length or 0) - event.offset) :]
        self._inputs[event.id] = (length or 0) + len(new)
        if new or length is None:
            data = self._renderer.tool_input(replace(event, text=new))
            if data:
                await self._write(data)

    async def _part(self, part: AnswerPart) -> None:
        if part["type"] == "tool_call":
            if part["id"] in self._calls:
                return
            self._calls.add(part["id"])
        await self._write(self._renderer.part(part))

    def _check_restart(self, event: JobEvent) -> None:
        """Raise if the answer begins again after text or a tool call was sent, because neither can be taken back."""
        keeps = event.offset if isinstance(event, Restarted) else 0
        if self._length > keeps or self._inputs or self._calls:
            is_taken = isinstance(event, Restarted) and event.reason == "interrupted"
            kind = RestartedElsewhere if is_taken else UpstreamError
            raise kind("The answer was interrupted and begins again.", hint="Send the request again.")

    async def replay(self, answer: ApiAnswer) -> None:
        """Send the parts of an answer that ended before the client connected, in their order."""
        for part in answer.parts:
            if part["type"] == "text":
                if part["text"]:
                    await self._write(self._renderer.text(part["text"]))
                if "citations" in part:
                    item: dict[str, object] = {
                        "type": "citations",
                        "citations": part["citations"],
                        "length": part["length"],
                        "phase": part.get("phase"),
                    }
                    await self._part({"type": "vendor", "wire": part["wire"], "item": item})
            elif part["type"] == "thinking":
                if text := part.get("text"):
                    await self._write(self._renderer.thinking(text))
                if "item" in part:
                    await self._part({"type": "thinking", "wire": part["wire"], "item": part["item"]})
            else:
                await self._part(part)

    async def end(self, answer: ApiAnswer) -> None:
        self.close()
        for part in answer.parts:  # if another process ran the job, calls may be in its result only
            if part["type"] == "tool_call" and part["id"] not in self._calls:
                await self._part(part)
        await self._write(self._renderer.end(answer), last=True)

    @property
    def has_begun(self) -> bool:
        return self._began

    async def cut(self) -> None:
        """End the response without the answer's end."""
        self.close()
        await self._write(b"", last=True)

    async def fail(self, error: CounselError, status: int | None = None) -> None:
        """Send the error: with a status of its own if nothing was sent, else as the stream's last event."""
        self.close()
        if self._over:
            return
        if self._began and isinstance(error, RestartedElsewhere) and isinstance(self._api, Own):
            # The laptop reconnects, discards its part of the first answer, and gets the second one.
            await self.cut()
            return
        if self._began:
            await self._write(self._renderer.fail(error), last=True)
            return
        self._over = True
        body = encode(self._api.error(error))
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            *self._headers,
            *errors.headers(error),
        ]
        code = status or errors.status_of(error)
        await self._send({"type": "http.response.start", "status": code, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    def close(self) -> None:
        self._tick.cancel()
        if self._writing is not None:
            self._writing.cancel()

    async def _write(self, data: bytes, *, last: bool = False) -> None:
        self._writes += 1
        try:
            await self._write_next(data, last=last)
        finally:
            self._writes -= 1

    async def _write_next(self, data: bytes, *, last: bool) -> None:
        if not self._began:
            self._began = True
            headers = [*_HEADERS, *self._headers]
            if self._ignored:
                headers.append(errors.ignored_header(self._ignored))
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            data = self._renderer.start() + data
        self._quiet = False
        self._over = self._over or last
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    def _keep_alive(self) -> None:
        if self._quiet and (self._writing is None or self._writing.done()):
            self._writing = asyncio.ensure_future(self._write(self._renderer.keepalive))
        self._quiet = True
        self._tick = asyncio.get_running_loop().call_later(KEEPALIVE, self._keep_alive)

"""MCP as lines of JSON: messages of any size, split anywhere, on a socket or on stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from counsel.doors.calls import Leaving
from counsel.doors.longlines import LONGEST, Lines, TooLong
from counsel.doors.mcp import Session
from counsel.doors.protocol import INVALID_REQUEST, PARSE_ERROR, RpcError, check_message, is_request, reply_id
from counsel.types import Json

Line: TypeAlias = Callable[[bytes], None]
BATCHES_UNTIL = "2025-03-26"
NAME_AFTER = 0.05  # seconds


def encode(message: Any) -> bytes:
    """One line. A lone surrogate, which UTF-8 cannot hold, is written as an escape."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Splitter:
    """Bytes as they come, lines as they are whole. Without `too_long` a line may have any length."""

    __slots__ = ("_line", "_lines", "_too_long")

    def __init__(self, line: Line, too_long: Callable[[TooLong], None] | None = None) -> None:
        self._lines = Lines(LONGEST if too_long else sys.maxsize)
        self._line, self._too_long = line, too_long

    def feed(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._take(line)

    def end(self) -> None:
        """What came without a line's end before the stream closed."""
        self._take(self._lines.end())

    def _take(self, line: bytes | TooLong) -> None:
        if isinstance(line, bytes):
            if line.strip():
                self._line(line)
        elif self._too_long:
            self._too_long(line)


class LinePipe(asyncio.Protocol):
    """One stream of lines. Progress is dropped, not queued, while the other side does not read."""

    def __init__(
        self, on_line: Line, on_lost: Callable[[], None], too_long: Callable[[TooLong], None] | None = None
    ) -> None:
        self._split = Splitter(on_line, too_long)
        self._on_lost = on_lost
        self.transport: asyncio.Transport | None = None
        self.full = False
        self._out: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._split.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._on_lost()

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False

    def write(self, data: bytes) -> None:
        """What is written in one turn of the loop goes out as one piece: a system call costs more than a copy."""
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        data, self._out = b"".join(self._out), []
        if data and self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        self._flush()
        if self.transport is not None:
            self.transport.close()


class McpLines:
    """A session carried by lines. Every request is answered by a task of its own, so none waits for another."""

    def __init__(
        self,
        session: Session,
        write: Callable[[bytes], None],
        *,
        is_full: Callable[[], bool] = lambda: False,
        announce: Callable[[Json], bytes] = lambda _: b"",
    ) -> None:
        self.session = session
        self._write = write
        self._is_full = is_full
        self._announce = announce  # what the front is told ahead of a line
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        session.ask = self._send

    def refuse(self, line: TooLong) -> None:
        self._send(line.response())

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def line(self, data: bytes, key: str | None = None) -> None:
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            self._send(
                RpcError(PARSE_ERROR, "Parse error: each line must be one JSON message").response(None)
            )
            return
        if isinstance(message, list):
            self._batch(message, key)
            return
        self._one(message, key)

    def _one(self, message: Any, key: str | None) -> None:
        try:
            check_message(message)
        except RpcError as error:
            self._send(error.response(reply_id(message)))
            return
        if is_request(message):
            self._start(self._reply(message, key))
        else:
            self._take(message)

    def _take(self, message: Json) -> None:
        if "method" in message:
            self.session.notified(message)
        else:
            self.session.answered(message)

    async def _reply(self, request: Json, key: str | None) -> None:
        response = await self._respond(request, key)
        self._finish(request["id"], response)

    async def _respond(self, request: Json, key: str | None) -> Json | None:
        """The front hears the name of the request's job, unless the answer comes first: it would wake up for nothing."""
        naming: list[asyncio.TimerHandle] = []

        def on_job(job: str) -> None:
            naming.append(asyncio.get_running_loop().call_later(NAME_AFTER, self._name, job, request["id"]))

        try:
            return await self.session.respond(request, self._notify, key=key, on_job=on_job)
        finally:
            for timer in naming:
                timer.cancel()

    def _name(self, job: str, request_id: Any) -> None:
        self._write(self._announce({"job": job, "id": request_id}))

    # ── batches, which only one revision has ──

    def _batch(self, messages: list[Any], key: str | None) -> None:
        if not messages or self.session.talk.version > BATCHES_UNTIL:
            refusal = RpcError(INVALID_REQUEST, "Batches exist only in protocol revision 2025-03-26")
            self._send(refusal.response(None))
            return
        self._start(self._reply_to_all(messages, key))

    async def _reply_to_all(self, messages: list[Any], key: str | None) -> None:
        each = (self._of_batch(message, key and f"{key}.{at}") for at, message in enumerate(messages))
        found = await asyncio.gather(*each)
        responses = [response for response in found if response is not None]
        self._finish(
            [message.get("id") for message in messages if isinstance(message, dict)], responses or None
        )

    async def _of_batch(self, message: Any, key: str | None) -> Json | None:
        try:
            check_message(message)
        except RpcError as error:
            return error.response(reply_id(message))
        if is_request(message):
            return await self._respond(message, key)
        self._take(message)
        return None

    # ── out ──

    def _finish(self, request_id: Any, response: Any) -> None:
        """The front must know that a request is answered, or that it never will be.

        One that we leave unanswered because we end is for the next daemon.
        """
        if self._closing:
            return
        note = self._announce({"done": request_id, "answered": response is not None})
        self._write(note if response is None else note + encode(response))

    def _send(self, message: Json) -> None:
        self._write(encode(message))

    def _notify(self, message: Json) -> None:
        if not self._is_full():
            self._send(message)

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self, seconds: float) -> None:
        """Give the answers that are being made a moment."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)

    async def close(self, why: Leaving = "gone") -> None:
        self._closing = True
        await self.session.close(why)
        while self._tasks:
            await asyncio.wait(set(self._tasks))

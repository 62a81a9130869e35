"""MCP as lines of JSON, on a socket or on stdin and stdout.

What a peer sends is limited: the length of a line, the bytes of all unfinished lines together, and the lines of one
connection that are handled before the next connection's. From a peer that does not read its answers, nothing is read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias, cast

from counsel import alarms
from counsel.front import json_messages as messages_
from counsel.front.bounded_lines import LONGEST, Lines, TooLong
from counsel.front.json_messages import Unreadable
from counsel.front.protocol import (
    RpcError,
    batch_ids,
    check_batch,
    check_message,
    is_request,
    reply_id,
    unreadable,
)
from counsel.mcp.session import Session
from counsel.mcp.tool_call import LeaveReason
from counsel.strict_json import encode_line

log = logging.getLogger("counsel.mcp")

Line: TypeAlias = Callable[[bytes], None]
ANNOUNCE_AFTER = 0.25  # seconds
MOST_UNFINISHED = 256 * 1024 * 1024  # bytes of unfinished lines in this process
MOST_UNREAD = 128 * 1024 * 1024  # bytes of answers that one connection has not read
REFUSAL_TIMEOUT = 1.0  # seconds for a refused peer to read the reason
LINES_AT_ONCE = 50  # of one connection: 256 KiB of lines that are not JSON take 1.5 s


class UnfinishedBytes:
    """Bytes of all unfinished lines."""

    def __init__(self) -> None:
        self.bytes = 0


_UNFINISHED_BYTES = UnfinishedBytes()


class Splitter:
    """Splits bytes into lines and calls `line` with each. A discarded line goes to `too_long` when its end arrives."""

    __slots__ = ("_line", "_lines", "_too_long", "_total")

    def __init__(
        self,
        line: Line,
        too_long: Callable[[TooLong], None],
        longest: int = LONGEST,
        total: UnfinishedBytes = _UNFINISHED_BYTES,
    ) -> None:
        self._lines = Lines(longest)
        self._line, self._too_long = line, too_long
        self._total = total

    def allow(self, longest: int) -> None:
        self._lines.longest = longest

    def feed(self, data: bytes) -> None:
        before = self._lines.unfinished
        lines = self._lines.feed(data)
        self._total.bytes += self._lines.unfinished - before
        if self._total.bytes > MOST_UNFINISHED and self._lines.unfinished:
            self._total.bytes -= self._lines.unfinished
            self._lines.give_up()
        for line in lines:
            self._take(line)

    def end(self) -> None:
        """The stream was closed: handle a last line without a newline."""
        self._total.bytes -= self._lines.unfinished
        self._take(self._lines.end())

    def drop(self) -> None:
        """The sender is gone."""
        self._total.bytes -= self._lines.unfinished
        self._lines.clear()

    def _take(self, line: bytes | TooLong) -> None:
        if not isinstance(line, bytes):
            self._too_long(line)
        elif line.strip():
            self._line(line)


class LinePipe(asyncio.Protocol):
    """One stream of lines.

    `is_server`: stop reading from a peer that does not read its answers. Only one side of a connection may do this:
    two sides that wait for each other would wait forever.
    """

    def __init__(
        self,
        on_line: Line,
        on_lost: Callable[[], None],
        *,
        on_made: Callable[[], None] = lambda: None,
        on_too_long: Callable[[TooLong], None] | None = None,
        is_server: bool = False,
    ) -> None:
        self._lines: deque[bytes] = deque()
        self.splitter = Splitter(self._lines.append, on_too_long or self._stop_reading)
        self._on_line = on_line
        self._on_lost = on_lost
        self._on_made = on_made
        self._is_server = is_server
        self.transport: asyncio.Transport | None = None
        self.full = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._out: list[bytes] = []
        self._turn: asyncio.Handle | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._on_made()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self.splitter.feed(data)
        if self._turn is None:
            self._handle_lines()

    def _handle_lines(self) -> None:
        self._turn = None
        for _ in range(min(LINES_AT_ONCE, len(self._lines))):
            if self._lines:  # a line may end the connection
                self._on_line(self._lines.popleft())
        if self._lines:
            self._turn = asyncio.get_running_loop().call_soon(self._handle_lines)
        self._read_or_wait()

    def _read_or_wait(self) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        if self._lines or (self._is_server and self.full):
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio passes it
        self._forget()
        self._out.clear()
        self._writable.set()
        self._on_lost()

    def _forget(self) -> None:
        """Free the memory now, not at the next garbage collection: an unfinished line may have many megabytes."""
        self._lines.clear()
        self.splitter.drop()

    def _stop_reading(self, line: TooLong) -> None:
        self._cut_off(f"it sent a line of {line.size:,} bytes")

    def _cut_off(self, why: str) -> None:
        log.warning("closed a connection: %s", why)
        if self.transport is not None:
            self.transport.abort()

    def pause_writing(self) -> None:
        self.full = True
        self._writable.clear()
        self._read_or_wait()

    def resume_writing(self) -> None:
        self.full = False
        self._writable.set()
        self._read_or_wait()

    async def drain(self) -> None:
        """Wait until the peer has read enough for more to be written."""
        await self._writable.wait()

    def write(self, data: bytes) -> None:
        """Collect what is written in one turn of the loop and send it at once: a system call costs more than a copy."""
        if self._refused:  # nothing follows a refusal
            return
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        data, self._out = b"".join(self._out), []
        if data and self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)
            if self.transport.get_write_buffer_size() > MOST_UNREAD:
                self._cut_off(f"it has not read {MOST_UNREAD // 2**20} MiB of answers")

    def refuse(self, data: bytes) -> None:
        """Send `data` and close, but keep reading for a while: closing while the peer sends would reset the
        connection."""
        self._forget()
        self.write(data)
        self._flush()
        self._refused = True
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write_eof()
            asyncio.get_running_loop().call_later(REFUSAL_TIMEOUT, self.transport.close)

    def close(self) -> None:
        self._flush()
        self._forget()
        if self.transport is not None:
            self.transport.close()


class McpLines:
    """A session over lines. Each request has its own task, so none waits for another."""

    def __init__(
        self,
        session: Session,
        write: Callable[[bytes], None],
        *,
        is_full: Callable[[], bool] = lambda: False,
        announce: Callable[[dict[str, object]], bytes] = lambda _: b"",
    ) -> None:
        self.session = session
        self._write = write
        self._is_full = is_full
        self._announce = announce  # makes a control line for the front
        self._tasks: dict[int, asyncio.Task[None]] = {}  # by the identity of their message
        self._closing = False
        session.ask = self._send

    def refuse(self, line: TooLong) -> None:
        self._send(line.response())

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def line(self, data: bytes, key: str | None = None, waited: float = 0.0) -> None:
        """Handle a line. `waited`: seconds that the client has already waited for the answer."""
        try:
            message = messages_.parse(data)
        except Unreadable as error:
            self._send(unreadable(error).response(None))
            return
        if isinstance(message, list):
            self._batch(message, key, waited)
            return
        self._single(message, key, waited)

    def _single(self, message: Any, key: str | None, waited: float) -> None:
        try:
            check_message(message)
        except RpcError as error:
            self._send(error.response(reply_id(message)))
            return
        if is_request(message):
            self._start(message, self._reply(message, key, waited))
        else:
            self._take(message)

    def _take(self, message: dict[str, object]) -> None:
        if "method" in message:
            self.session.on_notification(message)
        else:
            self.session.on_response(message)

    async def _reply(self, request: dict[str, object], key: str | None, waited: float) -> None:
        try:
            self._finish(request["id"], await self._respond(request, key, waited))
        finally:  # a callback of the task would cost more
            del self._tasks[id(request)]

    async def _respond(
        self, request: dict[str, object], key: str | None, waited: float
    ) -> dict[str, object] | None:
        """Answer a request. Announce its job to the front only after a while: a quick answer makes that unnecessary."""
        timer: alarms.Alarm | None = None

        def on_job(job: str) -> None:
            nonlocal timer
            due = time.monotonic() + ANNOUNCE_AFTER
            timer = alarms.at(due, lambda: self._announce_job(job, request["id"]))

        try:
            return await self.session.respond(request, self._notify, key=key, on_job=on_job, waited=waited)
        finally:
            if timer is not None:
                timer.cancel()

    def _announce_job(self, job: str, request_id: object) -> None:
        self._write(self._announce({"job": job, "id": request_id}))

    # ── batches, in one revision only ──

    def _batch(self, messages: Sequence[object], key: str | None, waited: float) -> None:
        try:
            check_batch(messages, self.session.protocol_state.version)
        except RpcError as error:
            self._finish(batch_ids(messages), error.response(None))
            return
        self._start(messages, self._reply_to_all(messages, key, waited))

    async def _reply_to_all(self, messages: Sequence[object], key: str | None, waited: float) -> None:
        work = (
            self._batch_entry(message, key and f"{key}.{index}", waited)
            for index, message in enumerate(messages)
        )
        try:
            responses = [response for response in await asyncio.gather(*work) if response is not None]
            self._finish(batch_ids(messages), responses or None)
        finally:
            del self._tasks[id(messages)]

    async def _batch_entry(self, message: Any, key: str | None, waited: float) -> dict[str, object] | None:
        try:
            check_message(message)
        except RpcError as error:
            return error.response(reply_id(message))
        if is_request(message):
            return await self._respond(message, key, waited)
        self._take(message)
        return None

    # ── output ──

    def _finish(self, request_id: object, response: object) -> None:
        """Send a response, and tell the front that this request is finished, with or without an answer.

        While the session closes, nothing is sent: the front sends the unanswered requests to the next daemon.
        """
        if self._closing:
            return
        control = self._announce({"done": request_id, "answered": response is not None})
        self._write(control if response is None else control + encode_line(response))

    def _send(self, message: dict[str, object]) -> None:
        self._write(encode_line(message))

    def _notify(self, message: dict[str, object]) -> None:
        if not self._is_full():
            self._send(message)

    def _start(self, message: object, work: Coroutine[object, object, None]) -> None:
        self._tasks[id(message)] = asyncio.get_running_loop().create_task(work)

    async def drain(self, seconds: float) -> None:
        """Wait up to `seconds` for answers in progress."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)

    async def close(self, why: LeaveReason = "gone") -> None:
        self._closing = True
        await self.session.close(why)
        while self._tasks:
            await asyncio.wait(self._tasks.values())

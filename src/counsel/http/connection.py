"""One HTTP connection with limits of time and size: uvicorn has none for headers, bodies, chunks and slow readers.

When there are too many connections, one that waits for a request is closed for a newer one, so that thousands of idle
connections do not block other clients.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import field
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from counsel.daemon.process_limits import MOST_CONNECTIONS, PendingConnections
from counsel.http.chunks import CONNECTION, WATCHABLE, chunk
from counsel.http.joined_writes import JoinedWrites
from counsel.lazy_dataclass import dataclass

LARGEST_HEAD = 32 * 1024  # bytes of a request's first line and headers
HEAD_TIMEOUT = 10.0  # seconds until the head is complete
BODY_TIMEOUT = 10.0  # seconds for a body, plus one for every SLOWEST_BODY bytes received
SLOWEST_BODY = 16 * 1024  # bytes per second
READ_TIMEOUT = 120.0  # seconds; a client that reads nothing of its answer for this long counts as gone
MOST_PIECES = 4_000  # chunks of a body, plus one for every SMALLEST_PIECE bytes
SMALLEST_PIECE = 64  # bytes: 64 MiB in chunks of one byte would take h11 eight minutes
RESERVED = 32  # connections beyond the limit, for `/health` and to answer that there are too many

_SLICE = 16 * 1024  # bytes passed to h11 at once: it limits only heads that arrive in several pieces
_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_LOG = logging.getLogger("counsel.http.connection")
_LOG.setLevel(logging.ERROR)  # uvicorn would warn of every request that is not HTTP


@dataclass(slots=True)
class Pool:
    """What the connections of one server share."""

    most: int = MOST_CONNECTIONS
    # Those that wait for a request.
    waiting: PendingConnections[Connection] = field(default_factory=PendingConnections)


class Parser(h11.Connection):
    """An h11 parser that refuses bodies in tiny chunks and treats anything unreadable as the client's mistake."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, LARGEST_HEAD)
        self.began = time.monotonic()  # the current request
        self.received = 0
        self._pieces = 0
        self.is_chunked = False  # the answer that is being sent

    def send(self, event: Any) -> Any:
        """Frame chunks of a stream here: h11 makes thirty function calls for one, and a live stream sends twenty a
        second."""
        if self.is_chunked and type(event) is h11.Data and self.our_state is h11.SEND_BODY:
            return chunk(event.data) if event.data else b""
        output = super().send(event)
        if type(event) is h11.Response:
            self.is_chunked = b"\r\ntransfer-encoding: chunked\r\n" in (output or b"").lower()
        return output

    def next_event(self) -> Any:
        try:
            event = super().next_event()
        except ValueError as error:  # a Content-Length with more digits than Python converts
            raise h11.RemoteProtocolError("a header cannot be read") from error
        if isinstance(event, h11.Request):
            self.began, self.received, self._pieces = time.monotonic(), 0, 0
        elif isinstance(event, h11.Data):
            self.received += len(event.data)
            self._pieces += 1
            if self._pieces > MOST_PIECES + self.received // SMALLEST_PIECE:
                raise h11.RemoteProtocolError("the body's chunks are too small")
        return event


class Connection(H11Protocol):
    def __init__(self, *, pool: Pool, **options: Any) -> None:
        super().__init__(**options)
        self.logger = _LOG
        self.conn: Parser = Parser()
        self._pool = pool
        self._waits_since = time.monotonic()
        self._received_data = False
        self._unread = 0
        self._unread_since = 0.0
        self._on_disconnect: Callable[[], None] | None = None
        self._is_disconnected = False

    # ── connecting, waiting, closing ──

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn's own
        super().connection_made(transport)
        self._writes = JoinedWrites(transport)
        self.transport = cast("asyncio.Transport", self._writes)
        # `peer`: a cache in which `auth.Guard` keeps what it learns about the client
        self.app_state = {**self.app_state, "peer": {}, CONNECTION: self, WATCHABLE: self}
        if len(self.connections) > self._pool.most:
            self._drop_oldest()
        self._wait_for_request()

    def _drop_oldest(self) -> None:
        oldest = self._pool.waiting.oldest()
        if oldest is not None:
            self._pool.waiting.discard(oldest)
            oldest.transport.abort()
        elif len(self.connections) > self._pool.most + RESERVED:
            self.transport.abort()
        else:
            self.app_state = {**self.app_state, "is_over_limit": True}  # `auth.Guard` answers

    def _wait_for_request(self) -> None:
        self._waits_since = time.monotonic()
        self._received_data = False
        self._pool.waiting.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.waiting.discard(self)
        super().connection_lost(exc)
        self.app_state = {}  # breaks a cycle: the state refers to this connection
        self._is_disconnected = True
        on_disconnect, self._on_disconnect = self._on_disconnect, None
        if on_disconnect is not None:
            on_disconnect()

    def watch(self, on_disconnect: Callable[[], None]) -> bool:
        self._on_disconnect = on_disconnect
        return not self._is_disconnected

    def unwatch(self, on_disconnect: Callable[[], None]) -> None:
        if self._on_disconnect is on_disconnect:
            self._on_disconnect = None

    def on_response_complete(self) -> None:
        self._writes.flush()  # first: the client need not wait for the rest of this method
        self._wait_for_request()
        super().on_response_complete()

    def _waits(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    # ── reading ──

    def data_received(self, data: bytes) -> None:
        self._received_data = True
        step = _SLICE if self._waits() else len(data)
        for start in range(0, len(data), step):
            if self.transport.is_closing():
                return
            super().data_received(data[start : start + step])
        if not self._waits():
            self._pool.waiting.discard(self)

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:  # an answer has begun and cannot be withdrawn
            self.transport.close()

    # ── writing: `Chunks` ──

    def takes_chunk(self) -> bool:
        return (
            self.conn.is_chunked
            and self.conn.our_state is h11.SEND_BODY
            and not self.flow.write_paused
            and not self.transport.is_closing()
        )

    def write_chunk(self, data: bytes) -> None:
        self._writes.write_at_once(chunk(data))

    # ── time limits ──

    def enforce(self, now: float) -> None:
        """Called once a second."""
        if self._stalls(now):
            self.transport.abort()
        elif not self.transport.is_closing() and self._is_late(now):
            if self._received_data and (
                self.cycle is None or not self.cycle.response_started or self._waits()
            ):
                self.transport.write(_TIMED_OUT)
            self.transport.close()

    def _is_late(self, now: float) -> bool:
        if self._waits():
            return now - self._waits_since > HEAD_TIMEOUT
        if not self.cycle.more_body or self.flow.read_paused:
            return False
        return now - self.conn.began > BODY_TIMEOUT + self.conn.received / SLOWEST_BODY

    def _stalls(self, now: float) -> bool:
        unread = self.transport.get_write_buffer_size()
        if not unread or unread != self._unread:
            self._unread, self._unread_since = unread, now
        return now - self._unread_since > READ_TIMEOUT

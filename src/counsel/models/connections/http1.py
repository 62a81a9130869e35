"""A small HTTP/1.1 client for the vendors' streams, with one request at a time on each connection.

aiohttp took a quarter of a call's CPU, most of it in layers that are not used here: redirects, cookies, decompression,
one parser call and one queue entry for every chunk. Other requests (through a proxy, with an unusual URL) still use
aiohttp: `sender.py` decides. `connection_pool.py` keeps connections open for the next request.

Everything that a server sends is bounded: the head, the size line of a chunk, and the bytes that have not been read.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable
from typing import Protocol, TypeAlias, cast

from counsel import alarms

MAX_HEAD = 64 * 1024  # bytes of a response's status line and headers
MAX_INTERIM = 16  # responses with a status of 100 to 199 before the final one
MAX_UNREAD = 128 * 1024  # unread bytes of a body; beyond this, the socket is paused
_MAX_SIZE_LINE = 4096  # bytes of a chunk's size with its extensions, or of one trailer line
_MAX_PUSHED = 16 * 1024  # bytes; a larger piece goes through the reader, which lets other tasks run
_JOINED = 64 * 1024  # bytes of a body that is sent with its head, in one system call
_STATUS = re.compile(rb"HTTP/1\.([01]) +(\d{3})(?: |$)")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?")
_PLAIN_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")

_HEX = b"0123456789abcdefABCDEF"
_MANY_BYTES = 1024  # enough for many chunks
_SIZE_NEXT, _LAST = -1, -2  # markers for `_left`: a chunk's size is next; the last chunk was read

Trust: TypeAlias = ssl.SSLContext | None
Key: TypeAlias = tuple[str, int, Trust]
Push: TypeAlias = Callable[[bytes], bool]


class NotHttp(ConnectionError):
    """The response is not HTTP, or exceeds a bound."""


class Disconnected(ConnectionError):
    """The server closed the connection before its answer was complete."""


class ConnectTimeout(OSError):
    """No connection within the limit."""


class DeadlineExceeded(Exception):
    """Nothing arrived before the deadline."""


def check(until: float) -> None:
    if time.monotonic() >= until:
        raise DeadlineExceeded


class Response:
    """A response while it arrives. `headers` are in lower case."""

    __slots__ = (
        "_connection", "_error", "_loop", "_pieces", "_push", "_size", "_timer", "_until", "_waiter", "ended", "headers", "status",
    )  # fmt: skip

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.ended = False  # no more bytes will arrive
        self._connection: Connection | None = connection
        self._loop = connection.loop
        self._pieces: list[bytes] = []
        self._size = 0
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: alarms.Alarm | None = None
        self._until = 0.0
        self._push: Push | None = None

    @property
    def content_type(self) -> str:
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return kind or "application/octet-stream"

    def push_to(self, push: Push) -> None:
        """While `readany` waits, pass bytes to `push` as they arrive. If that returns False, `readany` returns b""."""
        self._push = push

    def extend(self, until: float) -> None:
        """A later deadline for the `readany` that waits."""
        self._until = until

    async def readany(self, until: float) -> bytes:
        """The bytes that have arrived; empty at the end. Raises `DeadlineExceeded` if none arrive in time."""
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self.ended:
                return b""
            await self._change(until)
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        if self._size > MAX_UNREAD and self._connection is not None:
            self._connection.resume()
        self._size = 0
        return data

    async def head(self, until: float) -> None:
        while not self.status:
            if self._error is not None:
                raise self._error
            await self._change(until)

    def _change(self, until: float) -> asyncio.Future[None]:
        """Done when something has arrived, or failed at the deadline.

        One timer for all waits of a response: moving the deadline is an assignment, not a new timer.
        """
        self._until = until
        if self._timer is None or self._timer.when > until:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = alarms.at(until, self._check_deadline)
        self._waiter = self._loop.create_future()
        return self._waiter

    def _check_deadline(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        if time.monotonic() < self._until:
            self._timer = alarms.at(self._until, self._check_deadline)
        else:
            self._waiter.set_exception(DeadlineExceeded())

    # ── called by the connection ──

    def feed(self, piece: bytes) -> bool:
        """False if too many bytes have not been read."""
        if self._push is not None and len(piece) <= _MAX_PUSHED and self._is_awaited():
            if self._push(piece):
                return True
            piece = b""  # `push` took it, but the reader must wake up
        self._pieces.append(piece)
        self._size += len(piece)
        self.wake()
        return self._size <= MAX_UNREAD

    def _is_awaited(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    def end(self, error: Exception | None = None) -> None:
        self.ended, self._error, self._connection = True, error, None
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Stop reading. If the response is incomplete, its connection is closed."""
        self._push = self._waiter = None  # it may have an error, whose frames refer to this response
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


class Owner(Protocol):
    """What a connection needs from its pool."""

    buffer: memoryview  # for one read of any of its connections

    def keep(self, connection: Connection) -> None: ...
    def forget(self, connection: Connection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """One connection to a server. All connections of a pool are read into one buffer: asyncio would allocate 256 KiB
    for every read, which glibc requests from the system and returns."""

    def __init__(self, pool: Owner, key: Key) -> None:
        self._pool, self.key = pool, key
        self.loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._response: Response | None = None
        self._buffer = b""
        # The class's function: a bound method would be a reference cycle.
        self._parse = Connection._head
        self._left = 0  # bytes left of the chunk or the body, or one of the two markers
        self._keep_alive = True
        self._interim = 0
        self._is_paused = False
        self.expires = 0.0

    # ── requests ──

    def send(self, head: bytes, body: bytes | None) -> Response:
        assert self._transport is not None  # it is connected
        response = self._response = Response(self)
        self._parse = Connection._head
        self._interim = 0
        if body is None:
            self._transport.write(head)
        elif len(body) <= _JOINED:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        return response

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def resume(self) -> None:
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    # ── called by asyncio ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio passes it
        return self._pool.buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._pool.buffer[:nbytes])
        if self._response is None:  # there is no request
            self.abort()
            return
        self._buffer = self._buffer + data if self._buffer else data
        try:
            self._parse(self)
        except NotHttp as error:
            self._end(error)
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._pool.forget(self)
        if self._response is None:
            return
        if self._parse is Connection._until_closed and exc is None:
            self._end()
        else:
            self._end(Disconnected(str(exc) if exc else "Server disconnected"))

    # ── parsing ──

    def _head(self) -> None:
        end = self._buffer.find(b"\r\n\r\n")
        if (len(self._buffer) if end < 0 else end) > MAX_HEAD:
            raise NotHttp(f"a head of more than {MAX_HEAD} bytes")
        if end < 0:
            if not b"HTTP/1.".startswith(self._buffer[:7]):
                raise NotHttp("the response does not begin with HTTP/1")
            return
        lines = self._buffer[:end].split(b"\r\n")
        self._buffer = self._buffer[end + 4 :]
        status = _STATUS.match(lines[0])
        if not status:
            raise NotHttp("an invalid status line")
        if status[2][0:1] == b"1":
            self._interim_response(status[2])
            return
        assert self._response is not None  # `buffer_updated` checked it
        headers = self._response.headers = _headers(lines[1:])
        self._response.status = int(status[2])
        option = headers.get("connection", "").lower()
        self._keep_alive = "close" not in option if status[1] == b"1" else "keep-alive" in option
        self._begin_body(headers, self._response.status)
        if self._response is not None:
            self._response.wake()
            if self._buffer:
                self._parse(self)

    def _interim_response(self, status: bytes) -> None:
        """100 Continue and the like: the final response follows."""
        if status == b"101":
            raise NotHttp("a protocol change that was not requested")
        self._interim += 1
        if self._interim > MAX_INTERIM:
            raise NotHttp(f"more than {MAX_INTERIM} interim responses")
        if self._buffer:
            self._head()

    def _begin_body(self, headers: dict[str, str], status: int) -> None:
        coding, length = headers.get("transfer-encoding", "").strip().lower(), headers.get("content-length")
        if status in {204, 304}:
            self._end()
        elif coding == "chunked":
            self._left, self._parse = _SIZE_NEXT, Connection._chunks
        elif coding and coding != "identity":
            raise NotHttp(f"the transfer encoding {coding[:40]}")
        elif length is None:
            self._keep_alive, self._parse = False, Connection._until_closed
        elif not (length.isascii() and length.isdecimal() and len(length) < 20):
            raise NotHttp("a content-length that is not a number")
        else:
            self._left, self._parse = int(length), Connection._counted
            if not self._left:
                self._end()

    def _deliver(self, piece: bytes) -> None:
        if piece and self._response is not None and not self._response.feed(piece) and not self._is_paused:
            self._is_paused = True
            assert self._transport is not None  # data has just arrived
            self._transport.pause_reading()

    def _until_closed(self) -> None:
        piece, self._buffer = self._buffer, b""
        self._deliver(piece)

    def _counted(self) -> None:
        piece, self._buffer = self._buffer[: self._left], self._buffer[self._left :]
        self._left -= len(piece)
        self._deliver(piece)
        if not self._left:
            self._end()

    def _chunks(self) -> None:
        data, pieces = self._buffer, list[bytes]()
        at = _whole_chunks(data, pieces) if self._left == _SIZE_NEXT else 0
        while (after := self._chunk(data, at, pieces)) != at:
            at = after
        self._buffer = data[at:]
        if pieces:
            self._deliver(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if self._left == _LAST:
            self._parse = Connection._trailer
            self._trailer()

    def _chunk(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Add the arrived part of one chunk to `pieces`. Returns the position after it, or `at` if data is missing."""
        left = self._left
        if left < 0:
            line = data.find(b"\r\n", at)
            if left == _LAST or line < 0:
                if len(data) - at > _MAX_SIZE_LINE and left != _LAST:
                    raise NotHttp("a chunk without a size")
                return at
            left = _size(data[at:line])
            at = line + 2
            if not left:
                self._left = _LAST
                return at
        stop = at + left
        if stop + 2 > len(data):  # an incomplete chunk is passed on
            if piece := data[at:stop]:
                pieces.append(piece)
            self._left = left - len(piece)
            return at + len(piece)
        if data[stop : stop + 2] != b"\r\n":
            raise NotHttp("a chunk that is longer than its size")
        if left:
            pieces.append(data[at:stop])
        self._left = _SIZE_NEXT
        return stop + 2

    def _trailer(self) -> None:
        while (line := self._buffer.find(b"\r\n")) >= 0:
            self._buffer = self._buffer[line + 2 :]
            if not line:
                self._end()
                return
        if len(self._buffer) > _MAX_SIZE_LINE:
            raise NotHttp("a trailer without an end")

    def _end(self, error: Exception | None = None) -> None:
        response, self._response = self._response, None
        if response is None:
            return
        response.end(error)
        if error is None and self._keep_alive and not self._buffer and self.is_open:
            self.resume()
            self._pool.keep(self)
        else:
            self._buffer = b""
            self.abort()


def _whole_chunks(data: bytes, pieces: list[bytes]) -> int:
    """Add the complete chunks in the vendors' usual form to `pieces`. Returns the position of the first other one."""
    at = _many_chunks(data, pieces) if len(data) > _MANY_BYTES else 0
    while match := _PLAIN_SIZE.match(data, at):
        start = match.end()
        stop = start + int(match[1], 16)
        if stop == start or data[stop : stop + 2] != b"\r\n":
            break
        pieces.append(data[start:stop])
        at = stop + 2
    return at


def _many_chunks(data: bytes, pieces: list[bytes]) -> int:
    """The same for many small chunks, if no CRLF is inside one of them; otherwise 0."""
    lines = data.split(b"\r\n")
    pairs = (len(lines) - 1) // 2
    sizes, parts = lines[: 2 * pairs : 2], lines[1 : 2 * pairs : 2]
    if sizes and sizes[-1] == b"0":  # the last one
        del sizes[-1], parts[-1]
    digits = b"".join(sizes)
    if not all(sizes) or len(digits) > 8 * len(sizes) or digits.translate(None, _HEX):
        return 0
    lengths = list(map(len, parts))
    if not all(lengths) or [int(size, 16) for size in sizes] != lengths:
        return 0
    pieces += parts
    return len(digits) + sum(lengths) + 4 * len(sizes)


def _size(line: bytes) -> int:
    match = _SIZE.fullmatch(line)
    if not match:
        raise NotHttp("a chunk whose size is not a number")
    return int(match[1], 16)


def _headers(lines: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    name = ""
    for line in lines:
        if line[:1] in {b" ", b"\t"} and name:  # a header on several lines, from old servers
            headers[name] += " " + line.strip().decode("utf-8", "replace")
            continue
        field, colon, value = line.decode("utf-8", "replace").partition(":")
        name, value = field.strip().lower(), value.strip()
        if not colon or not name:
            raise NotHttp("a header without a name")
        if name in headers:
            if name == "content-length" and headers[name] != value:
                raise NotHttp("two different content-lengths")
            value = value if name == "content-length" else f"{headers[name]}, {value}"
        headers[name] = value
    return headers

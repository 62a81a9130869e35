"""The HTTP client for streams, against a server that sends exactly the given bytes in the given pieces."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counsel import alarms
from counsel.models.connections import connection_pool, http1
from counsel.models.connections.connection_pool import Pool
from counsel.models.connections.http1 import ConnectTimeout, DeadlineExceeded, Disconnected, NotHttp
from counsel.models.connections.request_head import Address, address, request_head

OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


class Server:
    """Answers each request with the next script: pieces, and whether the connection is closed after them."""

    def __init__(self) -> None:
        self.scripts: list[tuple[list[bytes], bool]] = []
        self.requests: list[bytes] = []
        self.connections = 0
        self.lost = asyncio.Event()
        self.written = 0

    def says(self, *pieces: bytes, closes: bool = False) -> None:
        self.scripts.append((list(pieces), closes))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = [line for line in head.split(b"\r\n") if line.startswith(b"content-length")]
                self.requests.append(
                    head + (await reader.readexactly(int(size[0].split()[1])) if size else b"")
                )
                pieces, closes = self.scripts.pop(0)
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    self.written += len(piece)
                    await asyncio.sleep(0)
                if closes:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            self.lost.set()
        finally:
            writer.close()


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Server, Callable[..., Awaitable[http1.Response]]]]:
    server, pool = Server(), Pool()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server_address = address(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1/x")
    assert server_address is not None

    async def ask(body: bytes | None = b"{}", seconds: float = 10.0) -> http1.Response:
        head = request_head("POST", server_address, {"x": "y"}, None if body is None else len(body))
        assert head is not None
        until = asyncio.get_running_loop().time() + seconds
        return await pool.request(server_address, head, body, trust=None, connect=5.0, until=until)

    try:
        yield server, ask
    finally:
        pool.close()
        listening.close()


async def read(response: http1.Response, seconds: float = 10.0) -> bytes:
    data = bytearray()
    while piece := await response.readany(asyncio.get_running_loop().time() + seconds):
        data += piece
    return bytes(data)


async def test_a_connection_is_used_again_after_each_kind_of_body() -> None:
    async with running() as (server, ask):
        server.says(CHUNKED + b"3\r\nabc\r\n0\r\n\r\n")
        server.says(OK + b"content-length: 3\r\n\r\nabc")
        server.says(b"HTTP/1.1 204 No Content\r\n\r\n")
        server.says(OK + b"content-length: 0\r\n\r\n")
        server.says(CHUNKED + b"0\r\nx-trailer: 1\r\n\r\n")
        for expected in (b"abc", b"abc", b"", b"", b""):
            assert await read(await ask()) == expected
        assert server.connections == 1
        assert server.requests[0].startswith(b"POST /v1/x HTTP/1.1\r\nhost: 127.0.0.1:")
        assert server.requests[0].endswith(b"x: y\r\ncontent-length: 2\r\n\r\n{}")


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    async with running() as (server, ask):
        server.says(OK + b"\r\nab", b"c", closes=True)
        server.says(b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nd")
        server.says(OK + b"connection: close\r\ncontent-length: 1\r\n\r\ne")
        server.says(OK + b"content-length: 1\r\n\r\nf")
        assert [await read(await ask()) for _ in range(4)] == [b"abc", b"d", b"e", b"f"]
        assert server.connections == 4


async def test_informational_responses_are_skipped() -> None:
    async with running() as (server, ask):
        server.says(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + CHUNKED,
            b"0\r\n\r\n",
        )
        response = await ask()
        assert (response.status, await read(response)) == (200, b"")


@settings(max_examples=60, deadline=None)
@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    cuts=st.sets(st.integers(0, 400), max_size=30),
    extension=st.sampled_from([b"", b";x=1", b" ", b';a="b"']),
    trailer=st.sampled_from([b"", b"a: b\r\n"]),
)
async def test_an_answer_is_the_same_however_its_bytes_are_cut(
    chunks: list[bytes], cuts: set[int], extension: bytes, trailer: bytes
) -> None:
    body = b"".join(b"%x%s\r\n%s\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
    stream = CHUNKED + body + b"0\r\n" + trailer + b"\r\n"
    ends = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    response = _fed([stream[start:end] for start, end in pairwise(ends)])
    assert response.status == 200
    assert response.content_type == "text/event-stream"
    assert await read(response) == b"".join(chunks)
    assert response.ended


@settings(max_examples=40, deadline=None)
@given(
    chunks=st.lists(
        st.one_of(st.binary(min_size=1, max_size=40), st.sampled_from([b"\r\n", b"0\r\n\r\n", b"a\r\nb"])),
        min_size=40,
        max_size=60,
    ),
    plain=st.booleans(),
    cut=st.integers(0, 3000),
)
async def test_many_small_chunks_in_one_read(chunks: list[bytes], plain: bool, cut: int) -> None:
    parts = [b"x" * 20 + chunk.replace(b"\r\n", b"--") if plain else chunk for chunk in chunks]
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in parts) + b"0\r\n\r\n"
    response = _fed([CHUNKED + body[:cut], body[cut:]])
    assert await read(response) == b"".join(parts)
    assert response.ended


def _fed(pieces: list[bytes]) -> http1.Response:
    """A response made of these reads, without a socket."""
    pool = Pool()
    connection = http1.Connection(pool, ("", 0, None))
    connection.connection_made(_Nowhere())
    response = connection.send(b"", None)
    for piece in pieces:
        if piece:
            pool.buffer[: len(piece)] = piece
            connection.buffer_updated(len(piece))
    pool.close()
    return response


@pytest.mark.parametrize(("size", "writes"), [(0, 1), (1, 1), (http1._JOINED, 1), (http1._JOINED + 1, 2)])
async def test_a_small_body_is_written_with_its_head_and_a_large_one_is_not_copied(
    size: int, writes: int
) -> None:
    pool, transport = Pool(), _Nowhere()
    connection = http1.Connection(pool, ("", 0, None))
    connection.connection_made(transport)
    connection.send(b"head", b"x" * size)
    pool.close()
    assert len(transport.writes) == writes
    assert b"".join(transport.writes) == b"head" + b"x" * size


class _Nowhere(asyncio.Transport):
    closing = False

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True

    def pause_reading(self) -> None:
        pass


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" * 2500 + CHUNKED,
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        OK + b"content-length: -1\r\n\r\n",
        OK + b"content-length: 1\r\ncontent-length: 2\r\n\r\n",
        OK + b"transfer-encoding: gzip, chunked\r\n\r\n",
        OK + b": nameless\r\n\r\n",
        CHUNKED + b"xyz\r\n",
        CHUNKED + b"+3\r\nabc\r\n",
        CHUNKED + b"0x3\r\nabc\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"3\r\nabcd\r\n",
        CHUNKED + b"40\r\n" + b"x" * 64 + b"\r\n" + b"+3\r\nabc\r\n" * 200,
        CHUNKED + b"3\r\nabc\r\n" * 200 + b"4\r\nabc\r\n\r\n",
        CHUNKED + b"1" * 5000,
        b"HTTP/1.1 200 OK\r\nx: " + b"x" * 70_000,
        b"HTTP/1.1 200 OK\r\nx: " + b"x" * 70_000 + b"\r\n\r\n",
    ],
)
async def test_a_response_that_is_not_http_is_refused_and_its_connection_closed(answer: bytes) -> None:
    async with running() as (server, ask):
        server.says(answer)
        with pytest.raises(NotHttp):
            await read(await ask())
        await asyncio.wait_for(server.lost.wait(), 10)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        CHUNKED + b"3\r\nab",
        CHUNKED + b"0\r\n",
        OK + b"content-length: 2\r\n\r\na",
    ],
)
async def test_an_answer_that_breaks_off_does_not_count_as_complete(answer: bytes) -> None:
    async with running() as (server, ask):
        server.says(answer, closes=True)
        with pytest.raises(Disconnected):
            await read(await ask())


async def test_a_silent_server_is_abandoned_at_the_deadline() -> None:
    async with running() as (server, ask):
        server.says(CHUNKED + b"1\r\na\r\n")
        server.says()
        response = await ask()
        assert await response.readany(asyncio.get_running_loop().time() + 10) == b"a"
        with pytest.raises(DeadlineExceeded):
            await response.readany(asyncio.get_running_loop().time() + 0.05)
        response.close()
        await asyncio.wait_for(server.lost.wait(), 10)
        with pytest.raises(DeadlineExceeded):
            await ask(seconds=0.05)


async def test_a_deadline_that_moves_on_needs_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    response = _fed([CHUNKED])
    loop, call_at = asyncio.get_running_loop(), asyncio.get_running_loop().call_at
    timers: list[Any] = []

    def counted(*args: Any, **options: Any) -> Any:
        timers.append(args)
        return call_at(*args, **options)

    monkeypatch.setattr(loop, "call_at", counted)
    for _ in range(20):
        loop.call_soon(response.feed, b"x")
        assert await response.readany(loop.time() + 60) == b"x"
    assert len(timers) == 1
    response.close()


async def test_an_earlier_deadline_of_a_reader_does_not_end_its_next_wait() -> None:
    response, loop = _fed([CHUNKED]), asyncio.get_running_loop()
    earlier = loop.time() + 0.01
    loop.call_soon(response.feed, b"x")
    assert await response.readany(earlier) == b"x"

    def late() -> None:
        response.feed(b"y")

    alarms.at(earlier + 0.001, late)  # alarms fire in order
    assert await response.readany(loop.time() + 60) == b"y"
    response.close()


async def test_a_reader_that_stops_closes_the_connection_at_once() -> None:
    async with running() as (server, ask):
        server.says(CHUNKED + b"1\r\na\r\n")
        (await ask()).close()
        await asyncio.wait_for(server.lost.wait(), 10)


async def test_bytes_that_are_not_read_are_not_accepted_from_the_server() -> None:
    async with running() as (server, ask):
        piece = b"%x\r\n%s\r\n" % (65536, b"x" * 65536)
        server.says(CHUNKED, *[piece] * 1000, b"0\r\n\r\n")
        response = await ask()
        before = -1
        while server.written != before:  # until the server stops writing
            before = server.written
            await asyncio.sleep(0.2)
        assert server.written < 32 * 2**20
        assert response._size < 512 * 1024
        assert len(await read(response)) == 65536 * 1000


async def test_a_server_that_sends_unrequested_data_loses_its_connection() -> None:
    async with running() as (server, ask):
        server.says(OK + b"content-length: 1\r\n\r\na" + OK + b"content-length: 1\r\n\r\nb")
        server.says(OK + b"content-length: 1\r\n\r\nc")
        assert await read(await ask()) == b"a"
        assert await read(await ask()) == b"c"
        assert server.connections == 2


async def test_data_between_two_requests_closes_the_connection() -> None:
    pool = Pool()
    connection = http1.Connection(pool, ("", 0, None))
    connection.connection_made(_Nowhere())
    response = connection.send(b"", None)
    for piece in (OK + b"content-length: 1\r\n\r\na", b"HTTP/1.1 200 OK"):
        assert connection.is_open
        pool.buffer[: len(piece)] = piece
        connection.buffer_updated(len(piece))
    assert not connection.is_open
    assert await read(response) == b"a"
    pool.close()


async def test_no_server_listens() -> None:
    pool, where = Pool(), Address("127.0.0.1", 1, is_tls=False, head="/ HTTP/1.1\r\n")
    with pytest.raises(ConnectionRefusedError):
        await pool.request(
            where, b"", None, trust=None, connect=5.0, until=asyncio.get_running_loop().time() + 5
        )


async def test_a_connection_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()

    async def forever(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("counsel.models.connections.connection_pool.open_socket", forever)
    where = Address("127.0.0.1", 1, is_tls=False, head="/ HTTP/1.1\r\n")
    with pytest.raises(ConnectTimeout):
        await Pool().request(where, b"", None, trust=None, connect=0.01, until=loop.time() + 5)
    with pytest.raises(DeadlineExceeded):
        await Pool().request(where, b"", None, trust=None, connect=5.0, until=loop.time() + 0.01)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.openai.com/v1/responses", ("api.openai.com", 443, True, "/v1/responses")),
        ("http://[::1]:8080/v1?a=b", ("::1", 8080, False, "/v1?a=b")),
        ("http://example.com", ("example.com", 80, False, "/")),
        ("https://us%65r@example.com/", None),
        ("https://bücher.example/", None),
        ("https://example.com/a b", None),
        ("https://example.com:99999/", None),
        ("ftp://example.com/", None),
        ("https:///v1", None),
    ],
)
def test_which_urls_are_plain(url: str, expected: tuple[str, int, bool, str] | None) -> None:
    result = address(url)
    assert (result and (*result[:3], result.head.split(" ")[0])) == expected


def test_a_header_cannot_add_lines_to_a_request() -> None:
    where = Address("h", 80, is_tls=False, head="/ HTTP/1.1\r\nhost: h\r\n")
    for bad in ("a\r\nb: c", "a\nb", "a\rb", "a\0b"):
        assert request_head("POST", where, {"x": bad}, 1) is None
    assert (
        request_head("POST", where, {"x": "a"}, 1)
        == b"POST / HTTP/1.1\r\nhost: h\r\nx: a\r\ncontent-length: 1\r\n\r\n"
    )


async def test_idle_connections_are_closed_when_their_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_pool, "KEEP_SECONDS", 0.01)
    async with running() as (server, ask):
        server.says(OK + b"content-length: 1\r\n\r\na")
        assert await read(await ask()) == b"a"
        await asyncio.wait_for(server.lost.wait(), 10)
        server.says(OK + b"content-length: 1\r\n\r\nb")
        assert await read(await ask()) == b"b"
        assert server.connections == 2


async def test_expired_idle_connections_are_closed_and_only_a_limited_number_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Idle:
        def __init__(self, key: str) -> None:
            self.key, self.is_open, self.expires, self.aborted = key, True, 0.0, False

        def abort(self) -> None:
            self.aborted = True

    monkeypatch.setattr(connection_pool, "MAX_IDLE", 2)
    pool: Any = Pool()
    old, new, third, other_host = Idle("a"), Idle("a"), Idle("a"), Idle("b")
    for connection in (old, new, third, other_host):
        pool.keep(connection)
    assert [connection.aborted for connection in (old, new, third, other_host)] == [False, False, True, False]
    sweep = pool._sweep
    assert sweep is not None
    old.expires = other_host.expires = 0.0
    pool._close_expired()
    assert [connection.aborted for connection in (old, new, other_host)] == [True, False, True]
    assert pool._take("b") is None
    assert pool._sweep is not sweep  # one is left, so the sweep runs again
    assert pool._take("a") is new
    pool._close_expired()
    assert pool._sweep is None
    sweep.cancel()
    pool.close()
    pool.keep(new)
    assert new.aborted


async def test_a_connection_that_expired_unseen_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep runs late on a laptop that was asleep."""
    async with running() as (server, ask):
        server.says(OK + b"content-length: 1\r\n\r\na")
        server.says(OK + b"content-length: 1\r\n\r\nb")
        await read(await ask())
        now = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: now() + connection_pool.KEEP_SECONDS)
        await read(await ask())
        assert server.connections == 2


async def test_a_header_on_several_lines_is_one() -> None:
    head = b"HTTP/1.1 200 OK\r\nx-note: one\r\n\ttwo\r\nx-list: a\r\nx-list: b\r\ncontent-length: 0\r\n\r\n"
    async with running() as (server, ask):
        server.says(head)
        response = await ask()
        assert response.headers["x-note"] == "one two"
        assert response.headers["x-list"] == "a, b"


async def test_a_large_body_arrives_whole() -> None:
    async with running() as (server, ask):
        server.says(OK + b"content-length: 0\r\n\r\n")
        body = bytes(range(256)) * 2048
        await read(await ask(body))
        assert server.requests[0].endswith(b"\r\n\r\n" + body)

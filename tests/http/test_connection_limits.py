"""Limits of a connection: how long it may wait, send and not read, how many there may be, and tiny chunks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import h11
import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from counsel.http import connection as module
from counsel.http.connection import (
    BODY_TIMEOUT,
    HEAD_TIMEOUT,
    READ_TIMEOUT,
    RESERVED,
    SLOWEST_BODY,
    Connection,
    Parser,
    Pool,
)

HEAD = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n"


class TransportStub(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.end = ""
        self.unread = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)}.get(name, default)

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.end = self.end or "closed"

    def abort(self) -> None:
        self.end = "aborted"

    def is_closing(self) -> bool:
        return bool(self.end)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None:
        """Nothing is read."""

    def resume_reading(self) -> None:
        """Nothing is read."""

    def set_protocol(self, protocol: Any) -> None:
        """There is no other."""


class Site:
    """A server's connections, with an application that answers when a test says so."""

    def __init__(self, most: int = 1_000) -> None:
        self.pool = Pool(most)
        self.state = ServerState()
        self.scopes: list[Any] = []
        self.may_answer = asyncio.Event()
        self.tasks: list[asyncio.Task[Any]] = []

    async def app(self, scope: Any, _receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    def connect(self) -> tuple[Any, TransportStub]:
        config = Config(self.app, log_config=None, lifespan="off", interface="asgi3", proxy_headers=False)
        config.load()
        made: Any = Connection(config=config, server_state=self.state, app_state={}, pool=self.pool)
        transport = TransportStub()
        made.connection_made(transport)
        return made, transport


@pytest.fixture
async def site() -> Site:
    return Site()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock_ = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock_.now))
    return clock_


def waits_longest(site: Site, connection: object) -> bool:
    return site.pool.waiting.oldest() is connection


async def steps() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_beyond_the_limit_the_connection_that_waited_longest_is_closed() -> None:
    site = Site(most=2)
    (first, _), (_, second), (_, third) = site.connect(), site.connect(), site.connect()
    ends = [first.transport.is_closing(), bool(second.end), bool(third.end)]
    assert ends == [True, False, False]
    assert not waits_longest(site, first)


async def test_connections_with_requests_make_no_room_and_the_server_says_that_there_are_too_many() -> None:
    site = Site(most=1)
    busy, _ = site.connect()
    busy.data_received(HEAD)
    extra, transport = site.connect()
    assert transport.end == ""
    assert extra.app_state["is_over_limit"] is True
    extra.data_received(HEAD)
    for _ in range(RESERVED - 1):
        more, transport = site.connect()
        more.data_received(HEAD)
        assert transport.end == ""
    _, transport = site.connect()
    assert transport.end == "aborted", "not even to say so"
    site.may_answer.set()
    await steps()


async def test_a_connection_waits_again_after_its_answer(site: Site) -> None:
    connection, transport = site.connect()
    assert waits_longest(site, connection)
    connection.data_received(HEAD)
    assert waits_longest(site, None)
    site.may_answer.set()
    await steps()
    assert b"".join(transport.written).endswith(b"\r\n\r\nok")
    assert waits_longest(site, connection)
    connection.connection_lost(None)
    assert waits_longest(site, None)
    assert connection.app_state == {}


@pytest.mark.parametrize(
    ("sent", "seconds", "end", "said"),
    [
        (b"", HEAD_TIMEOUT, "", False),
        (b"", HEAD_TIMEOUT + 0.1, "closed", False),  # it said nothing, so nothing is said
        (b"GET / HT", HEAD_TIMEOUT + 0.1, "closed", True),
        (HEAD, 1_000.0, "", False),  # the application works
        (POST, BODY_TIMEOUT, "", False),
        (POST, BODY_TIMEOUT + 0.1, "closed", True),
    ],
)
async def test_a_request_must_arrive_in_time(
    site: Site, clock: SimpleNamespace, sent: bytes, seconds: float, end: str, said: bool
) -> None:
    connection, transport = site.connect()
    if sent:
        connection.data_received(sent)
    clock.now += seconds
    connection.enforce(clock.now)
    await steps()
    assert (transport.end, b"408 Request Timeout" in b"".join(transport.written)) == (end, said)
    site.may_answer.set()
    await steps()


async def test_a_large_body_has_more_time(site: Site, clock: SimpleNamespace) -> None:
    connection, transport = site.connect()
    connection.data_received(POST.replace(b"100", b"100000") + b"x" * (2 * SLOWEST_BODY))
    connection.flow.read_paused = False
    clock.now += BODY_TIMEOUT + 2
    connection.enforce(clock.now)
    assert transport.end == ""
    connection.flow.read_paused = True
    clock.now += 100
    connection.enforce(clock.now)
    assert transport.end == "", "it waits for the application"
    connection.flow.read_paused = False
    connection.enforce(clock.now)
    assert transport.end == "closed"
    site.may_answer.set()
    await steps()


async def test_the_time_of_a_request_begins_with_it(site: Site, clock: SimpleNamespace) -> None:
    site.may_answer.set()
    connection, transport = site.connect()
    clock.now += HEAD_TIMEOUT - 1
    connection.data_received(HEAD)
    await steps()
    clock.now += HEAD_TIMEOUT
    connection.enforce(clock.now)
    assert transport.end == ""
    clock.now += 0.1
    connection.enforce(clock.now)
    assert transport.end == "closed"
    assert b"408" not in b"".join(transport.written), "it sent nothing of a second request"


async def test_a_client_that_reads_nothing_for_long_is_gone(site: Site, clock: SimpleNamespace) -> None:
    connection, transport = site.connect()
    connection.data_received(HEAD)
    for unread in (500, 400):
        transport.unread = unread
        connection.enforce(clock.now)
        clock.now += READ_TIMEOUT
        connection.enforce(clock.now)
        assert transport.end == "", "it has read something since"
    clock.now += 0.1
    connection.enforce(clock.now)
    assert transport.end == "aborted"
    site.may_answer.set()
    await steps()


async def test_an_answer_that_has_begun_is_cut_off_and_not_followed_by_a_refusal(site: Site) -> None:
    connection, transport = site.connect()
    connection.data_received(b"nonsense\r\n\r\n")
    await steps()
    assert b"400 Bad Request" in b"".join(transport.written)
    other, transport = site.connect()
    other.conn.receive_data(HEAD)
    while type(other.conn.next_event()) is not h11.EndOfMessage:
        pass
    other.conn.send(h11.Response(status_code=200, headers=[]))
    other.send_400_response("bad")
    assert (transport.end, transport.written) == ("closed", [])


async def test_whoever_watches_learns_once_that_the_client_has_left(site: Site) -> None:
    connection, _ = site.connect()
    seen: list[str] = []

    def first() -> None:
        seen.append("first")

    def second() -> None:
        seen.append("second")

    assert connection.watch(first)
    connection.unwatch(second)
    connection.unwatch(first)
    assert connection.watch(second)
    connection.connection_lost(None)
    assert seen == ["second"]
    assert not connection.watch(first), "it has left already"


async def test_whoever_has_stopped_watching_learns_nothing_of_the_client(site: Site) -> None:
    connection, _ = site.connect()
    seen: list[str] = []

    def report() -> None:
        seen.append("left")

    assert connection.watch(report)
    connection.unwatch(report)
    connection.connection_lost(None)
    assert seen == []


def test_a_body_in_tiny_chunks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PIECES", 3)
    monkeypatch.setattr(module, "SMALLEST_PIECE", 10)
    parser = Parser()
    head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"

    def feed(*sizes: int) -> None:
        parser.receive_data(b"".join(b"%x\r\n%s\r\n" % (size, b"x" * size) for size in sizes))
        while isinstance(parser.next_event(), h11.Data):
            pass

    parser.receive_data(head)
    parser.next_event()
    feed(1, 1, 8, 10)
    feed(1)
    with pytest.raises(h11.RemoteProtocolError, match="chunks are too small"):
        feed(1, 1)


def test_a_second_request_has_its_own_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PIECES", 2)
    parser = Parser()
    for _ in range(2):
        parser.receive_data(
            b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n1\r\ny\r\n0\r\n\r\n"
        )
        while type(parser.next_event()) is not h11.EndOfMessage:
            pass
        assert parser.received == 2
        parser.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
        parser.send(h11.EndOfMessage())
        parser.start_next_cycle()


def test_a_length_that_no_number_has_is_the_clients_mistake() -> None:
    parser = Parser()
    parser.receive_data(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: " + b"9" * 5_000 + b"\r\n\r\n")
    with pytest.raises(h11.RemoteProtocolError):
        parser.next_event()

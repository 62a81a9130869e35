"""Connections to hosts with several addresses, and connections that are cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from counsel.models.connections import connect, request_head
from counsel.models.connections.connection_pool import Pool

FIRST, SECOND = "127.0.0.2", "127.0.0.3"


@contextlib.contextmanager
def silent_port(host: str) -> Iterator[int]:
    """A port where the system accepts connections and nothing answers."""
    with socket.create_server((host, 0)) as server:
        yield server.getsockname()[1]


@contextlib.contextmanager
def full_port(host: str) -> Iterator[int]:
    """A port where connections are neither accepted nor refused: its queue is full."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind((host, 0))
        server.listen(0)
        for _ in range(2):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(*addresses: tuple[str, int]) -> None:
        async def resolved(host: str, port: int) -> Any:
            return [
                (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, address) for address in addresses
            ]

        monkeypatch.setattr(connect, "_resolve", resolved)

    return make


def refused_port(host: str) -> int:
    with socket.socket() as sock:
        sock.bind((host, 0))
        return int(sock.getsockname()[1])


async def give_up(address: request_head.Address, steps: int) -> None:
    """Cancel a request after this many turns of the loop."""
    pool = Pool()
    until = asyncio.get_running_loop().time() + 60
    request = asyncio.ensure_future(
        pool.request(address, b"GET /x HTTP/1.1\r\n\r\n", None, trust=None, connect=60, until=until)
    )
    for _ in range(steps):
        await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    pool.close()
    for _ in range(4):
        await asyncio.sleep(0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_request_that_is_cancelled_at_any_step_closes_its_socket(host: str) -> None:
    with silent_port(host) as port, warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        address = request_head.address(f"http://{host}:{port}/x")
        assert address is not None
        for steps in range(24):
            await give_up(address, steps)
        gc.collect()
        assert [str(note.message) for note in messages] == []


async def test_the_next_address_is_tried_when_one_refuses(resolve: Any) -> None:
    with silent_port(SECOND) as port:
        resolve((FIRST, refused_port(FIRST)), (SECOND, port))
        with await connect.open_socket("a name", 0) as sock:
            assert sock.getpeername() == (SECOND, port)


async def test_the_next_address_is_tried_while_one_is_silent(resolve: Any) -> None:
    with full_port(FIRST) as silent, silent_port(SECOND) as port:
        resolve((FIRST, silent), (SECOND, port))
        before = time.monotonic()
        with await connect.open_socket("a name", 0) as sock:
            assert sock.getpeername() == (SECOND, port)
        assert time.monotonic() - before >= connect.DELAY


async def test_a_slow_address_still_wins_when_the_others_refuse(resolve: Any) -> None:
    with silent_port(FIRST) as port:
        resolve((FIRST, port), (SECOND, refused_port(SECOND)))
        with await connect.open_socket("a name", 0) as sock:
            assert sock.getpeername() == (FIRST, port)


async def test_the_first_addresss_error_is_raised_when_all_refuse(resolve: Any) -> None:
    resolve((FIRST, port := refused_port(FIRST)), (SECOND, refused_port(SECOND)))
    with pytest.raises(ConnectionRefusedError, match=f"{FIRST}.*{port}"):
        await connect.open_socket("a name", 0)


async def test_a_name_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(OSError, match=r"not known|No address|failure"):
        await connect.open_socket("does-not-exist.invalid", 80)


async def test_a_socket_sends_small_requests_at_once() -> None:
    """asyncio sets TCP_NODELAY only on sockets that say that they are TCP."""
    with silent_port("127.0.0.1") as port, await connect.open_socket("127.0.0.1", port) as sock:
        assert sock.proto == socket.IPPROTO_TCP

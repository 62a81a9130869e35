"""The daemon's socket before and after hello: what a peer may send, and how long it may take."""

from __future__ import annotations

import asyncio
import gc
import json
import os
from pathlib import Path
from typing import Any

import pytest

from counsel.daemon import connection, server
from counsel.daemon.files import DaemonFiles
from support.fake_engine import FakeEngine
from support.floods import HELLO, INITIALIZE, hang_up
from support.processes import LIMIT, PING, encoded

pytestmark = pytest.mark.slow  # left out of `make check`


@pytest.fixture
async def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    files = DaemonFiles(tmp_path)
    files.take()
    daemon = server.DaemonServer(FakeEngine(), files)
    daemon._most = 5
    await daemon.listen()
    yield files.socket, daemon
    await daemon.close()
    files.release()


async def reply_to(path: str, data: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(data)
    reply = await asyncio.wait_for(reader.read(), LIMIT)
    await hang_up(writer)
    return reply


@pytest.mark.parametrize(
    "line",
    [
        b'@{"handover":true}',
        b'@{"key":"k"}',
        b'@{"initialize":{}}',
        b"@" + b"[" * 100_000,
        b'@{"hello":' * 50,
    ],
)
async def test_nothing_but_hello_is_accepted_first(path: Any, line: bytes) -> None:
    socket, daemon = path
    gc.collect()  # else finalizers of other tests' objects may run, and fail, at the end of a deep stack
    assert b"refused" in await reply_to(socket, line + b"\n")
    assert not daemon._end_reason.done()


async def test_another_users_handover_is_ignored(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    socket, daemon = path
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    assert b"another user" in await reply_to(socket, b'@{"handover":true}\n')
    assert not daemon._end_reason.done()
    assert not daemon.connections


async def test_a_hello_has_its_time_and_its_size(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    socket, _ = path
    monkeypatch.setattr(connection, "HELLO_TIMEOUT", 0.2)
    assert b"no hello" in await reply_to(socket, b'@{"hel')
    monkeypatch.setattr(connection, "HELLO_TIMEOUT", 20)
    assert b"at most" in await reply_to(socket, b'@{"hello":{"x":"' + b"x" * 5_000_000 + b"\n")


async def test_connections_without_hello_are_dropped_first(path: Any) -> None:
    socket, daemon = path
    silent = [await asyncio.open_unix_connection(socket) for _ in range(20)]
    clients = []
    for _ in range(5):
        reader, writer = await asyncio.open_unix_connection(socket)
        writer.write(HELLO)
        assert b"hello" in await reader.readline()
        clients.append((reader, writer))
    assert b"too many connections" in await reply_to(socket, b"")
    for reader, writer in clients:
        writer.write(encoded(PING))
        assert b"done" in await reader.readline()
        assert b"result" in await reader.readline()
    assert len(daemon.connections) == 5
    await hang_up(*(writer for _, writer in [*silent, *clients]))


async def test_a_client_that_says_initialized_again_and_again_is_asked_once_at_a_time(path: Any) -> None:
    socket, daemon = path
    reader, writer = await asyncio.open_unix_connection(socket)
    params = {**INITIALIZE["params"], "capabilities": {"roots": {}}}
    writer.write(HELLO + b'@{"initialize":' + json.dumps(params).encode() + b"}\n")
    writer.write(encoded({"jsonrpc": "2.0", "method": "notifications/initialized"}) * 300 + encoded(PING))
    while b"alive?" not in await reader.readline():
        pass
    (client_connection,) = daemon.connections
    assert len(client_connection._mcp.session._sent_requests) <= 2
    await hang_up(writer)

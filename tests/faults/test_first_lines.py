"""The daemon's socket before and after hello: what a peer may send, and for how long."""

from __future__ import annotations

import asyncio
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
    inside = server.DaemonServer(FakeEngine(), files)
    inside._most = 5
    await inside.listen()
    yield files.socket, inside
    await inside.close()
    files.release()


async def told(path: str, data: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(data)
    received = await asyncio.wait_for(reader.read(), LIMIT)
    await hang_up(writer)
    return received


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
    at, inside = path
    assert b"refused" in await told(at, line + b"\n")
    assert not inside._over.done()


async def test_another_users_handover_is_ignored(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at, inside = path
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    assert b"another user" in await told(at, b'@{"handover":true}\n')
    assert not inside._over.done()
    assert not inside.connections


async def test_a_hello_has_its_time_and_its_size(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at, _ = path
    monkeypatch.setattr(connection, "HELLO_TIMEOUT", 0.2)
    assert b"no hello" in await told(at, b'@{"hel')
    monkeypatch.setattr(connection, "HELLO_TIMEOUT", 20)
    assert b"at most" in await told(at, b'@{"hello":{"x":"' + b"x" * 5_000_000 + b"\n")


async def test_connections_without_hello_are_dropped_first(path: Any) -> None:
    at, inside = path
    silent = [await asyncio.open_unix_connection(at) for _ in range(20)]
    known = []
    for _ in range(5):
        reader, writer = await asyncio.open_unix_connection(at)
        writer.write(HELLO)
        assert b"hello" in await reader.readline()
        known.append((reader, writer))
    assert b"too many connections" in await told(at, b"")
    for reader, writer in known:
        writer.write(encoded(PING))
        assert b"done" in await reader.readline()
        assert b"result" in await reader.readline()
    assert len(inside.connections) == 5
    await hang_up(*(writer for _, writer in [*silent, *known]))


async def test_a_client_that_says_initialized_again_and_again_is_asked_once_at_a_time(path: Any) -> None:
    at, inside = path
    reader, writer = await asyncio.open_unix_connection(at)
    params = {**INITIALIZE["params"], "capabilities": {"roots": {}}}
    writer.write(HELLO + b'@{"initialize":' + json.dumps(params).encode() + b"}\n")
    writer.write(encoded({"jsonrpc": "2.0", "method": "notifications/initialized"}) * 300 + encoded(PING))
    while b"alive?" not in await reader.readline():
        pass
    (client_connection,) = inside.connections
    assert len(client_connection._mcp.session._asked) <= 2
    await hang_up(writer)

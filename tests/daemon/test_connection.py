"""The daemon's socket: who may connect, and what happens to input that cannot be parsed."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from counsel.daemon import server
from counsel.daemon.files import DaemonFiles
from support.fake_engine import FakeEngine


@pytest.fixture
async def path(tmp_path: Path) -> AsyncIterator[str]:
    files = DaemonFiles(tmp_path)
    files.take()
    inside = server.DaemonServer(FakeEngine(), files)
    await inside.listen()
    yield files.socket
    await inside.close()
    files.release()


async def talk(path: str, *lines: bytes) -> list[Any]:
    """What the daemon says to these lines until it closes the connection."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"".join(line + b"\n" for line in lines))
    said = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await writer.wait_closed()
    return [json.loads(line.removeprefix(b"@")) for line in said.splitlines()]


async def test_another_user_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    (said,) = await talk(path, b'@{"hello":{"role":"mcp"}}')
    assert "another user" in said["refused"]


@pytest.mark.parametrize(
    "lines",
    [
        [b'{"jsonrpc":"2.0","id":1,"method":"ping"}'],
        [b"@not json"],
        [b"@[]"],
        [b'@{"hello":[]}'],
        [b'@{"hello":{"role":"engine"}}', b"nonsense"],
        [b'@{"hello":{"role":"engine"}}', b'{"method":"recent"}'],
    ],
)
async def test_what_is_not_understood_ends_this_connection_alone(path: str, lines: list[bytes]) -> None:
    assert "refused" in (await talk(path, *lines))[-1]
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b'@{"hello":{"role":"engine"}}\n{"id":1,"method":"recent","params":{"limit":1}}\n')
    assert b"hello" in await reader.readline()
    assert json.loads(await reader.readline()) == {"id": 1, "result": {"content": {"jobs": []}}}
    writer.close()
    await writer.wait_closed()


async def test_a_bad_request_gets_an_error(path: str) -> None:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b'@{"hello":{"role":"engine"}}\n{"id":7,"method":"nope"}\n')
    await reader.readline()
    assert json.loads(await reader.readline())["error"]["code"] == "INVALID_ARGUMENT"
    writer.close()
    await writer.wait_closed()

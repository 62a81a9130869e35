"""The daemon's socket: who may connect, how malformed input is handled, and when the socket is recreated."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from counsel.daemon import server
from counsel.daemon.files import DaemonFiles, bind
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


async def exchange(path: str, *lines: bytes) -> list[Any]:
    """The daemon's messages, from these lines until it closes the connection."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"".join(line + b"\n" for line in lines))
    data = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await writer.wait_closed()
    return [json.loads(line.removeprefix(b"@")) for line in data.splitlines()]


async def test_another_user_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    (messages,) = await exchange(path, b'@{"hello":{"role":"mcp"}}')
    assert "another user" in messages["refused"]


@pytest.mark.parametrize(
    "lines",
    [
        [b'{"jsonrpc":"2.0","id":1,"method":"ping"}'],
        [b"@not json"],
        [b"@[]"],
        [b'@{"hello":[]}'],
        [b'@{"hello":{"role":"engine"}}', b"nonsense"],
        [b'@{"hello":{"role":"engine"}}', b'{"method":"recent"}'],
        [b'@{"hello":{"role":"engine"}}', b'{"id":"1","method":"recent"}'],
        [b'@{"hello":{"role":"engine"}}', b'{"id":true,"method":"recent"}'],
        [b'@{"hello":{"role":"engine"}}', b'{"id":18446744073709551616,"method":"recent"}'],
        [b'@{"hello":{"role":"engine"}}', b'{"id":1,"method":["recent"]}'],
        [b'@{"hello":{"role":"engine"}}', b'{"id":1,"method":"recent","params":[1]}'],
        [b'@{"hello":{"role":"engine"}}', b'@{"hello":{"role":"engine"}}'],
        [b'@{"hello":{"role":"engine"}}', b'@{"nothing":1}'],
    ],
)
async def test_input_that_cannot_be_parsed_ends_this_connection_alone(path: str, lines: list[bytes]) -> None:
    assert "refused" in (await exchange(path, *lines))[-1]
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


async def test_nothing_is_recreated_while_a_folder_may_still_be_in_removal(tmp_path: Path) -> None:
    """An `rm -r` removes file by file, and would fail if a file were recreated meanwhile."""
    files = DaemonFiles(tmp_path)
    files.take()
    daemon = server.DaemonServer(FakeEngine(), files)
    await daemon.listen()
    Path(files.socket).unlink()
    await daemon._check_files()
    assert not Path(files.socket).exists()
    await daemon._check_files()
    assert Path(files.socket).is_socket()
    await daemon.close()
    files.release()


async def test_a_daemon_whose_home_is_gone_finishes_its_calls_and_takes_no_others(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    files = DaemonFiles(tmp_path / "home")
    files.take()
    engine = FakeEngine()
    daemon = server.DaemonServer(engine, files)
    await daemon.listen()
    reader, writer = await asyncio.open_unix_connection(files.socket)
    params = {"name": "chat", "arguments": {"prompt": f"slowly {tmp_path / 'go'}"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    writer.write(b'@{"hello":{"role":"mcp"}}\n' + json.dumps(call).encode() + b"\n")
    await asyncio.wait_for(engine.started.wait(), 10)
    engine.home_is_ours = lambda: False  # type: ignore[method-assign]
    await daemon._check_files()
    writer.write(b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n[]\n')
    writer.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}\n')
    await writer.drain()
    with pytest.raises(ConnectionError):
        await asyncio.open_unix_connection(files.socket)
    (tmp_path / "go").touch()
    lines = [await asyncio.wait_for(reader.readline(), 10) for _ in range(3)]  # the last is the answer
    await daemon._check_files()
    lines += (await asyncio.wait_for(reader.read(), 10)).splitlines()
    answers = [json.loads(line) for line in lines if not line.startswith(b"@")]
    assert [answer["id"] for answer in answers] == [1]
    assert answers[0]["result"]["structuredContent"]["content"] == "slowly done"
    writer.close()
    await daemon.close()
    files.release()


def test_a_socket_listens_before_it_has_its_name(tmp_path: Path) -> None:
    listener, bound = bind(str(tmp_path / "s"))
    with listener, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "s"))
        assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
        assert bound is not None
    assert [path.name for path in tmp_path.iterdir()] == ["s"]

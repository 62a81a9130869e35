"""The console's port in the daemon: which one is used and remembered, and when the next daemon reopens it."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from counsel.daemon import console as console_module
from counsel.daemon.console import DaemonConsole
from counsel.errors import ConfigInvalid
from support.fake_engine import FakeEngine


@pytest.fixture
async def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DaemonConsole]:
    monkeypatch.setenv("COUNSEL_HOME", str(tmp_path))
    monkeypatch.setenv("COUNSEL_TOKEN", "a-token-for-the-console")
    engine: Any = FakeEngine()
    daemon_console = DaemonConsole(engine, tmp_path)
    daemon_console._file.parent.mkdir(parents=True, exist_ok=True)
    yield daemon_console
    await daemon_console.close(for_good=False)


@contextmanager
def port_in_use() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def free() -> int:
    with port_in_use() as port:
        return port


def note(console: DaemonConsole) -> dict[str, Any]:
    return dict(json.loads(console._file.read_text()))


async def status(port: int) -> int:
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/health") as answer:
        return answer.status


async def test_a_console_opens_once_and_its_port_is_remembered(
    console: DaemonConsole, tmp_path: Path
) -> None:
    port = free()
    reply = await console.open({}, tmp_path, port)
    assert reply["port"] == port
    assert reply["url"] == f"http://127.0.0.1:{port}"
    assert await status(port) == 200
    again = await console.open({}, tmp_path)
    assert (again["port"], again["key"] != reply["key"]) == (port, True)
    assert (note(console)["port"], note(console)["open"], note(console)["project"]) == (
        port,
        True,
        str(tmp_path),
    )
    await console.close(for_good=True)
    assert note(console)["open"] is False
    with pytest.raises(aiohttp.ClientConnectorError):
        await status(port)


async def test_a_port_that_is_wanted_exactly_and_taken_is_refused(
    console: DaemonConsole, tmp_path: Path
) -> None:
    with port_in_use() as port, pytest.raises(ConfigInvalid):
        await console.open({}, tmp_path, port)
    assert not console.in_use


async def test_the_last_port_is_used_only_if_it_is_free(console: DaemonConsole, tmp_path: Path) -> None:
    with port_in_use() as port:
        console._file.write_text(json.dumps({"port": port, "at": time.time(), "open": True, "project": "/"}))
        reply = await console.open({}, tmp_path)
        assert reply["port"] != port
    assert await status(reply["port"]) == 200


async def test_another_port_closes_the_one_before(console: DaemonConsole, tmp_path: Path) -> None:
    first, second = free(), free()
    await console.open({}, tmp_path, first)
    await console.open({}, tmp_path, second)
    assert await status(second) == 200
    with pytest.raises(aiohttp.ClientConnectorError):
        await status(first)


@pytest.mark.parametrize(
    ("fields", "opens"),
    [
        ({}, True),
        ({"open": False}, False),
        ({"at": time.time() - console_module.RECENT - 60}, False),
        ({"at": time.time() + 3600}, False),
        ({"at": "now"}, False),
        ({"port": 0}, False),
        ({"port": 65536}, False),
    ],
)
async def test_the_next_daemon_opens_it_again_if_a_page_may_look_for_it(
    console: DaemonConsole, tmp_path: Path, fields: dict[str, Any], opens: bool
) -> None:
    port = free()
    content = {"port": port, "at": time.time() - 60, "open": True, "project": str(tmp_path), **fields}
    console._file.write_text(json.dumps(content))
    await console.reopen()
    if opens:
        assert await status(port) == 200
    else:
        assert console._server is None


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"port": "1"}'])
async def test_a_note_that_says_nothing_opens_nothing(console: DaemonConsole, text: str) -> None:
    console._file.write_text(text)
    await console.reopen()
    assert console._server is None


async def test_a_page_that_is_open_is_noted_now_and_then(
    console: DaemonConsole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await console.open({}, tmp_path, free())
    console._file.unlink()
    monkeypatch.setattr(DaemonConsole, "in_use", True)
    console.note_use()
    assert not console._file.exists()
    console._noted -= console_module.NOTE_EVERY + 1
    console.note_use()
    assert note(console)["open"] is True


async def test_holding_another_port_than_the_open_one_returns_at_once(
    console: DaemonConsole, tmp_path: Path
) -> None:
    with port_in_use() as port:
        await console.hold({}, tmp_path, port)
    assert console._server is not None

"""The server's own loop: it sleeps while nothing happens, and stops at once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from counsel import settings
from counsel.http import app, serve
from support.fake_engine import FakeEngine
from support.http_server import TOKEN


@pytest.mark.parametrize("before_it_serves", [False, True])
async def test_a_server_that_sleeps_for_long_stops_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before_it_serves: bool
) -> None:
    monkeypatch.setattr(serve, "TICK", 3600.0)
    config = settings.load({"COUNSEL_HOME": str(tmp_path), "COUNSEL_TOKEN": TOKEN})
    application = app.build(FakeEngine(), config, host="127.0.0.1", secret=TOKEN)
    ready = asyncio.Event()
    server = serve.Server(application, "127.0.0.1", 0, lambda *_: ready.set())
    if before_it_serves:
        server.should_exit = True
    task = asyncio.ensure_future(server.serve())
    if not before_it_serves:
        await ready.wait()
        for _ in range(10):
            await asyncio.sleep(0)  # it sleeps
        stopping = threading.Thread(target=setattr, args=(server, "should_exit", True))
        stopping.start()
        stopping.join()
    async with asyncio.timeout(60):
        await task


async def test_time_limits_of_connections_are_checked_at_every_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "TICK", 0.0)
    checks: list[float] = []
    monkeypatch.setattr("counsel.http.connection.Connection.enforce", lambda _, now: checks.append(now))
    config = settings.load({"COUNSEL_HOME": str(tmp_path), "COUNSEL_TOKEN": TOKEN})
    application = app.build(FakeEngine(), config, host="127.0.0.1", secret=TOKEN)
    ports: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    server = serve.Server(application, "127.0.0.1", 0, lambda _, port: ports.set_result(port))
    task = asyncio.ensure_future(server.serve())
    _, writer = await asyncio.open_connection("127.0.0.1", await ports)
    async with asyncio.timeout(60):
        while len(checks) < 3:
            await asyncio.sleep(0)
    writer.close()
    server.should_exit = True
    await task


@pytest.mark.parametrize("fails", [False, True])
async def test_the_end_of_a_teams_server_closes_what_reads_the_team_and_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    closed: list[str] = []

    class Access:
        def close(self) -> None:
            closed.append("team")

    async def ends(_: object, sockets: list[socket.socket]) -> None:
        sockets[0].close()
        if fails:
            raise OSError("broken")

    async def close_engine(_: object) -> None:
        closed.append("engine")

    async def never_opened(*_: object) -> Any:
        raise AssertionError

    monkeypatch.setattr(serve, "_team_access", lambda *_: Access())
    monkeypatch.setattr(serve.Server, "serve", ends)
    monkeypatch.setattr("counsel.http.serve.LoadingApp.close_engine", close_engine)
    config = settings.load({"COUNSEL_HOME": str(tmp_path), "COUNSEL_DATABASE": "postgresql://nowhere/none"})
    with pytest.raises(OSError, match="broken") if fails else contextlib.nullcontext():
        await serve.serve(never_opened, config, "127.0.0.1", 0, lambda *_: None)
    assert closed == ["team", "engine"]

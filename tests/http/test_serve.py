"""The server's own loop: it sleeps while nothing happens, and stops at once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

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
    loaded = settings.load({"COUNSEL_HOME": str(tmp_path), "COUNSEL_TOKEN": TOKEN})
    application = app.build(FakeEngine(), loaded, host="127.0.0.1", secret=TOKEN)
    announced = asyncio.Event()
    server = serve.Server(application, "127.0.0.1", 0, lambda *_: announced.set())
    if before_it_serves:
        server.should_exit = True
    serving = asyncio.ensure_future(server.serve())
    if not before_it_serves:
        await announced.wait()
        for _ in range(10):
            await asyncio.sleep(0)  # it sleeps
        stopping = threading.Thread(target=setattr, args=(server, "should_exit", True))
        stopping.start()
        stopping.join()
    async with asyncio.timeout(60):
        await serving


async def test_time_limits_of_connections_are_checked_at_every_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "TICK", 0.0)
    checks: list[float] = []
    monkeypatch.setattr("counsel.http.connection.Connection.enforce", lambda _, now: checks.append(now))
    loaded = settings.load({"COUNSEL_HOME": str(tmp_path), "COUNSEL_TOKEN": TOKEN})
    application = app.build(FakeEngine(), loaded, host="127.0.0.1", secret=TOKEN)
    ports: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    server = serve.Server(application, "127.0.0.1", 0, lambda _, port: ports.set_result(port))
    serving = asyncio.ensure_future(server.serve())
    _, writer = await asyncio.open_connection("127.0.0.1", await ports)
    async with asyncio.timeout(60):
        while len(checks) < 3:
            await asyncio.sleep(0)
    writer.close()
    server.should_exit = True
    await serving

"""`counsel serve` while it starts: `/health` at once, the rest when the engine is open."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from counsel import settings
from counsel.errors import ConfigInvalid
from counsel.http import serve
from counsel.http.loading import LoadingApp
from support.fake_engine import FakeEngine

TOKEN = "a-token-for-the-tests"


class WithDatabase(FakeEngine):
    store = object()  # only passed on, never read
    drained = False

    async def drain(self, _: float) -> None:
        self.drained = True


class Served:
    """`http.serve` with an engine that opens when the test says so."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings = settings.load({"COUNSEL_HOME": str(home), "COUNSEL_TOKEN": TOKEN})
        self.may_open = asyncio.Event()
        self.failure: Exception | None = None
        self.engine = WithDatabase()
        self.announced: list[tuple[str, int]] = []
        self.loaded = asyncio.Event()
        self.ports: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        listen = serve.listen

        def listening(host: str, port: int) -> Any:
            result = listen(host, port)
            self.ports.set_result(result.getsockname()[1])
            return result

        monkeypatch.setattr(serve, "listen", listening)

    async def open_engine(self, _: Path) -> Any:
        await self.may_open.wait()
        if self.failure is not None:
            raise self.failure
        return self.engine

    def announce(self, host: str, port: int) -> None:
        self.announced.append((host, port))
        self.loaded.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(
            serve.serve(self.open_engine, self.settings, "127.0.0.1", 0, self.announce)
        )
        try:
            yield task
        finally:
            if not task.done():
                os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait({task})


@pytest.fixture
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    return Served(tmp_path, monkeypatch)


def message(method: str) -> dict[str, Any]:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": hello}


async def test_health_is_answered_before_the_engine_is_open_and_the_rest_waits(served: Served) -> None:
    async with served.running(), aiohttp.ClientSession() as session:
        base = f"http://127.0.0.1:{await served.ports}"
        async with session.get(f"{base}/health") as early:
            assert (early.status, (await early.json())["status"]) == (200, "ok")
        async with session.get(f"{base}/metrics") as refusal:
            assert refusal.status == 401
        headers = {"authorization": f"Bearer {TOKEN}"}
        request = asyncio.create_task(
            session.post(f"{base}/mcp", json=message("initialize"), headers=headers)
        )
        async with session.get(f"{base}/health") as still:
            assert still.status == 200
        assert not request.done()
        assert served.announced == []
        served.may_open.set()
        async with await request as answer:
            assert "result" in await answer.json()
        assert served.announced == [("127.0.0.1", await served.ports)]
        async with session.get(f"{base}/health") as late:
            assert (late.status, await late.json()) == (200, await early.json())
            assert late.headers.keys() == early.headers.keys()
            assert late.headers["content-type"] == early.headers["content-type"]


async def test_a_persons_token_is_looked_up_once_the_engine_is_open(served: Served) -> None:
    app = LoadingApp(served.open_engine, served.settings, lambda *_: None)
    app.load("127.0.0.1", 0)
    store = asyncio.create_task(app.store())
    await asyncio.sleep(0)
    assert not store.done()
    served.may_open.set()
    assert await store is served.engine.store
    await app.close_engine()


async def test_an_engine_that_cannot_be_opened_ends_the_start_with_its_own_error(served: Served) -> None:
    served.failure = ConfigInvalid("The disk is gone.")
    async with served.running() as running:
        await served.ports
        served.may_open.set()
        with pytest.raises(ConfigInvalid, match="The disk is gone"):
            await asyncio.wait_for(running, 30)
        assert served.announced == []


async def test_a_signal_before_the_engine_is_open_ends_it_in_order(served: Served) -> None:
    async with served.running() as running, aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{await served.ports}/health") as early:
            assert early.status == 200
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 30)
        assert served.announced == []


@pytest.mark.parametrize("database", ["", "postgresql://db.example/counsel"])
async def test_only_a_teams_server_waits_for_its_jobs_at_the_end(served: Served, database: str) -> None:
    served.settings = replace(served.settings, database=database)
    served.may_open.set()
    async with served.running() as running, aiohttp.ClientSession() as session:
        base = f"http://127.0.0.1:{await served.ports}"
        async with session.get(f"{base}/health") as answer:
            assert answer.status == 200
        await served.loaded.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 30)
    assert served.engine.drained is bool(database)


async def test_the_engine_is_closed_at_the_end(served: Served) -> None:
    served.may_open.set()
    async with served.running() as running, aiohttp.ClientSession() as session:
        headers = {"authorization": f"Bearer {TOKEN}"}
        base = f"http://127.0.0.1:{await served.ports}"
        async with session.get(f"{base}/metrics", headers=headers) as answer:
            assert answer.status == 200
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 30)
    assert served.engine.closed


async def test_what_the_api_changes_counts_in_the_next_request_of_every_interface(served: Served) -> None:
    served.may_open.set()
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with served.running(), aiohttp.ClientSession(headers=headers) as session:
        base = f"http://127.0.0.1:{await served.ports}"
        async with session.get(f"{base}/v1/models/quick") as model:
            assert model.status == 404
        async with session.put(f"{base}/api/aliases/quick", json={"model": "gpt-5-nano"}) as response:
            assert response.status == 200
        async with session.get(f"{base}/v1/models") as models:
            owners = {row["id"]: row["owned_by"] for row in (await models.json())["data"]}
        assert (owners["quick"], owners["auto"]) == ("alias", "counsel")

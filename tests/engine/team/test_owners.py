"""A team's servers on different machines (each with its own home): which continues whose jobs, and which may send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.engine.team import fingerprints
from counsel.requests import ChatRequest
from fake import FakeAPI

pytestmark = pytest.mark.postgres
HELLO = ChatRequest(prompt="hello", model="gpt-5")
OpenServer = Callable[[str], Awaitable[Engine]]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[OpenServer]:
    """An engine on another machine, which means another home."""
    engines: list[Engine] = []

    async def open_server(name: str) -> Engine:
        engines.append(await open_engine(tmp_path / name))
        return engines[-1]

    yield open_server
    for engine in engines:
        await engine.close()


async def seen_dead(engine: Engine, by: Engine) -> None:
    """Make the engine look as if it had sent no heartbeat for a minute."""
    store: Any = engine.store
    await store.database.listener.close()  # it no longer renews
    reader: Any = by.store
    ago = "clock_timestamp() - interval '60 s'"
    owner = engine.runner.ownership.name
    await reader.database.rows(f"UPDATE counsel.owners SET seen = {ago} WHERE name = %s RETURNING 1", owner)
    queue: Any = engine.runner.queue
    queue._tasks[0].cancel()
    await reader.database.rows(
        f"UPDATE counsel_queue.procrastinate_workers SET last_heartbeat = {ago} WHERE id = %s RETURNING 1",
        store.team.queue.worker,
    )


async def test_another_machine_continues_the_job_of_a_dead_server(
    server: OpenServer, caller: Callable[..., Caller], fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.engine.store.postgres.presence.SETTLE_SECONDS", -1.0)
    first, second = await server("a"), await server("b")
    fake_api.script(hang_after=1, times=1)
    job = await first.submit(HELLO, caller(), background=True)
    await fake_api.wait_for(deltas=1)
    second.register_caller(caller(COUNSEL_HOST="10.0.0.2", COUNSEL_PORT="1", COUNSEL_TOKEN="other"))
    await seen_dead(first, second)
    async with asyncio.timeout(60):
        assert (await second.wait(job)).to_json()["content"] == "gpt-5 says: hello"
    await fake_api.wait_for(state="disconnected")  # the first one noticed that it lost the job


async def test_a_server_that_others_may_think_dead_sends_nothing(
    server: OpenServer, caller: Callable[..., Caller], fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await server("a")
    monkeypatch.setattr("counsel.engine.store.postgres.presence.SURE_SECONDS", -1.0)
    job = await engine.submit(HELLO, caller(), background=True)
    presence: Any = engine.store.team and engine.store.team.presence
    confirmation = presence.confirmed
    async with asyncio.timeout(60):
        while presence.confirmed == confirmation:
            await asyncio.sleep(0.05)
    assert fake_api.log.requests == []
    monkeypatch.undo()
    assert (await engine.wait(job)).to_json()["content"] == "gpt-5 says: hello"


async def test_a_server_that_was_away_checks_that_it_still_owns_the_job_before_it_sends(
    server: OpenServer, caller: Callable[..., Caller], fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await server("a")
    for loop in engine.runner.periodic.tasks:
        loop.cancel()  # the others would notice, too
    monkeypatch.setattr("counsel.engine.store.postgres.presence.SURE_SECONDS", -1.0)
    job = await engine.submit(HELLO, caller(), background=True)
    assert await engine.store.adopt(job, engine.runner.ownership.name, "someone else")
    running = engine.runner.running[job]
    presence: Any = engine.store.team and engine.store.team.presence
    presence.gaps += 1
    monkeypatch.undo()
    async with asyncio.timeout(60):
        await asyncio.wait({running.task})
    assert running.lost
    assert fake_api.log.requests == []


@pytest.mark.parametrize(
    ("env", "equal"),
    [
        ({"COUNSEL_HOST": "0.0.0.0", "COUNSEL_DATABASE": "postgresql://other", "COUNSEL_TOKEN": "t"}, True),
        ({"HTTPS_PROXY": "http://proxy:1", "GITHUB_TOKEN": "t", "COUNSEL_MAX_ATTEMPTS": "1"}, True),
        ({"OPENAI_API_KEY": "sk-other"}, False),
        ({"OPENAI_BASE_URL": "https://gateway.example/v1"}, False),
        ({"ANTHROPIC_API_KEY": "sk-ant-more"}, False),
    ],
)
def test_only_keys_and_chosen_addresses_of_providers_tell_servers_apart(
    tmp_path: Path, env: dict[str, str], equal: bool
) -> None:
    def fingerprint(home: str, **more: str) -> str:
        config = settings.load({"COUNSEL_HOME": str(tmp_path / home), "OPENAI_API_KEY": "sk-one", **more})
        return fingerprints.of(config, b"secret")

    assert (fingerprint("a") == fingerprint("b", **env)) is equal


async def test_all_servers_have_one_secret(server: OpenServer) -> None:
    first, second = await server("a"), await server("b")
    values = {engine.runner.callers._secret.value for engine in (first, second)}
    assert len(values) == 1
    assert len(values.pop()) == 32


async def test_a_server_that_stops_leaves_no_row_behind(server: OpenServer) -> None:
    first, second = await server("a"), await server("b")
    store: Any = second.store
    rows = "SELECT name FROM counsel.owners ORDER BY name"
    names = {engine.runner.ownership.name for engine in (first, second)}
    assert {row[0] for row in await store.database.rows(rows)} == names
    await first.close()
    assert [row[0] for row in await store.database.rows(rows)] == [second.runner.ownership.name]

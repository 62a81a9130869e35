"""`counsel serve` and `counsel worker` as processes on one database: which runs a job, and what happens if it dies."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fake import FakeAPI
from support.provider_keys import keys
from team.fleet import Fleet, Member
from team.load import events

if TYPE_CHECKING:
    from support.postgres_server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.xdist_group("postgres"), pytest.mark.thorough]
LONGEST = 120.0  # seconds, on a busy machine


class Team:
    """A server that runs no jobs itself, and two workers."""

    def __init__(self, fleet: Fleet, server: PostgresServer, workers: list[Member]) -> None:
        self.fleet = fleet
        self.workers = workers
        self._server = server
        self._database = fleet.database.partition("?")[0].rpartition("/")[2]
        self.front = fleet.members[0]

    def sql(self, sql: str) -> list[tuple[Any, ...]]:
        return self._server.execute(sql, self._database)

    async def ask(self, **body: Any) -> str:
        body = {"model": "gpt-5", "mode": "background"} | body
        if "models" in body:
            del body["model"]
        async with self.fleet.session.post(f"{self.front.url}/api/jobs", json=body) as response:
            document = await response.json()
            assert response.status == 202, document
            return str(document["job_id"])

    async def cancel(self, job: str) -> None:
        async with self.fleet.session.post(f"{self.front.url}/api/jobs/{job}/cancel") as response:
            assert response.status == 200, await response.text()

    async def until(self, job: str, fits: Callable[[dict[str, Any]], bool]) -> None:
        """Follow the job on the server until an event of this kind."""
        async with asyncio.timeout(LONGEST):
            async with self.fleet.session.get(f"{self.front.url}/api/jobs/{job}/events") as response:
                async for _, event in events(response):
                    if fits(event):
                        return
        raise AssertionError(job)

    async def end(self, job: str) -> str:
        await self.until(job, lambda event: event["kind"] in {"done", "failed", "cancelled"})
        ((status,),) = self.sql(f"SELECT status FROM counsel.jobs WHERE id = '{job}'")
        return str(status)

    def owner(self, job: str) -> Member:
        """The worker that runs the job. An owner's name begins with its process id."""
        ((name,),) = self.sql(f"SELECT owner FROM counsel.jobs WHERE id = '{job}'")
        (member,) = [worker for worker in self.workers if str(worker.pid) == str(name).partition("-")[0]]
        return member


async def logged(workers: list[Member], words: str) -> None:
    async with asyncio.timeout(LONGEST):
        while not all(words in worker.log for worker in workers):
            await asyncio.sleep(0.1)


@pytest.fixture
async def team(tmp_path: Path, postgres_server: PostgresServer, fake_api: FakeAPI) -> AsyncIterator[Team]:
    with postgres_server.migrated() as url:
        async with Fleet(tmp_path, url, keys(fake_api)) as fleet:
            fleet.add("serve", "front", COUNSEL_CONCURRENCY="0", COUNSEL_DRAIN_SECONDS="0")
            workers = [fleet.add("worker", name, COUNSEL_DRAIN_SECONDS="60") for name in ("one", "two")]
            await fleet.start()
            await logged(workers, "runs up to")
            yield Team(fleet, postgres_server, workers)


async def test_a_worker_runs_what_a_server_was_asked_until_it_is_cancelled_or_killed(
    team: Team, fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1, times=1)
    job = await team.ask(prompt="cancelled")
    await team.until(job, lambda event: event["kind"] == "text")  # live, through the server
    await team.cancel(job)
    await fake_api.wait_for(state="disconnected")
    assert await team.end(job) == "cancelled"

    fake_api.script(hang_after=1, times=1, model="claude")
    body = {"prompt": "killed", "models": ["gpt-5", "sonnet"], "enable_cross_feedback": False}
    job = await team.ask(**body)
    await fake_api.wait_for(model="claude", deltas=1)
    async with asyncio.timeout(LONGEST):
        while not team.sql(f"SELECT 1 FROM counsel.calls WHERE job = '{job}'"):
            await asyncio.sleep(0.1)
    await team.owner(job).kill()
    assert await team.end(job) == "completed"
    models = sorted(request.model.partition("-")[0] for request in fake_api.calls if "killed" in request.text)
    assert models == ["claude", "claude", "gpt"]  # the reply that was stored is not asked for again
    ((attempt, open_rows),) = team.sql(
        f"SELECT attempt, (SELECT count(*) FROM counsel_queue.procrastinate_jobs WHERE args->>'job' = '{job}') "
        f"FROM counsel.jobs WHERE id = '{job}'"
    )
    assert (attempt, open_rows) == (2, 0)


async def test_nothing_of_a_suspended_worker_is_accepted_and_a_worker_that_drains_finishes(
    team: Team, fake_api: FakeAPI
) -> None:
    fake_api.script(gate="stale", gate_after=1, times=1, text="of the stale one")
    job = await team.ask(prompt="suspended", continuation_id="mine")
    await fake_api.wait_for(deltas=1)
    stale = team.owner(job)
    stale.signal(signal.SIGSTOP)
    # The others consider it dead after 15 seconds: pretend that these have passed.
    ago = "clock_timestamp() - interval '60 s'"
    pid = f"{stale.pid}-"
    team.sql(f"UPDATE counsel.owners SET seen = {ago} WHERE name LIKE '{pid}%'")
    team.sql(
        f"UPDATE counsel_queue.procrastinate_workers SET last_heartbeat = {ago} WHERE id = "
        f"(SELECT worker_id FROM counsel_queue.procrastinate_jobs WHERE args->>'job' = '{job}')"
    )
    assert await team.end(job) == "completed"
    fake_api.open_gate("stale")
    stale.signal(signal.SIGCONT)
    fake_api.script(gate="drain", gate_after=1, times=2)
    jobs = [await team.ask(prompt=f"drained {number}") for number in range(2)]
    await fake_api.wait_for(contains="drained", deltas=1, count=2)
    for worker in team.workers:
        worker.signal(signal.SIGTERM)
    await logged(team.workers, "takes no more jobs")
    later = await team.ask(prompt="later")
    fake_api.open_gate("drain")
    assert [await team.end(job) for job in jobs] == ["completed"] * 2
    assert [await worker.stop() for worker in team.workers] == [0, 0]
    assert team.sql(f"SELECT owner, status FROM counsel.jobs WHERE id = '{later}'") == [("", "processing")]
    texts = [row[0] for row in team.sql(f"SELECT text FROM counsel.messages WHERE job = '{job}' ORDER BY n")]
    assert texts == ["suspended", "gpt-5 says: suspended"]
    assert [row[0] for row in team.sql(f"SELECT attempt FROM counsel.jobs WHERE id = '{job}'")] == [2]


async def test_a_server_that_drains_answers_those_who_wait_and_the_load_balancer(
    tmp_path: Path, postgres_server: PostgresServer, fake_api: FakeAPI
) -> None:
    with postgres_server.migrated() as url:
        async with Fleet(tmp_path, url, keys(fake_api)) as fleet:
            server = fleet.add("serve", "alone", COUNSEL_DRAIN_SECONDS="60")
            await fleet.start()
            fake_api.script(gate="g", gate_after=1)
            body = {"model": "gpt-5", "messages": [{"role": "user", "content": "hello"}]}
            call = asyncio.create_task(fleet.session.post(f"{server.url}/v1/chat/completions", json=body))
            await fake_api.wait_for(deltas=1)
            server.signal(signal.SIGTERM)
            async with asyncio.timeout(LONGEST):
                while await status(fleet, f"{server.url}/ready") != 503:
                    await asyncio.sleep(0.1)
            fake_api.open_gate("g")
            async with asyncio.timeout(LONGEST):
                response = await call
                answer = await response.json()
            assert answer["choices"][0]["message"]["content"] == "gpt-5 says: hello"
            assert await server.stop() == 0


async def status(fleet: Fleet, url: str) -> int:
    async with fleet.session.get(url) as response:
        return response.status

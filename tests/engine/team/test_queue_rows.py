"""How a worker treats its rows of the queue: taken, given back, finished, and never lost to a failed statement."""

from __future__ import annotations

import asyncio
import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest
from procrastinate import jobs

from counsel.engine.store.records import QueuedRow
from counsel.engine.team.queue import manager, queue
from counsel.engine.team.queue.manager import FencedJobManager
from counsel.engine.team.queue.queue import Later, TeamQueue
from counsel.errors import CounselError

AWAY = CounselError("The database is away.")


class QueueStub:
    """The queue's table: which statements were executed, and how many fail before one succeeds."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.worker: int | None = 7
        self.on_change: Any = None
        self.statements: list[tuple[Any, ...]] = []
        self.failures = 0
        self.has_row = True
        self.rows = list(rows)
        self.ours: list[str] = []

    def _execute(self, *statement: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise AWAY
        self.statements.append(statement)

    async def fetch(self, names: list[str]) -> dict[str, Any] | None:
        self._execute("fetch", *names)
        return self.rows.pop(0) if self.rows else None

    async def finish(self, row: QueuedRow) -> None:
        self._execute("finish", row)

    async def retry(self, row: QueuedRow, seconds: float) -> None:
        self._execute("retry", row, seconds)

    async def register(self) -> int:
        self._execute("register")
        return 8

    async def unregister(self) -> None:
        self._execute("unregister")

    async def beat(self) -> bool:
        self._execute("beat")
        return self.has_row

    async def defer_periodic(self, *row: Any) -> None:
        self._execute("defer", *row)

    async def give_back_strays(self, owner: str, known: list[int]) -> None:
        self._execute("give back", owner, known)

    async def jobs_of(self, _: str) -> list[str]:
        return self.ours

    async def release_job(self, job: str, owner: str) -> None:
        self._execute("release", job, owner)

    async def forget_workers(self, seconds: float) -> None:
        self._execute("forget", seconds)

    def serve(self, names: list[str]) -> None:
        self._execute("serve", *names)


def row(number: int = 1, **arguments: Any) -> dict[str, Any]:
    return {
        "id": number, "status": "doing", "task_name": "counsel.job", "priority": 0, "lock": None, "queueing_lock": None,
        "args": arguments, "scheduled_at": None, "queue_name": "keys", "attempts": 2, "worker_id": 7,
    }  # fmt: skip


def worker(stub: QueueStub, names: tuple[str, ...] = ("keys",), *, alive: bool = True) -> FencedJobManager:
    table: Any = stub
    return FencedJobManager(table, lambda: names, lambda: alive)


ROW = QueuedRow(1, 2, 7)


async def taken(stub: QueueStub) -> tuple[FencedJobManager, jobs.Job]:
    rows = worker(stub)
    job = await rows.fetch_job(None, 7)
    assert job is not None
    stub.statements.clear()
    return rows, job


async def test_a_taken_row_is_known_with_its_attempt_and_its_job() -> None:
    rows = worker(QueueStub(row(job="job_1"), row(2)))
    first, second = await rows.fetch_job(None, 7), await rows.fetch_job(None, 7)
    assert first is not None
    assert second is not None
    assert (first.id, second.id) == (1, 2)
    assert rows.active == {1: ROW, 2: QueuedRow(2, 2, 7)}
    assert rows.starting == {"job_1"}, "a sweep has no job"
    assert await rows.fetch_job(None, 7) is None


@pytest.mark.parametrize(("names", "alive"), [((), True), (("keys",), False)])
async def test_a_worker_without_room_or_that_others_may_think_dead_takes_nothing(
    names: tuple[str, ...], alive: bool
) -> None:
    stub = QueueStub(row())
    assert await worker(stub, names, alive=alive).fetch_job(None, 7) is None
    assert stub.statements == []


async def test_while_the_database_is_away_nothing_is_taken() -> None:
    stub = QueueStub(row())
    stub.failures = 1
    rows = worker(stub)
    assert await rows.fetch_job(None, 7) is None
    assert not rows.fetching.locked()
    assert await rows.fetch_job(None, 7) is not None


@pytest.mark.parametrize(
    ("status", "statement"),
    [
        (jobs.Status.SUCCEEDED, ("finish", ROW)),
        (jobs.Status.FAILED, ("retry", ROW, 10.0)),
        (jobs.Status.ABORTED, ("retry", ROW, 10.0)),
    ],
)
async def test_a_row_is_finished_or_given_back_however_often_that_fails(
    monkeypatch: pytest.MonkeyPatch, status: jobs.Status, statement: tuple[Any, ...]
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    stub = QueueStub(row(job="job_1"))
    rows, job = await taken(stub)
    stub.failures = 3
    monkeypatch.setattr(asyncio, "sleep", pause)
    await rows.finish_job(job, status, delete_job=True)
    assert stub.statements == [statement]
    assert rows.active == {}
    assert pauses == [manager._RETRY_SECONDS] * 3


@pytest.mark.parametrize(
    ("delay", "least", "most"), [(None, 0.0, 0.0), (-60.0, 0.0, 0.0), (3_600.0, 3_000.0, 3_600.0)]
)
async def test_a_row_is_offered_again_when_its_task_says(
    delay: float | None, least: float, most: float
) -> None:
    stub = QueueStub(row(job="job_1"))
    rows, job = await taken(stub)
    at = None if delay is None else dt.datetime.now(dt.UTC) + dt.timedelta(seconds=delay)
    await rows.retry_job(job, retry_at=at)
    ((kind, which, seconds),) = stub.statements
    assert (kind, which) == ("retry", ROW)
    assert least <= seconds <= most
    assert rows.active == {}


@pytest.mark.parametrize(
    ("alive", "has_row", "statements"),
    [(True, True, ["beat"]), (True, False, ["beat", "register"]), (False, True, [])],
)
async def test_a_worker_beats_only_while_it_is_surely_alive_and_registers_again_if_its_row_is_gone(
    alive: bool, has_row: bool, statements: list[str]
) -> None:
    stub = QueueStub()
    stub.has_row = has_row
    await worker(stub, alive=alive).update_heartbeat(7)
    assert [kind for kind, *_ in stub.statements] == statements


async def test_a_heartbeat_or_a_plan_that_cannot_be_written_stops_nothing() -> None:
    stub = QueueStub()
    stub.failures = 2
    await worker(stub).update_heartbeat(7)
    sweep = jobs.Job.from_row({**row(), "task_name": "counsel.sweep", "queue_name": "upkeep"})
    assert await worker(stub).defer_periodic_job(sweep, "", 17) is None
    assert stub.statements == []
    await worker(stub).defer_periodic_job(sweep, "", 17)
    assert stub.statements == [("defer", "counsel.sweep", "upkeep", 17)]


async def test_what_procrastinate_would_do_to_other_workers_is_left_to_ours() -> None:
    stub = QueueStub()
    rows = worker(stub)
    assert await rows.prune_stalled_workers(0.0) == []
    assert await rows.list_jobs_to_abort_async() == []
    await rows.unregister_worker(7)
    assert stub.statements == []
    assert await rows.register_worker() == 7
    stub.worker = None
    assert await rows.register_worker() == 8


async def test_every_wake_is_passed_on_twice() -> None:
    """The worker forgets a notification that arrives while it fetches."""
    rows, calls = worker(QueueStub()), 0
    heard = asyncio.Event()

    async def notify(**_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls % 2 == 0:
            heard.set()

    listening = asyncio.create_task(rows.listen_for_jobs(on_notification=notify))
    for wakes in (1, 2):
        heard.clear()
        rows.wake()
        await asyncio.wait_for(heard.wait(), 60)
        assert calls == 2 * wakes
    listening.cancel()


# ── the team's queue ─────────────────────────────────────────────────────────────────────────────────


class RunnerStub:
    def __init__(self) -> None:
        self.running: dict[str, Any] = {}
        self.dead = {"dead"}
        self.taken: list[str] = []
        self.takes = True
        self.sweeps = 0
        self.endings = SimpleNamespace(unsaved={})
        self.callers = SimpleNamespace(fingerprints=lambda: ["keys", "more"])
        self.ownership = SimpleNamespace(name="us", is_sure=lambda: True, dead=self._dead)
        self.recovery = SimpleNamespace(take=self._take)
        self.periodic = SimpleNamespace(sweep_store=self._sweep)

    async def _dead(self, owners: set[str]) -> set[str]:
        return owners & self.dead

    async def _take(self, record: Any) -> bool:
        self.taken.append(record.id)
        return self.takes

    async def _sweep(self) -> None:
        self.sweeps += 1


class Team:
    def __init__(self, concurrency: int = 2, *, takes_jobs: bool = True) -> None:
        self.runner = RunnerStub()
        self.table = QueueStub()
        self.jobs: dict[str, Any] = {}
        runner: Any = self.runner
        table: Any = self.table
        store: Any = SimpleNamespace(job=self._job)
        self.queue = TeamQueue(runner, store, table, concurrency, "/home", takes_jobs=takes_jobs)

    async def _job(self, name: str) -> Any:
        return self.jobs.get(name)

    def add(self, name: str = "job_1", *, is_open: bool = True, owner: str = "dead") -> None:
        self.jobs[name] = SimpleNamespace(id=name, is_open=is_open, owner=owner)


@pytest.fixture
async def team() -> Team:
    return Team()


async def test_a_workers_row_starts_its_job_if_nobody_else_runs_it(team: Team) -> None:
    await team.queue._take("job_1")
    team.add(is_open=False)
    await team.queue._take("job_1")
    assert team.runner.taken == []
    team.add()
    team.queue._manager.starting.add("job_1")
    await team.queue._take("job_1")
    assert team.runner.taken == ["job_1"]
    assert team.queue._manager.starting == set()


@pytest.mark.parametrize(
    ("reason", "seconds"),
    [("its owner lives", queue._OWNER_CHECK_SECONDS), ("it stops", 0.0), ("no keys", queue._NO_KEYS_SECONDS)],
)
async def test_a_job_that_cannot_start_here_is_offered_again_later(
    team: Team, reason: str, seconds: float
) -> None:
    team.add(owner="alive" if reason == "its owner lives" else "dead")
    if reason == "it stops":
        team.queue.stop_taking()
    team.runner.takes = reason != "no keys"
    with pytest.raises(Later) as later:
        await team.queue._take("job_1")
    assert later.value.seconds == seconds
    assert team.runner.taken == (["job_1"] if reason == "no keys" else [])
    assert team.queue._manager._woken.is_set(), "there is room for another one"


async def test_a_row_is_held_until_its_job_has_ended(team: Team) -> None:
    ends: list[str] = []

    async def ended() -> None:
        ends.append("job_1")

    team.runner.running["job_1"] = SimpleNamespace(ended=ended)
    team.add(owner="alive")
    await team.queue._take("job_1")
    assert (ends, team.runner.taken) == (["job_1"], [])
    assert not team.queue._manager._woken.is_set()


async def test_a_sweep_cleans_the_store_and_forgets_old_workers(team: Team) -> None:
    await team.queue._sweep(17)
    assert team.runner.sweeps == 1
    assert team.table.statements == [("forget", queue._PRUNE_SECONDS)]


async def test_jobs_that_this_process_has_without_knowing_it_are_given_back_after_a_while(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection was lost before the answer to a statement that succeeded."""
    clock = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(queue, "time", SimpleNamespace(monotonic=lambda: clock.now))
    team.queue._manager.active[5] = QueuedRow(5, 1, 7)
    team.table.ours = ["job_runs", "job_ends", "job_stray", "job_brief"]
    team.runner.running["job_runs"] = object()
    team.runner.endings.unsaved["job_ends"] = object()
    await team.queue._give_back_strays()
    assert team.table.statements == [("give back", "us", [5])]
    team.table.ours.remove("job_brief")
    clock.now += queue._STRAY_SECONDS
    await team.queue._give_back_strays()
    clock.now += 1
    team.table.ours.append("job_brief")
    await team.queue._give_back_strays()
    assert [statement for statement in team.table.statements if statement[0] == "release"] == [
        ("release", "job_stray", "us")
    ]


def test_from_which_queues_a_process_takes_jobs() -> None:
    async def served(team: Team) -> list[str]:
        machine = team.queue._machine
        return [name.replace(machine, "machine") for name in team.queue._queues()]

    every = ["upkeep", "keys", "keys@machine", "more", "more@machine"]

    async def check() -> None:
        team = Team()
        assert await served(team) == every
        team.queue._arriving = {"job_1", "job_2"}
        assert await served(team) == ["upkeep"], "there is no room"
        team.queue.stored("job_1")
        assert await served(team) == every
        team.queue._manager.starting.add("job_3")
        assert await served(team) == ["upkeep"]
        team.queue._manager.starting.clear()
        team.runner.running["job_4"] = object()
        assert await served(team) == ["upkeep"]
        team.runner.running.clear()
        team.queue.stop_taking()
        assert await served(team) == []
        assert await served(Team(concurrency=0)) == ["upkeep"], "it only answers requests"
        own = Team(takes_jobs=False)
        assert await served(own) == []
        own.queue.offered("job_5")
        assert await served(own) == every[1:], "a job that it received itself waits"
        assert own.table.statements[-1][0] == "serve"
        assert own.queue._manager._woken.is_set()

    asyncio.run(check())


@pytest.mark.parametrize(("running", "is_woken"), [(0, False), (1, True), (2, False)])
async def test_the_worker_looks_for_a_job_when_the_first_place_becomes_free(
    team: Team, running: int, is_woken: bool
) -> None:
    team.runner.running = {f"job_{number}": object() for number in range(running)}
    team.queue.ended()
    assert team.queue._manager._woken.is_set() is is_woken

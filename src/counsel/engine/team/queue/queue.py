"""The team's queue in this process: what it offers, what it takes, what it gives back.

A call is run where it arrives if there is room: its text reaches its client without a detour, and its row is written as
taken. Otherwise, and when an earlier turn of its conversation has not ended, any server or worker with the same keys takes
it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from typing import TYPE_CHECKING, Any

import procrastinate
from procrastinate.connector import BaseConnector

from counsel.agents import registry
from counsel.engine.jobs import process_identity
from counsel.engine.jobs.model import Job
from counsel.engine.store.protocol import Queue, Store
from counsel.engine.store.records import QueueEntry
from counsel.engine.team.queue.blocked import BlockedTurns
from counsel.engine.team.queue.manager import FencedJobManager
from counsel.errors import CounselError
from counsel.requests import chain

if TYPE_CHECKING:
    from counsel.engine.jobs.runner import Runner

log = logging.getLogger("counsel.queue")
HEARTBEAT = 1.0  # seconds
DEAD_AFTER = 5 * HEARTBEAT  # then what a worker had taken is given to others
_POLL = 1.0  # seconds between looks for a job, if no notification arrives
_LOOK = 1.0  # seconds between looks for rows of dead workers
_STRAYS = 10.0  # seconds between looks for rows and jobs that this process has without knowing it
_STRAY_AFTER = 30.0  # seconds after which such a job is given back
_NO_KEYS = 30.0  # seconds until a job is offered again to a server that had not its keys
_ALIVE = 1.0  # seconds until it is looked at again whether a job's owner is dead
_FAILED = 5.0  # seconds, doubled with each attempt
_LONGEST = 300.0
_FORGOTTEN = 86_400.0  # seconds after which a dead worker's row is deleted
_UPKEEP = "upkeep"
_WAITING, _BACKGROUND, _NESTED = 10, 0, 20  # priorities: someone waits, nobody does, another job does


class Later(Exception):
    """The row is offered again after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"again in {seconds} s")
        self.seconds = seconds


class _Retry(procrastinate.BaseRetryStrategy):
    def get_retry_decision(
        self, *, exception: BaseException, job: procrastinate.jobs.Job
    ) -> procrastinate.RetryDecision | None:
        seconds = min(_FAILED * 2 ** min(job.attempts, 10), _LONGEST)
        if isinstance(exception, Later):
            seconds = exception.seconds
        elif isinstance(exception, Exception):
            log.error("a job of the queue failed", exc_info=exception)
        return procrastinate.RetryDecision(retry_in={"milliseconds": round(seconds * 1000)})


class TeamQueue:
    def __init__(
        self,
        runner: Runner,
        store: Store,
        queue: Queue,
        concurrency: int,
        home: str,
        *,
        takes_jobs: bool = True,
    ) -> None:
        """`takes_jobs`: also others'. A process that ends with its one question would break theirs off, and cost twice."""
        self._runner = runner
        self._takes_others = takes_jobs
        self._offered: set[str] = set()  # jobs asked for here that waited in the queue at the last look
        self._blocked = BlockedTurns(store, queue, runner.recovery)
        self._store = store
        self._queue = queue
        self._concurrency = concurrency
        self._machine = _machine(home)
        self._manager = FencedJobManager(queue, self._queues, runner.ownership.is_sure)
        self._is_taking = True
        self._tasks: list[asyncio.Task[Any]] = []
        self._strays: dict[str, float] = {}  # our jobs that do not run here, and since when
        queue.on_change = self._manager.wake
        logging.getLogger("procrastinate").setLevel(logging.WARNING)

    async def open(self) -> None:
        await self._queue.register()
        self._queue.serve(self._served())
        self._tasks = [
            asyncio.create_task(self._work(), name="counsel-worker"),
            asyncio.create_task(self._look_after_workers(), name="counsel-reaper"),
        ]

    def entry(self, job: Job, fingerprint: str) -> QueueEntry:
        """Where a new job is offered, and whether this process has room for it."""
        is_nested = bool(job.caller.chain)  # another job waits for it, and has a place
        priority = _NESTED if is_nested else _BACKGROUND if job.background else _WAITING
        name = f"{fingerprint}@{self._machine}" if _is_bound(job) else fingerprint
        here = self._is_taking and (is_nested or self._has_room())
        return QueueEntry(name, priority, self._queue.worker if here else None)

    def offered(self, job: str) -> None:
        self._offered.add(job)
        self._queue.serve(self._served())  # its caller may be new here
        self._manager.wake()

    def ended(self) -> None:
        """There is room again, if there was none. A turn that waited for this one is announced by the database."""
        if len(self._runner.running) == self._concurrency - 1:
            self._manager.wake()

    def stop_taking(self) -> None:
        self._is_taking = False

    async def close(self) -> None:
        """After the jobs of this process are released."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(CounselError):
            await self._queue.unregister()

    # ── taking ───────────────────────────────────────────────────────────────────────────────────────

    def _has_room(self) -> bool:
        return len(self._runner.running) < self._concurrency

    def _queues(self) -> list[str]:
        upkeep = [_UPKEEP] if self._is_taking and self._takes_others else []
        return upkeep + (self._served() if self._has_room() else [])

    def _served(self) -> list[str]:
        """From which this process takes jobs when it has room; one that only answers requests never has."""
        names: list[str] = []
        if self._is_taking and self._concurrency and (self._takes_others or self._offered):
            for fingerprint in self._runner.callers.fingerprints():
                names += [fingerprint, f"{fingerprint}@{self._machine}"]
        return names

    async def _work(self) -> None:
        """procrastinate's worker; it ends when something unforeseen fails, and is started again."""
        app = procrastinate.App(connector=BaseConnector(), periodic_defaults={"max_delay": 0})
        app.job_manager = self._manager
        app.task(name="counsel.job", retry=_Retry())(self._take)
        app.periodic(cron="17 * * * *")(
            app.task(name="counsel.sweep", queue=_UPKEEP, retry=_Retry())(self._sweep)
        )
        while True:
            try:
                await app.run_worker_async(
                    concurrency=self._concurrency + 1,  # `_queues` limits it; a sweep needs no room
                    fetch_job_polling_interval=_POLL,
                    abort_job_polling_interval=3600.0,
                    update_heartbeat_interval=HEARTBEAT,
                    install_signal_handlers=False,
                    delete_jobs="always",
                )
            except Exception:
                log.exception("the worker failed")
            await asyncio.sleep(_POLL)

    async def _take(self, job: str) -> None:
        """Run a job whose row this worker has taken, until it has ended or is someone else's."""
        runner = self._runner
        record = await self._store.job(job)
        if record is None or not record.is_open:
            return
        if job not in runner.running:
            if not await runner.ownership.dead({record.owner}):
                raise Later(_ALIVE)
            if not self._is_taking:
                raise Later(0.0)
            if not await runner.recovery.take(record):
                raise Later(_NO_KEYS)
        if running := runner.running.get(job):
            await running.ended()

    async def _sweep(self, timestamp: int) -> None:  # noqa: ARG002 - procrastinate passes it
        await self._runner.periodic.sweep_store()
        await self._queue.forget_workers(_FORGOTTEN)

    # ── giving back ──────────────────────────────────────────────────────────────────────────────────

    async def _look_after_workers(self) -> None:
        looked = time.monotonic()
        while True:
            await asyncio.sleep(_LOOK)
            try:
                self._queue.serve(self._served())
                if self._runner.ownership.may_judge():
                    await self._queue.reap(DEAD_AFTER)
                if self._offered:
                    rows = await self._store.standing(list(self._offered))
                    self._offered = {row.id for row in rows if row.status == "processing" and not row.owner}
                    await self._blocked.look(self._offered)
                if time.monotonic() - looked > _STRAYS:
                    looked = time.monotonic()
                    await self._give_back_strays()
            except CounselError as error:
                log.info("the queue was not maintained: %s", error)
            except Exception:
                log.exception("maintaining the queue failed")

    async def _give_back_strays(self) -> None:
        """What this process was given without hearing of it: the connection was lost before the answer."""
        ours = self._runner.ownership.name
        async with self._manager.fetching:
            await self._queue.give_back_strays(ours, list(self._manager.active))
        known = self._runner.running.keys() | self._runner.endings.unsaved.keys()
        strays = set(await self._queue.jobs_of(ours)) - known
        now = time.monotonic()
        self._strays = {job: self._strays.get(job, now) for job in strays}
        for job, since in self._strays.items():
            if now - since > _STRAY_AFTER:
                await self._queue.release_job(job, ours)


def _is_bound(job: Job) -> bool:
    """It needs this machine: its agents, its MCP servers, or a folder to which the conversation is exported."""
    task = job.task
    return bool(task.export or task.tools) or any(
        registry.resolve(name) for model in task.models for name in chain(model)
    )


def _machine(home: str) -> str:
    text = f"{process_identity.this().machine} {home}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]

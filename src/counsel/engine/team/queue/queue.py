"""The team's queue in this process: which jobs it offers, takes and gives back.

If there is room, a call runs where it arrives: its text reaches its client directly, and its row is written as taken.
Otherwise, and if an earlier turn of its conversation has not ended, any server or worker with the same keys takes it.
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
DEAD_AFTER = 5 * HEARTBEAT  # seconds after which a silent worker's rows are given to others
_POLL = 1.0  # seconds between checks for a job, if no notification arrives
_REAP_SECONDS = 1.0  # between checks for rows of dead workers
_STRAY_CHECK_SECONDS = 10.0  # between checks for rows and jobs that this process has without knowing it
_STRAY_SECONDS = 30.0  # after which such a job is given back
_NO_KEYS_SECONDS = 30.0  # until a job is offered again to a server that lacked its keys
_OWNER_CHECK_SECONDS = 1.0  # between checks of whether a job's owner is dead
_RETRY_SECONDS = 5.0  # until the next attempt; doubled with each attempt
_MAX_RETRY_SECONDS = 300.0  # until the next attempt, at most
_PRUNE_SECONDS = 86_400.0  # after which a dead worker's row is deleted
_UPKEEP = "upkeep"
_WAITING, _BACKGROUND, _NESTED = 10, 0, 20  # priorities: someone waits, nobody waits, another job waits


class Later(Exception):
    """Raised in a task to have the row offered again after `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"again in {seconds} s")
        self.seconds = seconds


class _Retry(procrastinate.BaseRetryStrategy):
    def get_retry_decision(
        self, *, exception: BaseException, job: procrastinate.jobs.Job
    ) -> procrastinate.RetryDecision | None:
        seconds = min(_RETRY_SECONDS * 2 ** min(job.attempts, 10), _MAX_RETRY_SECONDS)
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
        """`takes_jobs`: also take other processes' jobs. A process that ends after its one question must not: it would
        interrupt their jobs, which would then be paid for twice."""
        self._runner = runner
        self._takes_others = takes_jobs
        self._arriving: set[str] = set()  # jobs received here that will run here once they are stored
        self._offered: set[str] = set()  # jobs received here that were waiting in the queue at the last check
        self._blocked = BlockedTurns(store, queue, runner.recovery)
        self._store = store
        self._queue = queue
        self._concurrency = concurrency
        self._machine = _machine(home)
        self._manager = FencedJobManager(queue, self._queues, runner.ownership.is_sure)
        self._is_taking = True
        self._tasks: list[asyncio.Task[Any]] = []
        self._strays: dict[str, float] = {}  # our jobs that do not run here, and when this was noticed
        queue.on_change = self._manager.wake
        logging.getLogger("procrastinate").setLevel(logging.WARNING)

    async def open(self) -> None:
        await self._queue.register()
        self._queue.serve(self._served_queues())
        self._tasks = [
            asyncio.create_task(self._work(), name="counsel-worker"),
            asyncio.create_task(self._maintain(), name="counsel-reaper"),
        ]

    def entry(self, job: Job, fingerprint: str) -> QueueEntry:
        """The queue entry of a new job, which belongs to this process if there is room for it."""
        is_nested = bool(job.caller.chain)  # another job that is already running waits for it
        priority = _NESTED if is_nested else _BACKGROUND if job.background else _WAITING
        name = f"{fingerprint}@{self._machine}" if _needs_this_machine(job) else fingerprint
        runs_here = self._is_taking and (is_nested or self._has_room())
        if runs_here:
            self._arriving.add(job.id)
        return QueueEntry(name, priority, self._queue.worker if runs_here else None)

    def stored(self, job: str) -> None:
        """A new job was stored or could not be stored; it has not started yet."""
        self._arriving.discard(job)

    def offered(self, job: str) -> None:
        self._offered.add(job)
        self._queue.serve(self._served_queues())  # the caller may be new here
        self._manager.wake()

    def ended(self) -> None:
        """Look for jobs if there was no room before. The database announces a turn that waited for this one."""
        if len(self._runner.running) == self._concurrency - 1:
            self._manager.wake()

    def stop_taking(self) -> None:
        self._is_taking = False

    async def close(self) -> None:
        """Close the queue, after the jobs of this process were released."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(CounselError):
            await self._queue.unregister()

    # ── taking ───────────────────────────────────────────────────────────────────────────────────────

    def _has_room(self) -> bool:
        jobs = self._runner.running.keys() | self._manager.starting | self._arriving
        return len(jobs) < self._concurrency

    def _queues(self) -> list[str]:
        upkeep = [_UPKEEP] if self._is_taking and self._takes_others else []
        return upkeep + (self._served_queues() if self._has_room() else [])

    def _served_queues(self) -> list[str]:
        """The queues from which this process takes jobs if it has room. None if it only answers requests."""
        names: list[str] = []
        if self._is_taking and self._concurrency and (self._takes_others or self._offered):
            for fingerprint in self._runner.callers.fingerprints():
                names += [fingerprint, f"{fingerprint}@{self._machine}"]
        return names

    async def _work(self) -> None:
        """Run procrastinate's worker. It ends on unexpected failures, and is started again."""
        app = procrastinate.App(connector=BaseConnector(), periodic_defaults={"max_delay": 0})
        app.job_manager = self._manager
        app.task(name="counsel.job", retry=_Retry())(self._take)
        app.periodic(cron="17 * * * *")(
            app.task(name="counsel.sweep", queue=_UPKEEP, retry=_Retry())(self._sweep)
        )
        while True:
            try:
                await app.run_worker_async(
                    concurrency=self._concurrency + 1,  # `_queues` limits jobs; a sweep needs no room
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
        """Run a job whose row this worker has taken, until it ends or another process takes it."""
        running = self._runner.running
        try:
            if job not in running:
                await self._start(job)
        finally:
            self._manager.starting.discard(job)
            if job not in running:
                self._manager.wake()  # there is room for another one
        if job in running:
            await running[job].ended()

    async def _start(self, job: str) -> None:
        runner = self._runner
        record = await self._store.job(job)
        if record is None or not record.is_open or job in runner.running:
            return
        if not await runner.ownership.dead({record.owner}):
            raise Later(_OWNER_CHECK_SECONDS)
        if not self._is_taking:
            raise Later(0.0)
        if not await runner.recovery.take(record):
            raise Later(_NO_KEYS_SECONDS)

    async def _sweep(self, timestamp: int) -> None:  # noqa: ARG002 - procrastinate passes it
        await self._runner.periodic.sweep_store()
        await self._queue.forget_workers(_PRUNE_SECONDS)

    # ── giving back ──────────────────────────────────────────────────────────────────────────────────

    async def _maintain(self) -> None:
        checked_at = time.monotonic()
        while True:
            await asyncio.sleep(_REAP_SECONDS)
            try:
                self._queue.serve(self._served_queues())
                if self._runner.ownership.may_judge():
                    await self._queue.reap(DEAD_AFTER)
                if self._offered:
                    rows = await self._store.standing(list(self._offered))
                    self._offered = {row.id for row in rows if row.status == "processing" and not row.owner}
                    await self._blocked.end_overdue(self._offered)
                if time.monotonic() - checked_at > _STRAY_CHECK_SECONDS:
                    checked_at = time.monotonic()
                    await self._give_back_strays()
            except CounselError as error:
                log.info("the queue was not maintained: %s", error)
            except Exception:
                log.exception("maintaining the queue failed")

    async def _give_back_strays(self) -> None:
        """Give back rows and jobs that this process got unknowingly: the connection was lost before the answer."""
        ours = self._runner.ownership.name
        async with self._manager.fetching:
            await self._queue.give_back_strays(ours, list(self._manager.active))
        our_jobs = self._runner.running.keys() | self._runner.endings.unsaved.keys()
        strays = set(await self._queue.jobs_of(ours)) - our_jobs
        now = time.monotonic()
        self._strays = {job: self._strays.get(job, now) for job in strays}
        for job, since in self._strays.items():
            if now - since > _STRAY_SECONDS:
                await self._queue.release_job(job, ours)


def _needs_this_machine(job: Job) -> bool:
    """Whether the job needs this machine's agents or MCP servers, or a folder here to export its conversation to."""
    task = job.task
    return bool(task.export or task.tools) or any(
        registry.resolve(name) for model in task.models for name in chain(model)
    )


def _machine(home: str) -> str:
    text = f"{process_identity.current().machine} {home}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]

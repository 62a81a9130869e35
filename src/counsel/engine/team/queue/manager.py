"""procrastinate's job manager on our own connections, with a fence.

The original matches rows by their id alone, and any database error stops its worker. Here a row can be finished or
retried only by the same attempt of the same worker, and a statement that fails is tried again.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from procrastinate import jobs, manager
from procrastinate.connector import BaseConnector

from counsel.engine.store.protocol import Queue
from counsel.engine.store.records import QueuedRow
from counsel.errors import CounselError

log = logging.getLogger("counsel.queue")
_RETRY_SECONDS = 1.0  # until a failed statement is tried again


class FencedJobManager(manager.JobManager):
    def __init__(
        self, queue: Queue, queues: Callable[[], Sequence[str]], is_alive: Callable[[], bool]
    ) -> None:
        """`queues`: from which a job may be taken now. `is_alive`: whether no other process considers this one dead."""
        super().__init__(BaseConnector())  # never used, as every statement that a worker needs is below
        self._queue = queue
        self._queues = queues
        self._is_alive = is_alive
        self._woken = asyncio.Event()
        self.active: dict[int, QueuedRow] = {}  # rows that this worker has taken
        self.starting: set[str] = set()  # their jobs that do not run yet
        self.fetching = asyncio.Lock()  # held while a row is taken but not yet in `active`

    def wake(self) -> None:
        """Look for rows: one may be free now."""
        self._woken.set()

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> jobs.Job | None:  # noqa: ARG002 - ours change
        names = self._queues()
        if not names or not self._is_alive():
            return None
        try:
            async with self.fetching:
                row = await self._queue.fetch(names)
                if row is None:
                    return None
                job = jobs.Job.from_row(row)
                assert job.id is not None
                self.active[job.id] = QueuedRow(job.id, job.attempts, job.worker_id)
                if name := job.task_kwargs.get("job"):  # a sweep has none
                    self.starting.add(str(name))
        except CounselError as error:
            log.warning("no job could be taken: %s", error)
            return None
        return job

    def _row_of(self, job: jobs.Job) -> QueuedRow:
        assert job.id is not None
        return self.active[job.id]

    async def finish_job(self, job: jobs.Job, status: jobs.Status, delete_job: bool) -> None:  # noqa: ARG002 - always deleted
        row = self._row_of(job)
        if status == jobs.Status.SUCCEEDED:
            await self._write_until_done(lambda: self._queue.finish(row))
        else:  # an unknown task, or a worker that was stopped: another worker may do it
            await self._write_until_done(lambda: self._queue.retry(row, 10.0))
        self._forget(job)

    async def retry_job(
        self,
        job: jobs.Job,
        retry_at: dt.datetime | None = None,
        priority: int | None = None,  # noqa: ARG002 - never given
        queue: str | None = None,  # noqa: ARG002 - never given
        lock: str | None = None,  # noqa: ARG002 - never given
    ) -> None:
        row = self._row_of(job)
        now = dt.datetime.now(dt.UTC)
        seconds = max(0.0, (retry_at - now).total_seconds()) if retry_at else 0.0
        await self._write_until_done(lambda: self._queue.retry(row, seconds))
        self._forget(job)

    def _forget(self, job: jobs.Job) -> None:
        """The row is no longer ours. Its job may never have started: the worker was stopped before."""
        self.active.pop(job.id or 0, None)
        self.starting.discard(str(job.task_kwargs.get("job")))

    async def _write_until_done(self, write: Callable[[], Awaitable[None]]) -> None:
        """Retry until the write succeeds, as a row that a living worker holds is never given to another."""
        while True:
            try:
                return await write()
            except CounselError as error:
                log.warning("the queue cannot be written: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    # ── the worker itself ────────────────────────────────────────────────────────────────────────────

    async def register_worker(self) -> int:
        return self._queue.worker or await self._queue.register()

    async def unregister_worker(self, worker_id: int) -> None:
        """Do nothing yet: a row without a worker counts as a dead worker's. `TeamQueue.close` unregisters it later."""

    async def update_heartbeat(self, worker_id: int) -> None:  # noqa: ARG002 - ours may have changed
        """Beat only while the owners' presence, the one authority on which processes are alive, is certain."""
        if not self._is_alive():
            return
        try:
            if not await self._queue.beat():  # the row was deleted during a long suspension of this process
                await self._queue.register()
        except CounselError as error:
            log.info("no heartbeat: %s", error)

    async def prune_stalled_workers(self, seconds_since_heartbeat: float) -> list[int]:  # noqa: ARG002 - only by the sweep
        """Prunes none: a suspended worker keeps its row; without it, everything that it takes afterwards would be
        refused."""
        return []

    async def list_jobs_to_abort_async(self, queue: str | None = None) -> list[int]:  # noqa: ARG002 - none in any queue
        """Lists none: cancellation is handled by our own jobs, which also run without a row's task."""
        return []

    async def listen_for_jobs(
        self,
        *,
        on_notification: manager.NotificationCallback,
        queues: Iterable[str] | None = None,  # noqa: ARG002 - of all queues
    ) -> None:
        """Pass on notifications from our only LISTEN connection, which is re-established if it is lost."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            for pause in (0.05, 0.0):  # twice, as the worker forgets what arrives while it fetches
                await on_notification(channel="", notification={"type": "job_inserted", "job_id": 0})
                await asyncio.sleep(pause)

    async def defer_periodic_job(self, job: jobs.Job, periodic_id: str, defer_timestamp: int) -> int | None:  # noqa: ARG002 - procrastinate passes it
        try:
            await self._queue.defer_periodic(job.task_name, job.queue, defer_timestamp)
        except CounselError as error:
            log.info("a sweep was not planned: %s", error)
        return None

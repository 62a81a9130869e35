"""Runs jobs: starts them, waits for their turn in a conversation, stops them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from counsel import resource_errors
from counsel.caller import Caller
from counsel.engine.completions import run as completion
from counsel.engine.consult import chat
from counsel.engine.consult.budget import Budgets
from counsel.engine.consult.cache import AnswerCache
from counsel.engine.consult.call import Consultation
from counsel.engine.consult.consensus import course
from counsel.engine.consult.limiter import Limiter
from counsel.engine.consult.review import run as review
from counsel.engine.consult.routes import Router
from counsel.engine.history import spans
from counsel.engine.history.call_metrics import METRICS
from counsel.engine.history.summaries import Describer
from counsel.engine.history.titles import Summariser, title_of
from counsel.engine.jobs import call_keys, replay
from counsel.engine.jobs.callers import CallerRegistry, Secret, SharedSecret
from counsel.engine.jobs.ending import Endings
from counsel.engine.jobs.events import Live
from counsel.engine.jobs.intake import Arrival
from counsel.engine.jobs.model import Job
from counsel.engine.jobs.owners import Owners
from counsel.engine.jobs.periodic import Periodic
from counsel.engine.jobs.queue import JobQueue
from counsel.engine.jobs.recovery import Recovery
from counsel.engine.jobs.running import Running
from counsel.engine.jobs.turns import Turns
from counsel.engine.store.model import Origin
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import Fence, JobStanding, LostJob, NewJob, StoreError
from counsel.errors import Cancelled, CounselError, Internal
from counsel.lazy_dataclass import replace

if TYPE_CHECKING:
    from counsel.engine.team.own_keys import OwnKeys

log = logging.getLogger("counsel.runner")
_CANCEL_TIMEOUT = 2.0  # seconds for another process to notice that a job was cancelled
_POLL = 0.05  # seconds between checks whether it has
_MOST_ENDED = 64
_KINDS = {
    "chat": chat.run,
    "askModel": chat.run,
    "consensus": course.run,
    "completion": completion.run,
    "review": review.run,
}


class Runner:
    def __init__(
        self,
        store: Store,
        home: Path,
        router: Router,
        *,
        limiter: Limiter,
        cache: AnswerCache,
        summariser: Summariser,
        ownership: Owners,
        secret: Secret | SharedSecret,
        budgets: Budgets,
    ) -> None:
        self.running: dict[str, Running] = {}
        self.ended: dict[str, Running] = {}  # the last ones that are not completely on disk
        self.keys: dict[str, str] = {}  # of running jobs: the call's key → the job
        self.limiter = limiter
        self.budgets = budgets
        self._store = store
        self._router = router
        self._cache = cache
        self.describer = Describer(store, summariser, ownership)
        self.endings = Endings(store)
        self.ownership = ownership
        self.callers = CallerRegistry(home, secret)
        self.queue: JobQueue | None = None  # of a team
        self.orphan_event = asyncio.Event()  # a job of a dead process may be waiting
        self.began = asyncio.Event()  # a job runs
        self.recovery = Recovery(
            store,
            home,
            ownership,
            self.callers,
            running=self.running,
            start=self._resume,
            orphan_event=self.orphan_event,
        )
        self._turns = Turns(store, self.running, self.orphan_event, self.recovery.missing_keys)
        self.periodic = Periodic(self, store, home, secret)
        self._own_keys: OwnKeys | None = None
        self._closing = False
        self._draining = False
        store.running = self._new_jobs

    @property
    def closing(self) -> bool:
        return self._closing or self._draining

    def start(self) -> None:
        self.periodic.start()

    @property
    def own_keys(self) -> OwnKeys:
        """The own keys of a team's people."""
        if self._own_keys is None:
            from counsel.engine.team.own_keys import OwnKeys  # a server of one person has none

            self._own_keys = OwnKeys(self._store)
        return self._own_keys

    # ── callers ──────────────────────────────────────────────────────────────────────────────────────

    def register_caller(self, caller: Caller) -> str:
        """Return the caller's fingerprint. A new caller may have the keys that an interrupted job waits for."""
        fingerprint, new = self.callers.register_caller(caller)
        if new:
            self.orphan_event.set()
        return fingerprint

    # ── beginning ────────────────────────────────────────────────────────────────────────────────────

    async def begin(self, arrival: Arrival) -> str:
        """Store the job and start it, without waiting for the disk if its place in the conversation is certain."""
        job = arrival.job
        new = self._new_job(job, self.register_caller(job.caller))
        if arrival.image_blobs:
            await self._store.put_blobs(arrival.image_blobs)
        if job.key in self.keys:  # the same call, twice within a moment
            return self.keys[job.key]
        if self.queue:
            new = replace(new, queue=self.queue.entry(job, new.fingerprint))
            await asyncio.shield(asyncio.ensure_future(self._start_written(arrival, new)))
        elif arrival.continues or job.background:
            # even if the caller disconnects, a stored job is started
            await asyncio.shield(asyncio.ensure_future(self._start_written(arrival, new)))
        else:
            self._start(job, arrival.continues).written = self._store.submit(new, may_wait=True)
        return job.id

    def _new_job(self, job: Job, fingerprint: str) -> NewJob:
        return NewJob(
            id=job.id,
            key=job.key,
            conversation=job.conversation,
            task=job.task,
            origin=Origin.of(job.caller, job.request),
            background=job.background,
            created=job.created,
            owner=self.ownership.name,
            attempt=job.attempt,
            fingerprint=fingerprint,
            expires=_expires(job),
            keep_days=job.caller.settings.job_days,
            title=title_of(job.task.prompt),
            may_continue=job.continues or job.attempt > 1,
        )

    def _new_jobs(self) -> list[NewJob]:
        """The jobs that run here, for rebuilding the database. Called on the writer's thread."""
        return [
            self._new_job(running.job, self.callers.register_caller(running.job.caller)[0])
            for running in list(self.running.values())
        ]

    async def _start_written(self, arrival: Arrival, new: NewJob) -> None:
        try:
            submission = await self._store.submit(new)
        finally:
            if self.queue:
                self.queue.stored(arrival.job.id)
        arrival.job.conversation = submission.conversation
        if self.queue and not submission.is_ours:
            self.queue.offered(arrival.job.id)
        elif submission.is_new and not self._closing:
            self._start(arrival.job, arrival.continues)

    def _start(self, job: Job, continues: bool, seq: int = 0) -> Running:
        fence = Fence(job.id, self.ownership.name, job.attempt)
        running = Running(job, Live(job.id, job.task.models, seq, judge=job.task.judge), fence)
        running.gaps = self.ownership.gaps
        self.running[job.id] = running
        self.began.set()
        if job.key:
            self.keys[job.key] = job.id
        loop = asyncio.get_running_loop()
        running.task = loop.create_task(self._run(running, continues), name=job.id)
        return running

    def _resume(self, job: Job, seq: int) -> None:
        """Continue a job that another process started. `seq`: of its last event."""
        self._start(job, continues=True, seq=seq)

    def _forget(self, running: Running) -> None:
        job_id = running.job.id
        self.running.pop(job_id, None)
        running.wake_waiters()
        METRICS.ended(running.job.tool, _final_state(running), time.time() - running.job.created)
        self._turns.ended(running.job.conversation)
        if self.queue:
            self.queue.ended()
        if running.job.key:
            self.keys.pop(running.job.key, None)
        if running.incomplete_on_disk:  # later readers get the rest from here
            self.ended[job_id] = running
            while len(self.ended) > _MOST_ENDED:
                self.ended.pop(next(iter(self.ended)))

    # ── running ──────────────────────────────────────────────────────────────────────────────────────

    async def _run(self, running: Running, continues: bool) -> None:
        job = running.job
        span = spans.of_job(job)
        try:
            if self._closing:
                return  # another process continues it
            if continues:
                await self._turns.wait(running, self.endings.unsaved)
            await self._answer(running)
        except asyncio.CancelledError:
            if running.lost:
                log.warning("%s is no longer ours: its calls are stopped", job.id)
                running.live.leave()
                return
            if self._closing and not running.cancelled:
                return  # the job stays `processing`: another process continues it
            await self.endings.stop(running, "cancelled", Cancelled(f"Job {job.id} was cancelled."))
        except LostJob:
            log.warning("%s is no longer ours", job.id)
            running.live.leave()
        except CounselError as error:
            await self.endings.stop(running, "failed", error)
        except Exception as error:  # a defect must end the job, not leave it hanging
            log.exception("%s failed", job.id)
            lack = resource_errors.failure(error, "The job could not continue")
            broken = Internal(f"counsel failed internally ({type(error).__name__}).")
            await self.endings.stop(running, "failed", lack or broken)
        finally:
            span.end(running.failure.code if running.failure else "")
            self._forget(running)

    async def _answer(self, running: Running) -> None:
        job = running.job
        if job.caller.person is not None:  # also for a job that another server started
            job.caller = await self.own_keys.applied(job.caller)
        if job.attempt == 1:
            METRICS.began(time.time() - job.created)
        running.live.waits = None
        running.live.started(job.tool, job.task.models, job.id, job.conversation)
        if job.attempt > 1:
            job.members.texts = await replay.texts(self._store, job.id, job.members.cancelled)
            running.live.resume(await self._store.slots_with_text(job.id))
        running.titling = self.describer.start_title(running)
        consultation = Consultation(
            job,
            running.fence,
            self._store,
            running.live,
            self.limiter,
            budgets=self.budgets,
            permit=partial(self._confirm, running) if self._store.team else None,
        )
        outcome = await _KINDS[job.tool](consultation, self._router, self._store, self._cache)
        alone = len(self.running) == 1
        await self.endings.complete(running, consultation, outcome, expires=_expires(job), alone=alone)
        self.describer.start_summary(running, outcome.text)

    async def _confirm(self, running: Running) -> None:
        """Called before each request to a vendor: if others considered us dead, they would send it, too.

        If they may have, another process may own the job by now, so its row is read before anything is sent.
        """
        while True:
            await self.ownership.sure()
            if running.gaps == (gaps := self.ownership.gaps):
                return
            if not any(self._is_mine(running, row) for row in await self._store.standing([running.job.id])):
                running.lose()
                await asyncio.get_running_loop().create_future()  # until the cancellation arrives
            running.gaps = gaps

    def _is_mine(self, running: Running, standing: JobStanding) -> bool:
        own = (self.ownership.name, running.job.attempt, "processing")
        return (standing.owner, standing.attempt, standing.status) == own

    # ── stopping ─────────────────────────────────────────────────────────────────────────────────────

    async def cancel(self, job_id: str) -> None:
        if running := self.running.get(job_id):
            await asyncio.sleep(0)  # its first step, see `close`
            running.stop()
            await asyncio.wait({running.task})
            return
        await self._store.request_cancel(job_id)
        deadline = time.monotonic() + _CANCEL_TIMEOUT
        while (job := await self._store.job(job_id)) and job.is_open:
            life = await self.ownership.state(job.owner)
            # If the owner's state is unknown, the person's cancel decides: a live owner stops when it sees that
            # it has lost the job.
            if life == "dead" or (life == "unknown" and time.monotonic() > deadline):
                await self.recovery.give_up(job, "cancelled", Cancelled(f"Job {job_id} was cancelled."))
            elif time.monotonic() > deadline:
                return
            await asyncio.sleep(_POLL)

    async def cancel_member(self, job_id: str, slot: str) -> None:
        """Stop one model of a job; the last one ends the job. Stored first, so that no later attempt asks it again."""
        await self._store.request_cancel(job_id, slot)
        if running := self.running.get(job_id):
            await asyncio.sleep(0)  # its first step, see `close`
            await self._stop_members(running, (slot,))

    async def _stop_members(self, running: Running, slots: Iterable[str]) -> None:
        members = running.job.members
        for slot in slots:
            members.stop(slot)
        if len(members.cancelled - {call_keys.JUDGE}) == len(running.job.task.models):
            await self.cancel(running.job.id)

    async def apply_standing(self, standing: JobStanding) -> None:
        """Stop a job that was cancelled, or that another process has taken, so that its calls cost no more money."""
        running = self.running.get(standing.id)
        if running is None:
            return
        was_in_doubt = running.in_doubt
        running.in_doubt = not self._is_mine(running, standing)
        if running.in_doubt and was_in_doubt:
            # only if seen twice: a database that is being rebuilt may have an older state for a moment
            running.lose()
        elif standing.cancel and not running.in_doubt:
            await self.cancel(standing.id)
        elif not running.in_doubt and not running.job.members.cancelled.issuperset(
            standing.cancelled_members
        ):
            await self._stop_members(running, standing.cancelled_members)

    async def drain(self, seconds: float) -> None:
        """Take no more jobs from a team's queue, and wait at most `seconds` until the running ones have ended."""
        self._draining = True
        if self.queue:
            self.queue.stop_taking()
            deadline = time.monotonic() + seconds
            while self.running and (remaining := deadline - time.monotonic()) > 0:
                await asyncio.wait([running.task for running in self.running.values()], timeout=remaining)

    async def close(self, *, keep: bool) -> None:
        """`keep`: calls whose callers wait continue in the next engine, even if the callers do not reconnect."""
        if self._closing:
            return
        self._closing = True
        if self.queue:
            self.queue.stop_taking()
        for running in self.running.values():
            # before the calls are cut off, which is not an event of the job
            running.flush(self._store, is_last=True)
            running.job.handed_over = not running.cancelled
        tasks = [*self.periodic.tasks, *(running.task for running in self.running.values())]
        await asyncio.sleep(0)  # their first step: a task cancelled before that never runs its handlers
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(StoreError):
            await self.endings.save()
        owns_jobs = True
        with contextlib.suppress(StoreError):
            await self._store.release(self.ownership.name, keep=keep)
            owns_jobs = False
        if self.queue:
            await self.queue.close()
        with contextlib.suppress(StoreError):
            await self.ownership.release(owns_jobs=owns_jobs)

    # ── jobs of dead processes ───────────────────────────────────────────────────────────────────────

    async def look_for_orphans(self, only: str | None = None) -> None:
        if only not in self.running and self._store.is_current():
            await self.recovery.look(only)

    async def busy(self) -> bool:
        """Whether a job runs here, or can be continued or ended here."""
        return bool(self.running) or await self.recovery.actionable()


def _final_state(running: Running) -> str:
    if running.result is not None:
        return "completed"
    if running.failure is not None:
        return "cancelled" if isinstance(running.failure, Cancelled) else "failed"
    return "released"  # another process continues it


def _expires(job: Job) -> float:
    return time.time() + job.caller.settings.conversation_days * 86400

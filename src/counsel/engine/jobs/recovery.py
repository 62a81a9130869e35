"""Jobs whose process has died: continuing them, giving them up, or saying what they wait for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Container, Sequence
from pathlib import Path

from counsel import pending_calls
from counsel.engine.jobs import partial
from counsel.engine.jobs.callers import CallerRegistry
from counsel.engine.jobs.model import TOOLS, Job, Members
from counsel.engine.jobs.owners import Owners
from counsel.engine.store.protocol import Queue, Store
from counsel.engine.store.records import AdoptedJob, Fence, JobRecord, JobStopped, LostJob
from counsel.errors import Cancelled, Conflict, CounselError, Internal, ProviderUnavailable
from counsel.job_events import Wait
from counsel.requests import Status
from counsel.settings import Settings

log = logging.getLogger("counsel.recovery")
_STUCK = 25  # attempts in a row in which calls went out and none finished
# Each attempt numbers its events from here on: a follower may have seen events of a killed process that were not stored yet,
# and must not take the next process's events for those.
EVENTS_PER_ATTEMPT = 1_000_000
_CLIENT_GONE = 60.0  # seconds after which an interrupted synchronous call is given up
_FRESH = 0.5  # seconds for which it is not asked again whether a server has a job's keys


class Recovery:
    def __init__(
        self,
        store: Store,
        home: Path,
        ownership: Owners,
        callers: CallerRegistry,
        *,
        running: Container[str],
        start: Callable[[Job, int], object],
        wanted: asyncio.Event,
    ) -> None:
        self._store = store
        self._home = home
        self._ownership = ownership
        self._callers = callers
        self._running = running
        self._start = start
        self._wanted = wanted
        self._queue = (
            store.team.queue if store.team else None
        )  # in a team, workers take the jobs of the dead from there
        self._since: dict[str, float] = {}  # interrupted calls whose client may come back, and since when
        self._served: dict[str, tuple[float, bool]] = {}  # by job: when it was read, and what

    async def look(self, only: str | None = None) -> None:
        """Continue jobs whose process died, when the keys that they were asked with are here.

        Not while no file can be opened: a process that cannot open a connection leaves the job to others.

        A client that sends its call again, and names the job with `only`, is the one that an interrupted call waits for.
        """
        if not _can_open():
            return
        if self._queue:
            await self._look_beside_queue(self._queue)
            return
        for job in await self._orphans(only):
            if job.cancel:
                await self.give_up(job, "cancelled", Cancelled(f"Job {job.id} was cancelled."))
            elif job.stuck >= _STUCK:
                await self.give_up(job, "failed", _stuck(job))
            elif self._waits_for_client(job) and not only:
                await self._decide(job)
            elif settings := self._settings(job):
                await self._take_over(job, settings)
            elif _too_old(job):
                await self.give_up(job, "failed", _keyless(job))

    async def _look_beside_queue(self, queue: Queue) -> None:
        """Of dead owners: jobs that no worker can find in the queue, and those that are only to be ended."""
        jobs = [(job, owner) for job, owner in await queue.unattended() if job not in self._running]
        dead = await self._ownership.dead({owner for _, owner in jobs}) if jobs else set()
        orphans = [job for job, owner in jobs if owner in dead]
        await queue.enqueue_missing(orphans)
        for orphan in orphans:
            job = await self._store.job(orphan)
            if job is None or not job.is_open:
                continue
            if job.cancel:
                await self.give_up(job, "cancelled", Cancelled(f"Job {job.id} was cancelled."))
            elif _too_old(job) and not await self._is_served(job):
                await self.give_up(job, "failed", _keyless(job))

    async def take(self, job: JobRecord) -> bool:
        """Continue or end a job that a worker has taken from the queue. False: its keys are not here."""
        if job.cancel:
            await self.give_up(job, "cancelled", Cancelled(f"Job {job.id} was cancelled."))
        elif job.stuck >= _STUCK:
            await self.give_up(job, "failed", _stuck(job))
        elif settings := self._settings(job):
            await self._take_over(job, settings)
        elif _too_old(job):
            await self.give_up(job, "failed", _keyless(job))
        else:
            return False
        return True

    async def actionable(self) -> bool:
        """More can be done here for some job of a dead process than wait for its keys."""
        if self._queue:
            return False  # other servers do it
        return any(
            job.cancel or job.stuck >= _STUCK or not job.background or self._settings(job) or _too_old(job)
            for job in await self._orphans()
        )

    async def _orphans(self, only: str | None = None) -> list[JobRecord]:
        others = [
            job
            for job in await self._store.open_jobs()
            if job.id not in self._running and only in {None, job.id}
        ]
        if not others:
            return []
        dead = await self._ownership.dead({job.owner for job in others})
        return [job for job in others if job.owner in dead]

    def _settings(self, job: JobRecord) -> Settings | None:
        """The keys that the job was asked with, if they are here. A newer release's kind of job is left to it."""
        return self._callers.find(job.fingerprint) if job.tool in TOOLS else None

    def _waits_for_client(self, job: JobRecord) -> bool:
        if job.background or self._queue:  # of a team's client nobody knows at which server it waits
            return False
        settings = self._callers.find(job.fingerprint)
        return not (settings and settings.keep_abandoned)

    async def _decide(self, job: JobRecord) -> None:
        """An interrupted call whose client has not reconnected: continue it, give it up, or wait a while longer."""
        if pending_calls.take(self._home, job.id):
            await self._detach(job)
        elif self._client_is_gone(job):
            if await self._store.has_replies(job.id):  # they were paid for
                await self._detach(job)
            else:
                await self.give_up(job, "cancelled", _abandoned(job))

    async def _detach(self, job: JobRecord) -> None:
        await self._store.detach(job.id)
        self._wanted.set()  # the next look takes it over

    def _client_is_gone(self, job: JobRecord) -> bool:
        """The client has had its time to come back, counted from when this engine found the call."""
        since = self._since.setdefault(job.id, time.monotonic())
        return time.monotonic() - since >= _CLIENT_GONE

    async def _take_over(self, job: JobRecord, settings: Settings) -> None:
        self._since.pop(job.id, None)
        promised = pending_calls.take(
            self._home, job.id
        )  # by its front: it continues even if no client waits
        if promised:
            await self._store.detach(job.id)
        adopted = await self._store.adopt(job.id, job.owner, self._ownership.name)
        if adopted:
            log.info("continuing %s (attempt %s)", job.id, adopted.record.attempt)
            attempt = adopted.record.attempt
            seq = max(await self._store.last_seq(job.id), (attempt - 1) * EVENTS_PER_ATTEMPT)
            self._start(job_of(adopted, settings), seq)

    async def give_up(self, job: JobRecord, status: Status, error: CounselError) -> None:
        """End a job that no process runs. Its finished answers stay."""
        self._since.pop(job.id, None)
        adopted = await self._store.adopt(job.id, job.owner, self._ownership.name)
        if adopted is None:
            return
        fence = Fence(job.id, self._ownership.name, adopted.record.attempt)
        stopped = job_of(adopted, Settings())
        end = JobStopped(
            status=status,
            error=error.copy(),
            turn=partial.turn(stopped, status),
            task=stopped.task_without_messages(),
        )
        with contextlib.suppress(LostJob):
            await self._store.finish(fence, end)

    # ── what a job waits for ─────────────────────────────────────────────────────────────────────────

    async def has_owner(self, job: JobRecord) -> bool:
        """A process runs it, or a server of the team will."""
        if job.id in self._running or not await self._ownership.dead({job.owner}):
            return True
        return await self._is_served(job)

    async def lacks(self, job: JobRecord) -> Wait | None:
        """What the job of a dead process waits for: None where it has an owner, or continues in a moment."""
        if not job.is_open or job.id in self._running or not await self._ownership.dead({job.owner}):
            return None
        if await self._is_served(job):
            return await self._place_in_queue(job)
        if self._waits_for_client(job):
            return Wait("client", _CLIENT)
        if not self._settings(job):
            return self._keys(job)
        return Wait("keys", _SERVER) if self._queue else None

    async def lacks_keys(self, job: JobRecord) -> Wait | None:
        lacks = await self.lacks(job)
        return lacks if lacks and lacks.reason == "keys" else None

    async def _is_served(self, job: JobRecord) -> bool:
        """A server or worker of the team has the keys, or whatever else it needs."""
        if not self._queue:
            return False
        now = time.monotonic()
        self._served = {key: known for key, known in self._served.items() if now - known[0] < _FRESH}
        if job.id not in self._served:
            self._served[job.id] = (now, await self._queue.is_served(job.id))
        return self._served[job.id][1]

    async def _place_in_queue(self, job: JobRecord) -> Wait:
        if ahead := await self._store.earlier_jobs(job.id):
            return Wait("turn", behind(ahead[0]), job_id=ahead[0].id)
        return Wait("slot", "a free server or worker of the team")

    def _keys(self, job: JobRecord) -> Wait:
        names = self._callers.names(job.models)
        return Wait("keys", _needed_keys(names), names=tuple(names))


def job_of(adopted: AdoptedJob, settings: Settings) -> Job:
    """An adopted job as its new owner runs it."""
    record = adopted.record
    return Job(
        id=record.id,
        conversation=record.conversation,
        task=adopted.task,
        caller=adopted.origin.caller(settings),
        background=record.background,
        created=record.created,
        key=record.key,
        attempt=record.attempt,
        members=Members(set(record.cancelled_members)),
        request=adopted.origin.request,
        is_adopted=True,
    )


def _can_open() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _too_old(job: JobRecord) -> bool:
    return time.time() - job.created > job.keep_days * 86400


# ── messages ────────────────────────────────────────────────────────────────────────────

_CLIENT = "its interrupted client to reconnect; it is given up after a minute"
_SERVER = "a running server or worker of the team with its keys, and with the agents, MCP servers and folder that it needs"


def _needed_keys(names: Sequence[str]) -> str:
    """What a job waits for whose process died, as a person can bring it. `names`: variables that hold its keys."""
    if list(names) == ["COUNSEL_LOCAL_API_KEY"]:
        return "the embedded model, which the console starts: run `counsel console`, or ask again"
    where = (
        f"where {' and '.join(names)} {'is' if len(names) == 1 else 'are'} set" if names else "it came from"
    )
    return f"a client with the same keys: run counsel in the shell {where}"


def behind(job: JobRecord) -> str:
    return f"its turn: job {job.id} of this conversation comes first"


def waits(job: JobRecord, lacks: Wait | None = None) -> ProviderUnavailable:
    waits_for = lacks.text if lacks else "the keys that it was asked with"
    return ProviderUnavailable(
        f"Job {job.id} was interrupted and waits for {waits_for}.",
        hint="It continues when a client with the same environment connects, or when COUNSEL_HOME/.env has the keys.",
        job_id=job.id,
    )


def blocked(job: JobRecord, lacks: Wait | None) -> Conflict:
    return Conflict(
        f"Job {job.id} of this conversation comes first. It was interrupted and waits for {lacks.text if lacks else 'its keys'}.",
        hint=f"`counsel cancel {job.id}` (or cancel_job) lets the conversation continue without it. Nothing was sent.",
        waits_for=job.id,
    )


def _keyless(job: JobRecord) -> ProviderUnavailable:
    return ProviderUnavailable(
        f"Job {job.id} was interrupted, and no client with its keys connected for {job.keep_days} days.",
        hint="Ask again. With keys in COUNSEL_HOME/.env, interrupted jobs continue by themselves.",
    )


def _stuck(job: JobRecord) -> Internal:
    return Internal(
        f"Job {job.id} was interrupted {job.stuck} times without making progress.",
        hint="Ask again; `counsel doctor` and the logs may show why the process ended.",
    )


def _abandoned(job: JobRecord) -> Cancelled:
    return Cancelled(
        f"Job {job.id} was interrupted and its client did not reconnect.",
        hint="Ask again, or set COUNSEL_KEEP_ABANDONED to let such calls continue.",
    )

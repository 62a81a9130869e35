"""Jobs whose process died: continue them, give them up, or say what they wait for."""

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
_STUCK = 25  # consecutive attempts that sent calls and finished none
# The numbers of each attempt's events begin here: a follower may have seen unstored events of a killed process, and
# must not mistake the next process's events for those.
EVENTS_PER_ATTEMPT = 1_000_000
_CLIENT_SECONDS = 60.0  # after which an interrupted synchronous call is given up
_FRESH = 0.5  # seconds for which an answer about which server has a job's keys is reused


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
        orphan_event: asyncio.Event,
    ) -> None:
        self._store = store
        self._home = home
        self._ownership = ownership
        self._callers = callers
        self._running = running
        self._start = start
        self._orphan_event = orphan_event
        # in a team, workers take the jobs of dead processes from there
        self._queue = store.team.queue if store.team else None
        # by interrupted call whose client may come back: when it was found
        self._interrupted_since: dict[str, float] = {}
        self._served: dict[str, tuple[float, bool]] = {}  # by job: when it was read, and whether it is served

    async def look(self, only: str | None = None) -> None:
        """Continue jobs whose process died, if their keys are here.

        It does nothing while no file can be opened: a process that cannot open a connection leaves jobs to others.

        `only`: a client sends this job's call again, so the job need not wait for its client any longer.
        """
        if not _can_open():
            return
        if self._queue:
            await self._continue_unqueued(self._queue)
            return
        for job in await self._orphans(only):
            if job.cancel:
                await self.give_up(job, "cancelled", Cancelled(f"Job {job.id} was cancelled."))
            elif job.stuck >= _STUCK:
                await self.give_up(job, "failed", _stuck_error(job))
            elif self._waits_for_client(job) and not only:
                await self._decide(job)
            elif settings := self._settings(job):
                await self._take_over(job, settings)
            elif _too_old(job):
                await self.give_up(job, "failed", _keyless_error(job))

    async def _continue_unqueued(self, queue: Queue) -> None:
        """Put jobs of dead owners into the queue if they are missing there, and end those that can only be ended."""
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
                await self.give_up(job, "failed", _keyless_error(job))

    async def take(self, job: JobRecord) -> bool:
        """Continue or end a job that a worker has taken from the queue. False: its keys are not here."""
        if job.cancel:
            await self.give_up(job, "cancelled", Cancelled(f"Job {job.id} was cancelled."))
        elif job.stuck >= _STUCK:
            await self.give_up(job, "failed", _stuck_error(job))
        elif settings := self._settings(job):
            await self._take_over(job, settings)
        elif _too_old(job):
            await self.give_up(job, "failed", _keyless_error(job))
        else:
            return False
        return True

    async def actionable(self) -> bool:
        """Whether this process can do more for a job of a dead process than wait for its keys."""
        if self._queue:
            return False  # other servers can do it
        return any(
            job.cancel or job.stuck >= _STUCK or not job.background or self._settings(job) or _too_old(job)
            for job in await self._orphans()
        )

    async def _orphans(self, only: str | None = None) -> list[JobRecord]:
        candidates = [
            job
            for job in await self._store.open_jobs()
            if job.id not in self._running and only in {None, job.id}
        ]
        if not candidates:
            return []
        dead = await self._ownership.dead({job.owner for job in candidates})
        return [job for job in candidates if job.owner in dead]

    def _settings(self, job: JobRecord) -> Settings | None:
        """The job's keys, if they are here. A kind of job that this release does not know is left to newer ones."""
        return self._callers.find(job.fingerprint) if job.tool in TOOLS else None

    def _waits_for_client(self, job: JobRecord) -> bool:
        if job.background or self._queue:  # a team's client may wait at any server
            return False
        settings = self._callers.find(job.fingerprint)
        return not (settings and settings.keep_abandoned)

    async def _decide(self, job: JobRecord) -> None:
        """An interrupted call whose client has not reconnected: continue it, give it up, or wait a while longer."""
        if pending_calls.take(self._home, job.id):
            await self._detach(job)
        elif self._client_is_gone(job):
            if await self._store.has_replies(job.id):  # they have been paid for
                await self._detach(job)
            else:
                await self.give_up(job, "cancelled", _abandoned_error(job))

    async def _detach(self, job: JobRecord) -> None:
        await self._store.detach(job.id)
        self._orphan_event.set()  # the next round continues it

    def _client_is_gone(self, job: JobRecord) -> bool:
        """Whether the client did not come back in time, counted from when this engine found the call."""
        since = self._interrupted_since.setdefault(job.id, time.monotonic())
        return time.monotonic() - since >= _CLIENT_SECONDS

    async def _take_over(self, job: JobRecord, settings: Settings) -> None:
        self._interrupted_since.pop(job.id, None)
        if pending_calls.take(self._home, job.id):
            # its front asked that it continues even if no client waits
            await self._store.detach(job.id)
        adopted_job = await self._store.adopt(job.id, job.owner, self._ownership.name)
        if adopted_job:
            log.info("continuing %s (attempt %s)", job.id, adopted_job.record.attempt)
            attempt = adopted_job.record.attempt
            seq = max(await self._store.last_seq(job.id), (attempt - 1) * EVENTS_PER_ATTEMPT)
            self._start(job_of(adopted_job, settings), seq)

    async def give_up(self, job: JobRecord, status: Status, error: CounselError) -> None:
        """End a job that no process runs. Its finished answers are kept."""
        self._interrupted_since.pop(job.id, None)
        adopted_job = await self._store.adopt(job.id, job.owner, self._ownership.name)
        if adopted_job is None:
            return
        fence = Fence(job.id, self._ownership.name, adopted_job.record.attempt)
        stopped_job = job_of(adopted_job, Settings())
        end = JobStopped(
            status=status,
            error=error.copy(),
            turn=partial.turn(stopped_job, status),
            task=stopped_job.task_without_messages(),
        )
        with contextlib.suppress(LostJob):
            await self._store.finish(fence, end)

    # ── what a job waits for ─────────────────────────────────────────────────────────────────────────

    async def has_owner(self, job: JobRecord) -> bool:
        """Whether a process runs it, or a server of the team will."""
        if job.id in self._running or not await self._ownership.dead({job.owner}):
            return True
        return await self._is_served(job)

    async def missing(self, job: JobRecord) -> Wait | None:
        """What the job of a dead process waits for. None: it has an owner, or continues in a moment."""
        if not job.is_open or job.id in self._running or not await self._ownership.dead({job.owner}):
            return None
        if await self._is_served(job):
            return await self._place_in_queue(job)
        if self._waits_for_client(job):
            return Wait("client", _CLIENT)
        if not self._settings(job):
            return self._keys(job)
        return Wait("keys", _SERVER) if self._queue else None

    async def missing_keys(self, job: JobRecord) -> Wait | None:
        missing = await self.missing(job)
        return missing if missing and missing.reason == "keys" else None

    async def _is_served(self, job: JobRecord) -> bool:
        """Whether a server or worker of the team has everything that the job needs, such as its keys."""
        if not self._queue:
            return False
        now = time.monotonic()
        self._served = {key: entry for key, entry in self._served.items() if now - entry[0] < _FRESH}
        if job.id not in self._served:
            self._served[job.id] = (now, await self._queue.is_served(job.id))
        return self._served[job.id][1]

    async def _place_in_queue(self, job: JobRecord) -> Wait:
        if ahead := await self._store.earlier_jobs(job.id):
            return Wait("turn", earlier_turn(ahead[0]), job_id=ahead[0].id)
        return Wait("slot", "a free server or worker of the team")

    def _keys(self, job: JobRecord) -> Wait:
        names = self._callers.names(job.models)
        return Wait("keys", _needed_keys(names), names=tuple(names))


def job_of(adopted_job: AdoptedJob, settings: Settings) -> Job:
    """An adopted job, for its new owner to run."""
    record = adopted_job.record
    return Job(
        id=record.id,
        conversation=record.conversation,
        task=adopted_job.task,
        caller=adopted_job.origin.caller(settings),
        background=record.background,
        created=record.created,
        key=record.key,
        attempt=record.attempt,
        members=Members(set(record.cancelled_members)),
        request=adopted_job.origin.request,
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
    """How a person can provide the keys of a job whose process died. `names`: the variables that hold them."""
    if list(names) == ["COUNSEL_LOCAL_API_KEY"]:
        return "the embedded model, which the console starts: run `counsel console`, or ask again"
    where = (
        f"where {' and '.join(names)} {'is' if len(names) == 1 else 'are'} set" if names else "it came from"
    )
    return f"a client with the same keys: run counsel in the shell {where}"


def earlier_turn(job: JobRecord) -> str:
    return f"its turn: job {job.id} of this conversation comes first"


def waiting_error(job: JobRecord, missing: Wait | None = None) -> ProviderUnavailable:
    condition = missing.text if missing else "the keys that it was asked with"
    return ProviderUnavailable(
        f"Job {job.id} was interrupted and waits for {condition}.",
        hint="It continues when a client with the same environment connects, or when COUNSEL_HOME/.env has the keys.",
        job_id=job.id,
    )


def blocked_error(job: JobRecord, missing: Wait | None) -> Conflict:
    condition = missing.text if missing else "its keys"
    return Conflict(
        f"Job {job.id} of this conversation comes first. It was interrupted and waits for {condition}.",
        hint=f"`counsel cancel {job.id}` (or cancel_job) lets the conversation continue without it. Nothing was sent.",
        waits_for=job.id,
    )


def _keyless_error(job: JobRecord) -> ProviderUnavailable:
    return ProviderUnavailable(
        f"Job {job.id} was interrupted, and no client with its keys connected for {job.keep_days} days.",
        hint="Ask again. With keys in COUNSEL_HOME/.env, interrupted jobs continue by themselves.",
    )


def _stuck_error(job: JobRecord) -> Internal:
    return Internal(
        f"Job {job.id} was interrupted {job.stuck} times without making progress.",
        hint="Ask again; `counsel doctor` and the logs may show why the process ended.",
    )


def _abandoned_error(job: JobRecord) -> Cancelled:
    return Cancelled(
        f"Job {job.id} was interrupted and its client did not reconnect.",
        hint="Ask again, or set COUNSEL_KEEP_ABANDONED to let such calls continue.",
    )

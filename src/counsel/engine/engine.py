"""The engine: everything is a job.

A call becomes a job with an id; the job appends events; the reply is a fold over them. Jobs belong to the engine
that runs them and are written down as they go, so that another engine can continue them after a crash.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from counsel import pending_calls, resource_errors
from counsel.caller import Caller
from counsel.engine import readiness, results
from counsel.engine.consult.budget import Budgets
from counsel.engine.consult.cache import AnswerCache
from counsel.engine.consult.consensus import members, terms
from counsel.engine.consult.limiter import Limiter
from counsel.engine.consult.routes import Router
from counsel.engine.history import timeline
from counsel.engine.history import usage as usage_records
from counsel.engine.history.archive import Archive
from counsel.engine.history.documents import BudgetReport, By, UsageSeries, UsageSummary
from counsel.engine.history.titles import SUMMARY_LENGTH, Summariser, snippet
from counsel.engine.jobs import call_keys, changes, intake, partial, recovery, replay
from counsel.engine.jobs.callers import Secret, SharedSecret
from counsel.engine.jobs.event_queue import Push
from counsel.engine.jobs.model import Job
from counsel.engine.jobs.owners import FileOwners, Owners
from counsel.engine.jobs.runner import Runner
from counsel.engine.jobs.running import Running
from counsel.engine.store import open_store
from counsel.engine.store.protocol import McpSessions, Store, Uploads
from counsel.engine.store.records import JobDetail, JobFilter, JobRecord
from counsel.errors import Conflict, NotFound
from counsel.job_events import LAST_EVENTS, JobEvent, Wait
from counsel.lazy_dataclass import replace
from counsel.models.transport import Transport
from counsel.people import Person
from counsel.requests import SEVERAL, CompletionRequest, NewKey, Request
from counsel.results import Accepted, Cancellation, JobList, JobStatus, JobSummary, Result
from counsel.results.parts import labels
from counsel.settings import Settings
from counsel.settings import load as load_settings

if TYPE_CHECKING:
    from counsel.engine.team.audit import Audit

log = logging.getLogger("counsel.engine")
_POLL = 0.1  # seconds between looks at a job that another process runs, and at whether that lives
_KEYLESS = 10.0  # seconds that an interrupted job waits for a process that can continue it
_SUMMARY_WAIT = 2.0  # seconds that a synchronous call waits for its summary
_SUMMARY_PAUSE = 60.0  # seconds without waiting for a summariser that was late


async def open_engine(home: Path | None = None, *, takes_jobs: bool = True) -> Engine:
    """An engine on COUNSEL_HOME. Several may share it: they share one database."""
    engine = Engine(home or load_settings().home)
    try:
        await engine.open(takes_jobs=takes_jobs)
    except BaseException:
        await engine.store.close()
        raise
    return engine


class Engine:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = open_store(home)
        self.router = Router(Transport())
        ownership = _owners(self.store, home)
        self._secret = SharedSecret() if self.store.team else Secret(home)
        self.budgets = Budgets(self.store, ownership)
        self.summariser = Summariser(self.router, self.store, self.budgets)
        self.runner = Runner(
            self.store,
            home,
            self.router,
            limiter=Limiter(),
            cache=AnswerCache(self.store),
            summariser=self.summariser,
            ownership=ownership,
            secret=self._secret,
            budgets=self.budgets,
        )
        self.archive = Archive(home, self.store)
        self._summaries_late = 0.0  # no waiting for summaries until then

    async def open(self, *, takes_jobs: bool = True) -> None:
        """Begin to work. `takes_jobs`: also on what other processes of a team were asked. In a team the database must be usable: raises `ConfigInvalid` or `StoreError`."""
        if self.store.team:
            self._secret.value = await self.store.team.secret()
            await self.runner.ownership.begin()
            from counsel.engine.team import opening

            self.runner.queue = await opening.open_queue(
                self.runner, self.store, self.store.team, self.home, takes_jobs=takes_jobs
            )
        self.runner.start()

    async def drain(self, seconds: float) -> None:
        """Before `close`: take no more jobs of a team, and let those that run end, at most so long."""
        await self.runner.drain(seconds)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────

    def register_caller(self, caller: Caller) -> None:
        """A caller is here with its keys: jobs that waited for them may continue."""
        self.runner.register_caller(caller)

    async def submit(
        self,
        request: Request | CompletionRequest,
        caller: Caller,
        *,
        background: bool = False,
        key: str | None = None,
    ) -> str:
        """Check the request, write the job down, start it; the job's id. The same `key` gives the same job."""
        self.runner.register_caller(caller)
        if key and (known := await self._job_of(key)):
            await self.runner.look_for_orphans(only=known)
            if self.runner.queue:
                self.runner.queue.offered(known)  # the server that was asked first may be gone
            return known
        try:
            arrival = await intake.receive(
                request, caller, self.router, self.store, background=background, key=key
            )
            return await self.runner.begin(arrival)
        except (OSError, MemoryError, RuntimeError) as error:  # RuntimeError: "can't start new thread"
            if lack := resource_errors.failure(error, "The question could not be taken"):
                raise lack from error
            raise

    def for_person(self, person: Person, token: str = "", address: str = "") -> Engine:
        """This engine as a person of the team sees it: jobs and conversations of others do not exist there.

        `token`, `address`: of the request, for the audit log.
        """
        from counsel.engine.team.people.view import PersonEngine  # which imports this module

        return PersonEngine(self, person, token, address)

    def for_machine(self) -> Engine:
        """This engine for its own machine's socket, commands and programs: without the work of a team's people."""
        if not self.is_team:
            return self
        from counsel.engine.team.people.scoped_engine import MachineEngine

        return MachineEngine(self)

    @cached_property
    def audit(self) -> Audit:
        """The audit log of a team."""
        from counsel.engine.team.audit import Audit

        settings = load_settings({**os.environ, "COUNSEL_HOME": str(self.home)})
        return Audit(self.store.audit, settings.audit_days, prompts=settings.audit_prompts)

    @property
    def is_team(self) -> bool:
        """Several people use it, so interfaces ask for `for_person`."""
        return self.store.team is not None

    def _running(self, job_id: str) -> Running | None:
        """The job, if it runs here and the caller may know of it."""
        return self.runner.running.get(job_id)

    def _ended(self, job_id: str) -> Running | None:
        return self.runner.ended.get(job_id)

    async def _job_of(self, key: str) -> str | None:
        if known := self.runner.keys.get(key):
            return known
        return None if isinstance(key, NewKey) else await self.store.job_with_key(key)

    async def keys_like(self, prefix: str) -> list[str]:
        """The keys that begin so, of all jobs that are stored or run here."""
        running = [key for key in self.runner.keys if key.startswith(prefix)]
        return [*running, *await self.store.keys_like(prefix)]

    async def open_calls(self, prefix: str) -> list[JobRecord]:
        """Unfinished jobs whose keys begin so, of all servers."""
        jobs = [await self.store.job(pending_calls.job_id(key)) for key in await self.keys_like(prefix)]
        return [job for job in jobs if job is not None and job.is_open]

    @property
    def mcp_sessions(self) -> McpSessions | None:
        """Of several servers; None where each keeps its own in memory."""
        return self.store.mcp_sessions

    @property
    def uploads(self) -> Uploads | None:
        """Of several servers; None where they are files of COUNSEL_HOME."""
        return self.store.uploads

    async def wait(self, job_id: str) -> Result:
        """The finished job's result, or its failure raised."""
        if running := self._running(job_id) or self._ended(job_id):
            await running.ended()
            if running.result is not None:
                return await self._with_summary(running, running.result)
            if running.failure is not None:
                raise running.failure.copy()
        deadline = time.monotonic() + _KEYLESS
        while True:
            mark = self.store.mark(job_id)
            job = await self._job(job_id)
            if job.result is not None:
                return job.result
            if job.error is not None:
                raise job.error
            if await self.runner.recovery.has_owner(job):
                deadline = time.monotonic() + _KEYLESS
            elif time.monotonic() > deadline:
                raise recovery.waiting_error(job, await self.runner.recovery.missing_keys(job))
            else:  # its process may have died only after the call came back here (seen on a loaded machine)
                await self.runner.look_for_orphans(only=job_id)
            await self.store.wait_for_change(job_id, mark, _POLL)

    async def _with_summary(self, running: Running, result: Result) -> Result:
        if running.summary:
            coming = {task for task in (running.titling, running.summary) if task}
            late = time.monotonic() < self._summaries_late
            _, missing = await asyncio.wait(coming, timeout=0 if late else _SUMMARY_WAIT)
            if missing and not late:
                self._summaries_late = time.monotonic() + _SUMMARY_PAUSE
            result = replace(result, title=running.title, final_summary=_summary(running, result))
        return result

    async def follow(self, job_id: str, after: int = 0, push: Push | None = None) -> AsyncIterator[JobEvent]:
        """Events from `after` on: those that were, then those that come, until the job ends.

        What `push` takes of a job that runs here is not yielded.
        """
        if running := self._running(job_id):
            async for event in running.live.follow(push):
                yield event
                if isinstance(event, LAST_EVENTS):
                    return
            after = 0  # another process has taken the job, and replays it from its start
        async for event in replay.follow(self.store, lambda: self._job(job_id), job_id, after):
            yield event

    async def accepted(self, job_id: str) -> Accepted:
        """What a background call answers at once."""
        if running := self._running(job_id):
            job = running.job
            return results.accepted(job, self._shown_models(job))
        return results.accepted_before(await self._job(job_id))

    async def detach(self, job_id: str) -> None:
        """The caller no longer waits; the job continues like a background call."""
        if running := self._running(job_id):
            running.job.background = True
        await self.store.detach(job_id)

    def _shown_models(self, job: Job) -> list[str]:
        """`openai/gpt-5` for one; plain names for several, as converse does."""
        if job.tool in SEVERAL or job.task.models[0].lower() == "auto" or "," in job.task.models[0]:
            return list(job.task.models)
        route = self.router.route(job.task.models[0], job.caller)
        return [
            route.provider
            if route.is_agent
            else f"{route.provider}/{route.name.removeprefix(route.provider + '/')}"
        ]

    async def events(self, job_id: str) -> AsyncIterator[JobEvent]:
        """All events from the job's start, those of earlier attempts included, then new ones until it ends."""
        if running := self._running(job_id):
            running.live.is_resumable = True
            for event in await self.store.events(job_id, 0):
                if event.seq > running.live.began:
                    break
                yield event
        async for event in self.follow(job_id):
            yield event

    async def timeline(self, any_id: str) -> dict[str, object]:
        """When what happened to a job: `timeline.Timeline`."""
        job = await self._find(any_id)
        events = await self.store.events(job.id, 0)
        first: dict[str, float] = {}
        if running := self._running(job.id):
            live = running.live
            events = [*(event for event in events if event.seq <= live.began), *live.events]
            first = {name: slot.first for name, slot in live.slots.items() if slot.first}
        return timeline.of(job, events, first)

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────

    async def status(self, any_id: str, *, full_history: bool = False) -> JobStatus:
        job = await self._find(any_id)
        running = self._running(job.id)
        history = await self.store.messages(job.conversation) if full_history else None
        if running and job.is_open:
            models = results.states(running.live)
        else:
            models = await replay.states(self.store, job) if job.result is None else []
        if any(state.phase == "refined" for state in models):
            models = partial.with_first(models, await self.store.replies(job.id))
        summarised = running if running and running.job.caller.settings.summaries else None
        return results.status(
            job,
            models,
            history=history,
            waiting_for=await self._waiting(job),
            summary_so_far=self.runner.describer.so_far(summarised) if summarised else None,
        )

    async def question(self, job_id: str) -> dict[str, object]:
        """What was asked."""
        task = await self.store.task(job_id)
        if task is None:
            raise _unknown(job_id)
        effort = {"reasoning_effort": task.reasoning_effort} if task.reasoning_effort else {}
        return {
            "prompt": task.prompt,
            "models": list(task.models),
            "files": list(task.files),
            "images": len(task.images),
            "enable_cross_feedback": task.cross_feedback,
            "use_websearch": task.use_websearch,
            **effort,
            **terms.requested(task),
        }

    async def completion(self, job_id: str) -> tuple[CompletionRequest, JobDetail]:
        """A completion whose request is stored, and its job."""
        await self.store.flush()
        job, task = await self._job(job_id), await self.store.task(job_id)
        if task is None or task.completion is None:
            raise _unknown(job_id)
        return task.completion, job

    async def _waiting(self, job: JobRecord) -> Wait | None:
        """What an unfinished job waits for: keys, its client, its turn, a free slot, a retry."""
        if not job.is_open:
            return None
        if running := self._running(job.id):
            return running.live.waits_for()
        return await self.runner.recovery.missing(job) or await self.store.waiting(job.id)

    async def recent(self, limit: int = 10) -> JobList:
        return JobList(await self._summaries(await self.store.recent_jobs(limit)))

    async def _summaries(self, jobs: Sequence[JobRecord]) -> tuple[JobSummary, ...]:
        outcomes = await self.store.outcomes([job.id for job in jobs if not job.is_open])
        return tuple([results.summary(job, await self._waiting(job), outcomes.get(job.id)) for job in jobs])

    async def jobs(
        self, limit: int, chosen: JobFilter, cursor: str | None = None
    ) -> tuple[JobList, str | None]:
        """A page of the list of jobs, newest first, and the cursor of the next one."""
        await self.store.flush()  # a job may have begun a moment ago and be on its way to the disk
        page = await self.store.jobs_page(limit, chosen, cursor)
        return JobList(await self._summaries(page.rows)), page.next

    def job_changes(self, newest: int) -> AsyncIterator[changes.JobChanges]:
        """The newest jobs, then jobs that are new, changed or deleted, in whatever process; without an end."""
        return changes.follow(self.store, self._summaries, newest)

    async def delete(self, job_id: str) -> None:
        """Delete a job that has ended. Its turn stays in its conversation."""
        job = await self._job(job_id)
        if job.is_open:
            raise Conflict(f"{job_id} is still running.", hint="Cancel it first, or wait for it.")
        self.runner.ended.pop(job_id, None)
        await self.store.delete_job(job_id)

    async def busy(self) -> bool:
        """A job runs here, or one of a process that has died can continue or be ended here.

        Not one that waits for keys: the client that has them starts a daemon that finds it.
        """
        return await self.runner.busy()

    async def usage(self, since: float, by: By) -> UsageSummary:
        await self.store.flush()  # of a job that has ended a moment ago, too
        return await usage_records.summary(self.store, since, by)

    async def budget_report(self, settings: Settings) -> list[BudgetReport]:
        """What is left of each budget."""
        await self.store.flush()
        return await self.archive.budgets(settings)

    async def usage_series(self, since: float, until: float, by: By, buckets: int) -> UsageSeries:
        await self.store.flush()
        return await usage_records.series(self.store, since, until, by, buckets)

    async def metrics_text(self, *, people: bool = False) -> str:
        """For Prometheus. `people`: also by person."""
        from counsel.engine.history import prometheus  # few servers are asked for it

        load = prometheus.Load(self.runner.limiter.calls, len(self.runner.running), people)
        return await prometheus.text(self.store, load)

    async def not_ready(self, queue_seconds: int) -> list[readiness.Reason]:
        """Why this process should get no work; empty: it should. A job may wait so long in the queue (0: any time)."""
        return await readiness.not_ready(self.store, queue_seconds, draining=self.runner.closing)

    # ── stopping ─────────────────────────────────────────────────────────────────────────────────────

    async def _slot(self, job: JobRecord, member: str) -> str:
        task = await self.store.task(job.id)
        return members.slot_of(job.models, member, task.judge if task else None)

    async def cancel(self, any_id: str, member: str | None = None) -> Cancellation:
        """Stop exactly this job and its upstream calls, or only one model of a consensus (by name or slot)."""
        job = await self._find(any_id, running_only=True)
        slot = None if member is None else await self._slot(job, member)
        if not job.is_open:
            return results.ended_before(job)
        if slot is not None:
            await self.runner.cancel_member(job.id, slot)
            if (await self._job(job.id)).is_open:
                label = slot if slot == call_keys.JUDGE else labels(job.models)[int(slot)]
                return results.member_cancelled(job, slot, label)
        else:
            await self.runner.cancel(job.id)
        now = await self._job(job.id)
        if now.status != "cancelled":
            return results.ended_before(now)
        return results.cancelled(job)

    def home_is_ours(self) -> bool:
        """False when COUNSEL_HOME was deleted, moved or replaced: it is not the folder that was opened here."""
        return self.store.is_home()

    async def close(self, *, keep: bool = False) -> None:
        """Stop what runs here, leaving the database so that it continues elsewhere.

        `keep`: synchronous calls continue, too, as soon as an engine runs again, whether or not their callers come back.
        """
        await self.runner.close(keep=keep)
        await self.router.close()
        await self.store.close()

    # ── finding ──────────────────────────────────────────────────────────────────────────────────────

    async def _job(self, job_id: str) -> JobDetail:
        job = await self.store.job(job_id)
        if job is None:
            raise _unknown(job_id)
        return job

    async def _find(self, any_id: str, *, running_only: bool = False) -> JobDetail:
        """A job by its own id, or by its conversation's: the one that runs there, else the newest."""
        if self._running(any_id):  # it may have begun a moment ago and be on its way to the disk
            await self.store.flush()
        if job := await self.store.job(any_id):
            return job
        running = await self.store.open_jobs(any_id)
        if running_only and len(running) > 1:
            names = ", ".join(job.id for job in running)
            raise Conflict(
                f"{len(running)} jobs run on {any_id}: {names}.",
                hint="Name the one that you mean by its job_id.",
            )
        if running:
            return await self._job(running[-1].id)
        if newest := await self.store.newest_job(any_id):
            return newest
        raise _unknown(any_id)


def _owners(store: Store, home: Path) -> Owners:
    if store.team is None:
        return FileOwners(home / "run" / "owners")
    from counsel.engine.team import opening

    return opening.owners(store.team)


def _unknown(any_id: str) -> NotFound:
    return NotFound(
        f"There is no job {any_id[:80]}.",
        hint="It may be mistyped or expired; check_status without an id (or `counsel jobs`) lists the newest.",
    )


def _summary(running: Running, result: Result) -> str:
    """By the model, if it has come; else the beginning of the answer."""
    made = running.summary
    if made and made.done() and not made.cancelled() and not made.exception():
        return made.result()
    return snippet(result.content, SUMMARY_LENGTH)

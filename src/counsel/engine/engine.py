"""The engine: everything is a job.

A call becomes a job with an id; the job appends events; the reply is a fold over them. A job belongs to the engine
that runs it and is stored as it proceeds, so that another engine can continue it after a crash.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
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
_POLL = 0.1  # seconds between checks of a job in another process, and of whether that process is alive
_RECOVERY_WAIT = 10.0  # seconds that an interrupted job waits for a process that can continue it
_SUMMARY_WAIT = 2.0  # seconds that a synchronous call waits for its summary
_SUMMARY_PAUSE = 60.0  # seconds in which calls do not wait for a summariser that was late


async def open_engine(home: Path | None = None, *, takes_jobs: bool = True) -> Engine:
    """An open engine on COUNSEL_HOME. Several engines can share that folder and its database."""
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
        self._summaries_late = 0.0  # calls do not wait for summaries before this time

    async def open(self, *, takes_jobs: bool = True) -> None:
        """Start to run jobs. `takes_jobs`: also those that other processes of a team received.

        A team's database must be usable: raises `ConfigInvalid` or `StoreError`.
        """
        if self.store.team:
            self._secret.value = await self.store.team.secret()
            await self.runner.ownership.begin()
            from counsel.engine.team import opening

            self.runner.queue = await opening.open_queue(
                self.runner, self.store, self.store.team, self.home, takes_jobs=takes_jobs
            )
        self.runner.start()

    async def drain(self, seconds: float) -> None:
        """Before `close`: take no more of the team's jobs, and give running jobs this long to finish."""
        await self.runner.drain(seconds)

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────

    def register_caller(self, caller: Caller) -> None:
        """Make a caller's keys available: jobs that wait for them can continue."""
        self.runner.register_caller(caller)

    async def submit(
        self,
        request: Request | CompletionRequest,
        caller: Caller,
        *,
        background: bool = False,
        key: str | None = None,
    ) -> str:
        """Check the request, store its job, start it, and return its id. The same `key` returns the same job."""
        self.runner.register_caller(caller)
        if key and (job_id := await self._job_of(key)):
            await self.runner.look_for_orphans(only=job_id)
            if self.runner.queue:
                self.runner.queue.offered(job_id)  # the server that received it first may be gone
            return job_id
        try:
            arrival = await intake.receive(
                request, caller, self.router, self.store, background=background, key=key
            )
            return await self.runner.begin(arrival)
        except (OSError, MemoryError, RuntimeError) as error:  # RuntimeError: "can't start new thread"
            if failure := resource_errors.failure(error, "The question could not be accepted"):
                raise failure from error
            raise

    def for_person(self, person: Person, token: str = "", address: str = "") -> Engine:
        """This engine as one person of the team sees it: without the jobs and conversations of others.

        `token` and `address` are the request's, for the audit log.
        """
        from counsel.engine.team.people.view import PersonEngine  # imports this module

        return PersonEngine(self, person, token, address)

    def for_machine(self) -> Engine:
        """This engine for its machine's own socket, commands and programs: without the jobs of a team's people."""
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
        """Whether several people use this engine; interfaces then use `for_person`."""
        return self.store.team is not None

    def _running(self, job_id: str) -> Running | None:
        """The job, if it runs here and this view of the engine includes it."""
        return self.runner.running.get(job_id)

    def _ended(self, job_id: str) -> Running | None:
        return self.runner.ended.get(job_id)

    async def _job_of(self, key: str) -> str | None:
        if job_id := self.runner.keys.get(key):
            return job_id
        return None if isinstance(key, NewKey) else await self.store.job_with_key(key)

    async def keys_like(self, prefix: str) -> list[str]:
        """The keys with this prefix, of all jobs that are stored or run here."""
        running = [key for key in self.runner.keys if key.startswith(prefix)]
        return [*running, *await self.store.keys_like(prefix)]

    async def open_calls(self, prefix: str) -> list[JobRecord]:
        """Unfinished jobs of all servers whose keys have this prefix."""
        jobs = [await self.store.job(pending_calls.job_id(key)) for key in await self.keys_like(prefix)]
        return [job for job in jobs if job is not None and job.is_open]

    @property
    def mcp_sessions(self) -> McpSessions | None:
        """The sessions that several servers share; None where each keeps its own in memory."""
        return self.store.mcp_sessions

    @property
    def uploads(self) -> Uploads | None:
        """The uploads that several servers share; None where they are files in COUNSEL_HOME."""
        return self.store.uploads

    async def wait(self, job_id: str) -> Result:
        """Wait for the job to end; return its result, or raise its failure."""
        if running := self._running(job_id) or self._ended(job_id):
            await running.ended()
            if running.result is not None:
                if running.summary:
                    return await self._with_summary(running, running.result, running.summary)
                return running.result
            if running.failure is not None:
                raise running.failure.copy()
        deadline = time.monotonic() + _RECOVERY_WAIT
        while True:
            mark = self.store.mark(job_id)
            job = await self._job(job_id)
            if job.result is not None:
                return job.result
            if job.error is not None:
                raise job.error
            if await self.runner.recovery.has_owner(job):
                deadline = time.monotonic() + _RECOVERY_WAIT
            elif time.monotonic() > deadline:
                raise recovery.waiting_error(job, await self.runner.recovery.missing_keys(job))
            else:  # its process may have died after this wait began (seen on a loaded machine)
                await self.runner.look_for_orphans(only=job_id)
            await self.store.wait_for_change(job_id, mark, _POLL)

    async def _with_summary(self, running: Running, result: Result, summary: asyncio.Task[str]) -> Result:
        tasks = {task for task in (running.titling, summary) if task}
        late = time.monotonic() < self._summaries_late
        _, missing = await asyncio.wait(tasks, timeout=0 if late else _SUMMARY_WAIT)
        if missing and not late:
            self._summaries_late = time.monotonic() + _SUMMARY_PAUSE
        return replace(result, title=running.title, final_summary=_summary(running, result))

    async def follow(self, job_id: str, after: int = 0, push: Push | None = None) -> AsyncGenerator[JobEvent]:
        """Events after `after`: stored ones first, then new ones until the job ends.

        If the job runs here, events that `push` accepts are not yielded.
        """
        if running := self._running(job_id):
            async with aclosing(running.live.follow(push)) as events:
                async for event in events:
                    yield event
                    if isinstance(event, LAST_EVENTS):
                        return
            after = 0  # another process has taken the job over and replays it from its start
        async with aclosing(replay.follow(self.store, lambda: self._job(job_id), job_id, after)) as events:
            async for event in events:
                yield event

    async def accepted(self, job_id: str) -> Accepted:
        """The immediate answer of a background call."""
        if running := self._running(job_id):
            job = running.job
            return results.accepted(job, self._shown_models(job))
        return results.accepted_elsewhere(await self._job(job_id))

    async def detach(self, job_id: str) -> None:
        """The caller no longer waits; the job continues like a background call."""
        if running := self._running(job_id):
            running.job.background = True
        await self.store.detach(job_id)

    def _shown_models(self, job: Job) -> list[str]:
        """`openai/gpt-5` for one model; plain names for several, as `converse` shows them."""
        if job.tool in SEVERAL or job.task.models[0].lower() == "auto" or "," in job.task.models[0]:
            return list(job.task.models)
        route = self.router.route(job.task.models[0], job.caller)
        return [
            route.provider
            if route.is_agent
            else f"{route.provider}/{route.name.removeprefix(route.provider + '/')}"
        ]

    async def events(self, job_id: str) -> AsyncGenerator[JobEvent]:
        """All events since the job's start, including earlier attempts, then new ones until it ends."""
        if running := self._running(job_id):
            running.live.is_resumable = True
            for event in await self.store.events(job_id, 0):
                if event.seq > running.live.began:
                    break
                yield event
        async with aclosing(self.follow(job_id)) as events:
            async for event in events:
                yield event

    async def timeline(self, any_id: str) -> dict[str, object]:
        """What happened to a job and when: `timeline.Timeline`."""
        job = await self._find(any_id)
        events = await self.store.events(job.id, 0)
        first: dict[str, float] = {}
        if running := self._running(job.id):
            live = running.live
            events = [*(event for event in events if event.seq <= live.began), *live.events]
            first = {name: slot.first for name, slot in live.slots.items() if slot.first}
        return timeline.of(job, events, first)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────

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
        summary_source = running if running and running.job.caller.settings.summaries else None
        return results.status(
            job,
            models,
            history=history,
            waiting_for=await self._waiting(job),
            summary_so_far=self.runner.describer.summary_so_far(summary_source) if summary_source else None,
        )

    async def question(self, job_id: str) -> dict[str, object]:
        """The question and its options."""
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
        """A stored completion request, and its job."""
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
        self, limit: int, job_filter: JobFilter, cursor: str | None = None
    ) -> tuple[JobList, str | None]:
        """A page of the list of jobs, newest first, and the cursor of the next one."""
        await self.store.flush()  # a job that has just started may not be on disk yet
        page = await self.store.jobs_page(limit, job_filter, cursor)
        return JobList(await self._summaries(page.rows)), page.next

    def job_changes(self, newest: int) -> AsyncGenerator[changes.JobChanges]:
        """The newest jobs, then every job that any process adds, changes or deletes. Never ends."""
        return changes.follow(self.store, self._summaries, newest)

    async def delete(self, job_id: str) -> None:
        """Delete a job that has ended. Its turn stays in the conversation."""
        job = await self._job(job_id)
        if job.is_open:
            raise Conflict(f"{job_id} is still running.", hint="Cancel it first, or wait for it.")
        self.runner.ended.pop(job_id, None)
        await self.store.delete_job(job_id)

    async def busy(self) -> bool:
        """Whether a job runs here, or a dead process's job can be continued or ended here.

        Jobs that wait for keys do not count: the client that has the keys starts a daemon, which finds the job.
        """
        return await self.runner.busy()

    async def usage(self, since: float, by: By) -> UsageSummary:
        await self.store.flush()  # include a job that has just ended
        return await usage_records.summary(self.store, since, by)

    async def budget_report(self, settings: Settings) -> list[BudgetReport]:
        """What is left of each budget."""
        await self.store.flush()
        return await self.archive.budgets(settings)

    async def usage_series(self, since: float, until: float, by: By, buckets: int) -> UsageSeries:
        await self.store.flush()
        return await usage_records.series(self.store, since, until, by, buckets)

    async def metrics_text(self, *, people: bool = False) -> str:
        """Metrics in Prometheus's text format. `people`: also by person."""
        from counsel.engine.history import prometheus  # few servers need it

        load = prometheus.Load(self.runner.limiter.calls, len(self.runner.running), people)
        return await prometheus.text(self.store, load)

    async def not_ready(self, queue_seconds: int) -> list[readiness.Reason]:
        """Why this process should get no work; empty if it should.

        `queue_seconds`: the longest that a job may wait in the queue (0: no limit).
        """
        return await readiness.not_ready(self.store, queue_seconds, draining=self.runner.closing)

    # ── stopping ─────────────────────────────────────────────────────────────────────────────────────

    async def _slot(self, job: JobRecord, member: str) -> str:
        task = await self.store.task(job.id)
        return members.slot_of(job.models, member, task.judge if task else None)

    async def cancel(self, any_id: str, member: str | None = None) -> Cancellation:
        """Stop this job and its upstream calls, or only one model of a consensus (by name or slot)."""
        job = await self._find(any_id, running_only=True)
        slot = None if member is None else await self._slot(job, member)
        if not job.is_open:
            return results.not_cancelled(job)
        if slot is not None:
            await self.runner.cancel_member(job.id, slot)
            if (await self._job(job.id)).is_open:
                label = slot if slot == call_keys.JUDGE else labels(job.models)[int(slot)]
                return results.member_cancelled(job, slot, label)
        else:
            await self.runner.cancel(job.id)
        now = await self._job(job.id)
        if now.status != "cancelled":
            return results.not_cancelled(now)
        return results.cancelled(job)

    def home_is_ours(self) -> bool:
        """False if COUNSEL_HOME was deleted, moved or replaced since this engine opened it."""
        return self.store.is_home()

    async def close(self, *, keep: bool = False) -> None:
        """Stop the jobs that run here; another engine can continue them from the database.

        `keep`: synchronous calls continue, too, when an engine runs again, whether or not their callers come back.
        """
        await self.runner.close(keep=keep)
        await self.router.close()
        await self.store.close()

    # ── lookup ───────────────────────────────────────────────────────────────────────────────────────

    async def _job(self, job_id: str) -> JobDetail:
        job = await self.store.job(job_id)
        if job is None:
            raise _unknown(job_id)
        return job

    async def _find(self, any_id: str, *, running_only: bool = False) -> JobDetail:
        """A job by its own id or its conversation's: there, the job that is running, else the newest."""
        if self._running(any_id):  # it may have just started and not be on disk yet
            await self.store.flush()
        if job := await self.store.job(any_id):
            return job
        running = await self.store.open_jobs(any_id)
        if running_only and len(running) > 1:
            names = ", ".join(job.id for job in running)
            raise Conflict(
                f"{len(running)} jobs are running in {any_id}: {names}.",
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
    """The model's summary if it has arrived, else the beginning of the answer."""
    task = running.summary
    if task and task.done() and not task.cancelled() and not task.exception():
        return task.result()
    return snippet(result.content, SUMMARY_LENGTH)

"""Running jobs: starting them, their turn in a conversation, their end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from counsel import pending_calls, resource_errors
from counsel.caller import Caller
from counsel.engine.consult import chat, consensus
from counsel.engine.consult.cache import AnswerCache
from counsel.engine.consult.call import Consultation
from counsel.engine.consult.limiter import Gate
from counsel.engine.consult.routes import Router
from counsel.engine.history import export, leftovers
from counsel.engine.history.summaries import Describer
from counsel.engine.history.titles import Summariser, title_of
from counsel.engine.jobs import ids, partial
from counsel.engine.jobs.callers import Keyring, Secret
from counsel.engine.jobs.events import Live
from counsel.engine.jobs.intake import Arrival
from counsel.engine.jobs.model import Job
from counsel.engine.jobs.outcome import Outcome
from counsel.engine.jobs.ownership import Ownership
from counsel.engine.jobs.recovery import Recovery
from counsel.engine.jobs.running import Running
from counsel.engine.jobs.turns import Turns
from counsel.engine.store.sqlite import backups, conversations, jobs, upkeep
from counsel.engine.store.sqlite.database import Database, StoreError, Work
from counsel.errors import Cancelled, CounselError, Internal
from counsel.settings import load as load_settings
from counsel.types import Json

log = logging.getLogger("counsel.runner")
_TICK = 0.2  # seconds: text to the journal, cancels from other processes
_ORPHANS = 2.0  # seconds between looks for jobs of dead processes
_LOOK = 2.0  # seconds between looks at the journal's file
_FIRST_UPKEEP = 5.0  # seconds
_SWEEP = 3600.0
_HEARD = 2.0  # seconds for another process to hear that a job shall stop
_ENDED = 64
_SMALL = 32_000  # characters of a turn that is written in a fraction of a millisecond
_KINDS = {"chat": chat.run, "askModel": chat.run, "consensus": consensus.run}


class Runner:
    def __init__(
        self,
        database: Database,
        router: Router,
        *,
        gate: Gate,
        cache: AnswerCache,
        summariser: Summariser,
        ownership: Ownership,
        secret: Secret,
    ) -> None:
        self.running: dict[str, Running] = {}
        self.ended: dict[str, Running] = {}  # the last ones of which the disk does not hold everything
        self.keys: dict[str, str] = {}  # of running jobs: the call's key → the job
        self.gate = gate
        self._database = database
        self._router = router
        self._cache = cache
        self.describer = Describer(database, summariser)
        self._ownership = ownership
        self._secret = secret
        self._keyring = Keyring(database.path.parent, secret.value)
        database.reinstate = self._reinstate
        database.busy = lambda: bool(self.running)
        self._unsaved: dict[str, Work[None]] = {}  # ends of jobs that could not be written yet
        self._loops: list[asyncio.Task[None]] = []
        self._wanted = asyncio.Event()
        self.recovery = Recovery(
            database,
            ownership,
            self._keyring,
            running=self.running,
            start=self._go_on,
            wanted=self._wanted,
        )
        self._turns = Turns(database, self._wanted, self.recovery.lacks_keys)
        self._closing = False

    # ── callers ──────────────────────────────────────────────────────────────────────────────────────

    def meet(self, caller: Caller) -> str:
        """The caller's fingerprint; someone new may hold the keys that an interrupted job waits for."""
        fingerprint, new = self._keyring.meet(caller)
        if new:
            self._wanted.set()
        return fingerprint

    # ── beginning ────────────────────────────────────────────────────────────────────────────────────

    async def begin(self, arrival: Arrival) -> str:
        """Write the job down and start it. Where nobody can mistake its place, the disk is not waited for."""
        job = arrival.job
        self.meet(job.caller)
        insert = self._insert(job)
        if arrival.pictures:
            await self._database.write(jobs.store_blobs(arrival.pictures))
        if job.key in self.keys:  # the same call, twice within a moment
            return self.keys[job.key]
        if (
            arrival.continues or job.background
        ):  # whoever asks may leave: what is written down is started, too
            await asyncio.shield(asyncio.ensure_future(self._start_written(arrival, insert)))
        else:
            self._start(job, arrival.continues).written = self._database.shortly(insert)
        return job.id

    def _insert(self, job: Job) -> Work[bool]:
        return jobs.insert(
            job,
            self._ownership.name,
            self._keyring.meet(job.caller)[0],
            expires=self._expires(job),
            keep_days=job.caller.settings.job_days,
            title=title_of(job.task.prompt),
        )

    def _reinstate(self) -> list[Work[Any]]:
        """The jobs that run here, for a journal that was made anew. Asked on the writer's thread."""
        return [
            jobs.reinstate(running.job, self._ownership.name, self._insert(running.job))
            for running in list(self.running.values())
        ]

    async def _start_written(self, arrival: Arrival, insert: Work[bool]) -> None:
        is_new = await self._database.write(insert)
        if is_new and not self._closing:
            self._start(arrival.job, arrival.continues)

    def _expires(self, job: Job) -> float:
        return time.time() + job.caller.settings.conversation_days * 86400

    def _start(self, job: Job, continues: bool, seq: int = 0) -> Running:
        running = Running(job, Live(job.id, job.task.models, seq), title=title_of(job.task.prompt))
        self.running[job.id] = running
        if job.key:
            self.keys[job.key] = job.id
        running.task = asyncio.create_task(self._run(running, continues), name=job.id)
        running.task.add_done_callback(lambda _: self._forget(job.id))
        return running

    def _forget(self, job_id: str) -> None:
        gone = self.running.pop(job_id, None)
        if gone:
            self._turns.ended(gone.job.conversation)
        if gone and gone.job.key:
            self.keys.pop(gone.job.key, None)
        if gone and gone.more:  # whoever asks a moment later is told it, too
            self.ended[job_id] = gone
            while len(self.ended) > _ENDED:
                self.ended.pop(next(iter(self.ended)))

    # ── running ──────────────────────────────────────────────────────────────────────────────────────

    async def _run(self, running: Running, continues: bool) -> None:
        job = running.job
        fence = jobs.Fence(job.id, self._ownership.name, job.attempt)
        try:
            if continues:
                await self._turns.wait(running, self._unsaved)
            running.live.waits = None
            running.live.started(job.tool, job.task.models, job.id, job.conversation)
            if job.attempt > 1:
                running.live.resume(jobs.spoken(self._database, job.id))
            running.titling = self.describer.entitle(running)
            talk = Consultation(job, fence, self._database, running.live, self.gate)
            outcome = await _KINDS[job.tool](talk, self._router, self._database, self._cache)
            await self._conclude(running, talk, outcome)
        except asyncio.CancelledError:
            if running.lost:
                log.warning("%s is no longer ours: its calls are stopped", job.id)
                running.live.leave()
                return
            if self._closing and not running.cancelled:
                return  # the job stays `processing`: someone else goes on with it
            await self._end(running, fence, "cancelled", Cancelled(f"Job {job.id} was cancelled."))
        except jobs.LostJob:
            log.warning("%s is no longer ours", job.id)
            running.live.leave()
        except CounselError as error:
            await self._end(running, fence, "failed", error)
        except Exception as error:  # a defect must end the job, not leave it hanging
            log.exception("%s failed", job.id)
            lack = resource_errors.failure(error, "The job could not go on")
            broken = Internal(f"counsel failed inside ({type(error).__name__}).")
            await self._end(running, fence, "failed", lack or broken)

    async def _conclude(self, running: Running, talk: Consultation, outcome: Outcome) -> None:
        job = running.job
        result = dict(outcome.result)
        if running.titling:
            result["title"] = running.title
        warnings = [self._database.problem] if self._database.problem else []
        turn = conversations.add_turn(
            job.conversation,
            outcome.messages,
            provider=outcome.provider,
            model=outcome.model,
            expires=self._expires(job),
            session=outcome.session,
        )

        def also(db: sqlite3.Connection) -> Json:
            count = turn(db)
            result["continuation"] = {**result["continuation"], "messageCount": count}
            if count == len(outcome.messages) and not ids.is_ours(job.conversation):
                result["continuation"]["status"] = "new"  # nothing was known under the caller's name
            return {"continuation": result["continuation"]}

        running.ending = True
        running.live.done(outcome.status)
        self._flush_last(running)
        end = jobs.finish(
            talk.fence,
            outcome.status,
            result=result,
            completed=outcome.completed,
            ledger=[answer.entry for answer in talk.unrecorded],
            followed=running.live.journalled,
            also=also,
        )
        try:
            await self._writer(job, outcome)(end)
        except (StoreError, jobs.LostJob) as error:
            if not (unkept := running.unkept(error)):
                talk.hand_on()
                raise
            # the answer was paid for: it is given even when it cannot be kept
            self._keep_trying(job.id, end, error)
            warnings.append(f"This answer could not be kept: {unkept}")
            result["continuation"].setdefault("messageCount", 0)
        if job.task.export:
            await self._export(job, result, warnings)
        if warnings:
            result["metadata"] = {**result.get("metadata", {}), "warnings": warnings}
        running.more = bool(warnings or job.task.export)
        job.status = outcome.status
        running.result = result
        self.describer.sum_up(running, outcome.text)

    def _keep_trying(self, job_id: str, end: Work[None], error: Exception) -> None:
        """An end that the disk did not take is written when it can be: else the next process would ask and pay again."""
        if isinstance(error, StoreError) and len(self._unsaved) < _ENDED:
            self._unsaved[job_id] = end

    async def _save_ends(self) -> None:
        for job_id, end in list(self._unsaved.items()):
            with contextlib.suppress(jobs.LostJob):
                await self._database.write(end)
            self._unsaved.pop(job_id, None)

    def _writer(self, job: Job, outcome: Outcome) -> Callable[[Work[None]], Awaitable[None]]:
        """Many ends at once share a commit; one alone has its own at once, if it is small: the event loop waits for it."""
        size = sum(len(message.text) for message in outcome.messages)
        alone = len(self.running) == 1 and not job.background
        return self._database.quickly if alone and size < _SMALL else self._database.write

    async def _export(self, job: Job, result: Json, warnings: list[str]) -> None:
        try:
            target, root = map(Path, job.task.export)
            folder = await asyncio.to_thread(export.write, self._database, job.conversation, target, root)
            result["export"] = str(folder)
        except CounselError as error:
            warnings.append(f"The conversation was not exported: {error}")

    async def _end(self, running: Running, fence: jobs.Fence, status: Any, error: CounselError) -> None:
        running.ending = True
        error.fields.setdefault("job_id", fence.job)
        error.fields.setdefault("continuation_id", running.job.conversation)
        (running.live.cancelled if status == "cancelled" else running.live.failed)(error)
        self._flush(running)
        running.failure = error.as_dict()
        running.job.status = status
        end = jobs.finish(fence, status, error=error.as_dict(), also=partial.turn(running.job, status))
        try:
            await asyncio.shield(self._database.write(end))
        except (jobs.LostJob, StoreError) as failure:
            self._keep_trying(fence.job, end, failure)
            running.more = bool(running.unkept(failure))

    # ── stopping ─────────────────────────────────────────────────────────────────────────────────────

    async def cancel(self, job_id: str) -> None:
        if running := self.running.get(job_id):
            await asyncio.sleep(0)  # its first step: a task that is cancelled before it never hears of it
            running.stop()
            await asyncio.wait({running.task})
            return
        await self._database.write(jobs.request_cancel(job_id))
        until = time.monotonic() + _HEARD
        while row := jobs.by_id(self._database, job_id):
            if row["status"] != "processing":
                return
            life = self._ownership.state(row["owner"])
            # of an owner that cannot be looked at, the person's word is enough: if it lives, it stops when it sees that
            # it has lost the job
            if life == "dead" or (life == "unknown" and time.monotonic() > until):
                await self.recovery.give_up(row, "cancelled", Cancelled(f"Job {job_id} was cancelled."))
            elif time.monotonic() > until:
                return
            await asyncio.sleep(_TICK / 4)

    async def close(self, *, keep: bool) -> None:
        """`keep`: calls whose callers wait go on in the next engine, also when nobody comes back for them."""
        if self._closing:
            return
        self._closing = True
        for running in self.running.values():
            self._flush(running)  # what was said by now; how the calls are broken off is no event of the job
        tasks = [*self._loops, *(running.task for running in self.running.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(StoreError):
            await self._save_ends()
        with contextlib.suppress(StoreError):
            await self._database.write(jobs.let_go(self._ownership.name, keep=keep))
        self._ownership.release()

    def home_is_ours(self) -> bool:
        """Whether COUNSEL_HOME is still the folder that was opened here. False: it was deleted, moved or replaced."""
        return self._database.home.is_there()

    def _may_tidy(self) -> bool:
        """A database alone that was deleted or replaced is seen to by the writer, within two seconds."""
        return self._database.home.is_there() and self._database.is_at_path()

    # ── loops ────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        self._loops = [
            asyncio.create_task(self._forever(_TICK, self._tick)),
            asyncio.create_task(self._forever(_ORPHANS, self._recover, self._wanted)),
            asyncio.create_task(self._forever(_LOOK, self._look)),
            asyncio.create_task(self._upkeep()),
        ]

    async def _forever(self, seconds: float, step: Any, early: asyncio.Event | None = None) -> None:
        while not self._closing:
            try:
                await step()
            except CounselError as error:
                log.warning("%s", error)
            except Exception:
                log.exception("a periodic step failed")
            if early is None:
                await asyncio.sleep(seconds)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):  # not wait_for: on 3.11 it can swallow a cancellation
                    await early.wait()
            early.clear()

    async def _tick(self) -> None:
        if not self.running:
            return
        for running in list(self.running.values()):
            self._flush(running)
        if self._may_tidy():
            self._ownership.hold()
        for row in jobs.standing(self._database, list(self.running)):
            await self._heed(row)

    async def _heed(self, row: sqlite3.Row) -> None:
        """Stop a job that somebody wants stopped, or that another process has taken: its calls cost money until then."""
        running = self.running.get(row["id"])
        if running is None:
            return
        mine = (self._ownership.name, running.job.attempt, "processing")
        doubted = running.doubted
        running.doubted = (row["owner"], row["attempt"], row["status"]) != mine
        if (
            running.doubted and doubted
        ):  # seen twice: a journal that is being rebuilt may have an older state for a moment
            running.lose()
        elif row["cancel"] and not running.doubted:
            await self.cancel(row["id"])

    async def _recover(self) -> None:
        await self.look_for_orphans()
        await self._save_ends()

    async def look_for_orphans(self, only: str | None = None) -> None:
        if only not in self.running and self._may_tidy():
            await self.recovery.look(only)

    def busy(self) -> bool:
        """Something runs here, or can go on or be ended here."""
        return bool(self.running) or self.recovery.actionable()

    def _go_on(self, job: Job) -> None:
        """With a job that another process began."""
        self._start(job, continues=True, seq=jobs.last_seq(self._database, job.id))

    def _flush(self, running: Running) -> None:
        if events := running.live.unwritten():
            fence = jobs.Fence(running.job.id, self._ownership.name, running.job.attempt)
            self._database.soon(jobs.append(fence, events))

    def _flush_last(self, running: Running) -> None:
        """A job that ended before its first flush was followed by no other process: its row says all."""
        if running.live.journalled:
            self._flush(running)

    async def _look(self) -> None:
        """Whether the journal is still there and sound; and what a full disk did not take, once more."""
        self._database.examine()
        if not self._secret.kept:
            await asyncio.to_thread(self._secret.keep)

    async def _upkeep(self) -> None:
        """Not at the expense of the first call, nor of a command that is over in a moment."""
        await asyncio.sleep(_FIRST_UPKEEP)
        if self._database.unclean:
            await asyncio.to_thread(self._database.check)
        await self._forever(_SWEEP, self._sweep)

    async def _sweep(self) -> None:
        if self._database.problem or not self._may_tidy():  # others may need what we do not know
            return
        home = self._database.path.parent
        await asyncio.to_thread(pending_calls.sweep, home)
        limit = load_settings({**os.environ, "COUNSEL_HOME": str(home)}).max_database_bytes
        await upkeep.sweep(self._database, limit)
        await asyncio.to_thread(self._ownership.tidy, jobs.owners(self._database))
        await asyncio.to_thread(leftovers.sweep, home / "outputs", jobs.ids(self._database))
        if not self._database.in_memory and backups.due(self._database.path):
            await asyncio.to_thread(backups.attempt, self._database.path)

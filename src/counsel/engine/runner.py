"""Running jobs: starting them, their turn in a conversation, their end, and taking over those of the dead."""

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

from counsel import kept
from counsel.caller import Caller
from counsel.engine import chat, consensus, exporting, interrupted, leftovers
from counsel.engine.cache import AnswerCache
from counsel.engine.consult import Consultation
from counsel.engine.describing import Describer
from counsel.engine.gate import Gate
from counsel.engine.intake import Arrival
from counsel.engine.keyring import Keyring, Secret
from counsel.engine.live import Live
from counsel.engine.outcome import Outcome
from counsel.engine.ownership import Ownership
from counsel.engine.routes import Router
from counsel.engine.running import Running
from counsel.engine.store import backups, conversations, jobs, upkeep
from counsel.engine.store.database import Database, StoreError, Work
from counsel.engine.task import Job, Task, caller_load
from counsel.engine.titles import Summariser, title_of
from counsel.errors import Cancelled, CounselError, Internal
from counsel.settings import Settings
from counsel.settings import load as load_settings
from counsel.types import Json

log = logging.getLogger("counsel.runner")
_TICK = 0.2  # seconds: text to the journal, cancels from other processes
_ORPHANS = 2.0  # seconds between looks for jobs of dead processes
_LOOK = 2.0  # seconds between looks at the journal's file
_FIRST_UPKEEP = 5.0  # seconds
_SWEEP = 3600.0
_ENDED = 64
_STUCK = 25  # attempts in a row in which calls went out and none finished
_SMALL = 32_000  # characters of a turn that is written in a fraction of a millisecond
_CLIENT_GONE = 60.0  # seconds after which an interrupted synchronous call is given up
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
        self._order: dict[str, asyncio.Lock] = {}  # turns of one conversation, first in, first out
        self._interrupted: dict[str, float] = {}  # calls of dead processes whose client may come back
        self._loops: list[asyncio.Task[None]] = []
        self._wanted = asyncio.Event()
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
            async with self._turn(job) if continues else contextlib.nullcontext():
                running.live.emit("started", tool=job.tool, models=list(job.task.models), **_names(job))
                if job.attempt > 1:
                    running.live.resume(jobs.spoken(self._database, job.id))
                running.titling = self.describer.entitle(running)
                talk = Consultation(job, fence, self._database, running.live, self.gate)
                outcome = await _KINDS[job.tool](talk, self._router, self._database, self._cache)
                await self._conclude(running, talk, outcome)
        except asyncio.CancelledError:
            if self._closing and not running.cancelled:
                return  # the job stays `processing`: someone else goes on with it
            await self._end(running, fence, "cancelled", Cancelled(f"Job {job.id} was cancelled."))
        except jobs.LostJob:
            log.warning("%s is no longer ours", job.id)
        except CounselError as error:
            await self._end(running, fence, "failed", error)
        except Exception as error:  # a defect must end the job, not leave it hanging
            log.exception("%s failed", job.id)
            await self._end(
                running, fence, "failed", Internal(f"counsel failed inside ({type(error).__name__}).")
            )

    @contextlib.asynccontextmanager
    async def _turn(self, job: Job) -> Any:
        """One job at a time on one conversation, in the order in which they were written down."""
        lock = self._order.setdefault(job.conversation, asyncio.Lock())
        try:
            async with lock:
                while self._someone_before(job):  # noqa: ASYNC110 - in another process: only the database tells
                    await asyncio.sleep(_TICK / 2)
                yield
        finally:
            if not lock.locked():
                self._order.pop(job.conversation, None)

    def _someone_before(self, job: Job) -> bool:
        for row in jobs.running_of(self._database, job.conversation):
            if row["id"] == job.id:
                return False
            if row["id"] not in self.running and self._ownership.alive(row["owner"]):
                return True
        return False

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
            return {"continuation": result["continuation"]}

        running.ending = True
        running.live.emit("done", status=outcome.status)
        self._flush_last(running)
        try:
            await self._writer(job, outcome)(
                jobs.finish(
                    talk.fence,
                    outcome.status,
                    result=result,
                    completed=outcome.completed,
                    ledger=talk.unrecorded,
                    followed=running.live.journalled,
                    also=also,
                )
            )
        except (StoreError, jobs.LostJob) as error:
            if not (unkept := running.unkept(error)):
                raise
            # the answer was paid for: it is given even when it cannot be kept
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

    def _writer(self, job: Job, outcome: Outcome) -> Callable[[Work[None]], Awaitable[None]]:
        """Many ends at once share a commit; one alone has its own at once, if it is small: the event loop waits for it."""
        size = sum(len(message.text) for message in outcome.messages)
        alone = len(self.running) == 1 and not job.background
        return self._database.quickly if alone and size < _SMALL else self._database.write

    async def _export(self, job: Job, result: Json, warnings: list[str]) -> None:
        try:
            target, root = map(Path, job.task.export)
            folder = await asyncio.to_thread(exporting.write, self._database, job.conversation, target, root)
            result["export"] = str(folder)
        except CounselError as error:
            warnings.append(f"The conversation was not exported: {error}")

    async def _end(self, running: Running, fence: jobs.Fence, status: Any, error: CounselError) -> None:
        running.ending = True
        error.fields.setdefault("job_id", fence.job)
        error.fields.setdefault("continuation_id", running.job.conversation)
        running.live.emit("cancelled" if status == "cancelled" else "failed", error=error.as_dict())
        self._flush_last(running)
        running.failure = error.as_dict()
        running.job.status = status
        try:
            await asyncio.shield(self._database.write(jobs.finish(fence, status, error=error.as_dict())))
        except (jobs.LostJob, StoreError) as failure:
            running.more = bool(running.unkept(failure))

    # ── stopping ─────────────────────────────────────────────────────────────────────────────────────

    async def cancel(self, job_id: str) -> None:
        if running := self.running.get(job_id):
            await asyncio.sleep(0)  # its first step: a task that is cancelled before it never hears of it
            running.stop()
            await asyncio.wait({running.task})
            return
        await self._database.write(jobs.request_cancel(job_id))
        row = jobs.by_id(self._database, job_id)
        until = time.monotonic() + 2
        while (
            row
            and row["status"] == "processing"
            and self._ownership.alive(row["owner"])
            and time.monotonic() < until
        ):
            await asyncio.sleep(_TICK / 4)
            row = jobs.by_id(self._database, job_id)
        if row and row["status"] == "processing" and not self._ownership.alive(row["owner"]):
            await self._give_up(row, "cancelled", Cancelled(f"Job {job_id} was cancelled."))

    async def _give_up(self, row: sqlite3.Row, status: Any, error: CounselError) -> None:
        """End a job that nobody runs."""
        self._interrupted.pop(row["id"], None)
        if not await self._database.write(jobs.adopt(row["id"], row["owner"], self._ownership.name)):
            return
        fence = jobs.Fence(row["id"], self._ownership.name, row["attempt"] + 1)
        with contextlib.suppress(jobs.LostJob):
            await self._database.write(jobs.finish(fence, status, error=error.as_dict()))

    async def close(self, *, keep: bool) -> None:
        """`keep`: calls whose callers wait go on in the next engine, also when nobody comes back for them."""
        if self._closing:
            return
        self._closing = True
        tasks = [*self._loops, *(running.task for running in self.running.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(StoreError):
            await self._database.write(jobs.let_go(self._ownership.name, keep=keep))
        self._ownership.release()

    def home_is_ours(self) -> bool:
        """Whether COUNSEL_HOME still holds the database that was opened here. False: it was deleted, moved or replaced."""
        return self._database.is_at_path()

    # ── loops ────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        self._loops = [
            asyncio.create_task(self._forever(_TICK, self._tick)),
            asyncio.create_task(self._forever(_ORPHANS, self.look_for_orphans, self._wanted)),
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
        for job_id in jobs.to_cancel(self._database, self._ownership.name):
            if job_id in self.running:
                await self.cancel(job_id)

    def _flush(self, running: Running) -> None:
        if events := running.live.unwritten():
            self._database.soon(jobs.append(running.job.id, events))

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
        if not self.home_is_ours():
            return
        home = self._database.path.parent
        await asyncio.to_thread(kept.sweep, home)
        limit = load_settings({**os.environ, "COUNSEL_HOME": str(home)}).max_database_bytes
        await upkeep.sweep(self._database, limit)
        await asyncio.to_thread(leftovers.sweep, home / "outputs", jobs.ids(self._database))
        if not self._database.in_memory and backups.due(self._database.path):
            await asyncio.to_thread(backups.attempt, self._database.path)

    # ── taking over ──────────────────────────────────────────────────────────────────────────────────

    async def look_for_orphans(self, only: str | None = None) -> None:
        """Go on with jobs whose process died, when the keys that they were asked with are at hand."""
        if only in self.running or not self.home_is_ours():
            return
        self._ownership.renew()
        for row in jobs.unfinished(self._database):
            if (
                row["id"] in self.running
                or (only and row["id"] != only)
                or self._ownership.alive(row["owner"])
            ):
                continue
            if row["cancel"]:
                await self._give_up(row, "cancelled", Cancelled(f"Job {row['id']} was cancelled."))
            elif row["stuck"] >= _STUCK:
                await self._give_up(row, "failed", interrupted.gave_up(row))
            elif not row["background"] and not only and not self._keeps(row):
                await self._decide(row)
            elif settings := self._keyring.find(row["fingerprint"]):
                await self._take_over(row, settings)
            elif time.time() - row["created"] > row["keep_days"] * 86400:
                await self._give_up(row, "failed", interrupted.keyless(row))

    async def _decide(self, row: sqlite3.Row) -> None:
        """An interrupted call whose client has not come back: it is kept, given up, or left for a while longer."""
        if kept.take(self._database.path.parent, row["id"]):
            await self._detach(row)
        elif self._nobody_came(row):
            if jobs.has_answers(self._database, row["id"]):  # they were paid for
                await self._detach(row)
            else:
                await self._give_up(row, "cancelled", interrupted.abandoned(row))

    async def _detach(self, row: sqlite3.Row) -> None:
        await self._database.write(jobs.detach(row["id"]))
        self._wanted.set()  # the next look takes it over

    def _nobody_came(self, row: sqlite3.Row) -> bool:
        """An interrupted call's client has had its time to come back, counted from when this engine found the call."""
        found = self._interrupted.setdefault(row["id"], time.monotonic())
        return time.monotonic() - found >= _CLIENT_GONE

    def busy(self) -> bool:
        """Something runs here, or can go on or be ended here."""
        return bool(self.running) or any(map(self._actionable, jobs.unfinished(self._database)))

    def _actionable(self, row: sqlite3.Row) -> bool:
        """Of a process that has died, and more can be done for it here than wait for its keys."""
        if self._ownership.alive(row["owner"]):
            return False
        ends_here = row["cancel"] or row["stuck"] >= _STUCK or not row["background"]
        return bool(ends_here or self._keyring.find(row["fingerprint"]))

    def has_owner(self, row: sqlite3.Row) -> bool:
        return row["id"] in self.running or self._ownership.alive(row["owner"])

    def _keeps(self, row: sqlite3.Row) -> bool:
        settings = self._keyring.find(row["fingerprint"])
        return bool(settings and settings.keep_abandoned)

    async def _take_over(self, row: sqlite3.Row, settings: Settings) -> None:
        self._interrupted.pop(row["id"], None)
        if not await self._database.write(jobs.adopt(row["id"], row["owner"], self._ownership.name)):
            return
        job = Job(
            id=row["id"],
            conversation=row["conversation"],
            task=Task.load(row["task"]),
            caller=caller_load(row["caller"], settings),
            background=bool(row["background"]),
            created=row["created"],
            key=row["key"],
            attempt=row["attempt"] + 1,
        )
        log.info("going on with %s (attempt %s)", job.id, job.attempt)
        self._start(job, continues=True, seq=jobs.last_seq(self._database, job.id))


def _names(job: Job) -> Json:
    """With these a listener asks for the whole result, or goes on with the conversation."""
    return {"job_id": job.id, "continuation_id": job.conversation}

"""Stores a job's end together with its turn in one write; later if the disk fails now."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from counsel.engine.consult.call import Consultation
from counsel.engine.history import export
from counsel.engine.jobs import ids, partial
from counsel.engine.jobs.model import Job
from counsel.engine.jobs.running import Outcome, Running
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import Fence, JobCompleted, JobEnd, JobStopped, LostJob, NewTurn, StoreError
from counsel.errors import CounselError
from counsel.job_events import JobEvent
from counsel.lazy_dataclass import replace
from counsel.requests import Status
from counsel.results import ChatResult, Result, ReviewResult

_MOST_UNSAVED = 64


class Endings:
    def __init__(self, store: Store) -> None:
        self._store = store
        # by job: ends that could not be written yet, and the events before them
        self.unsaved: dict[str, tuple[Fence, list[JobEvent], JobEnd]] = {}

    async def complete(
        self, running: Running, consultation: Consultation, outcome: Outcome, *, expires: float, alone: bool
    ) -> None:
        """Write the result and the turn. The answer has been paid for: it is returned even if it cannot be stored."""
        job = running.job
        result = replace(outcome.result, title=running.title) if running.titling else outcome.result
        warnings = [self._store.problem] if self._store.problem else []
        running.ending = True
        running.live.hold_end()
        running.live.done(outcome.status)
        # otherwise no other process has followed it, and its row has everything
        if running.live.is_stored or running.live.is_resumable or running.live.has_thought:
            running.flush(self._store, is_last=True)
        ending = _Ending(result, job.conversation, len(outcome.messages))
        end = _completed(running, consultation, outcome, ending.complete, expires)
        try:
            await self._store.finish(running.fence, end, foreground=not job.background, alone=alone)
        except (StoreError, LostJob) as error:
            if not (cause := running.storage_failure(error)):
                consultation.save_unrecorded()
                raise
            self._store_later(running, end, error)
            warnings.append(f"This answer could not be stored: {cause}")
            if ending.result is result:
                ending.complete(0)
        running.live.publish_end()
        result = ending.result
        if job.task.export:
            result = replace(result, export=await self._export(job, warnings))
        if warnings:
            result = _with_warnings(result, tuple(warnings))
        running.incomplete_on_disk = bool(warnings or job.task.export)
        job.status = outcome.status
        running.result = result

    async def stop(self, running: Running, status: Status, error: CounselError) -> None:
        """Write an end without a result. Finished answers become a turn."""
        running.ending = True
        error.fields.setdefault("job_id", running.job.id)
        error.fields.setdefault("continuation_id", running.job.conversation)
        running.live.hold_end()
        (running.live.cancelled if status == "cancelled" else running.live.failed)(error)
        running.flush(self._store, is_last=True)
        running.failure = error.copy()
        running.job.status = status
        end = JobStopped(
            status=status,
            error=error.copy(),
            turn=partial.turn(running.job, status),
            task=running.job.task_without_messages(),
        )
        try:
            await asyncio.shield(asyncio.ensure_future(self._store.finish(running.fence, end)))
        except (LostJob, StoreError) as failure:
            self._store_later(running, end, failure)
            running.incomplete_on_disk = bool(running.storage_failure(failure))
            if not running.incomplete_on_disk:
                running.live.leave()  # it continues in another process, or ended there
                return
        running.live.publish_end()

    def _store_later(self, running: Running, end: JobEnd, error: Exception) -> None:
        """Keep the end for `save`: otherwise the next process would ask, and pay, again."""
        if isinstance(error, StoreError) and len(self.unsaved) < _MOST_UNSAVED:
            self.unsaved[running.job.id] = running.fence, running.unwritten_events(), end

    async def save(self) -> None:
        """Try again to write what could not be written."""
        for job, (fence, events, end) in list(self.unsaved.items()):
            if events:  # followers in other processes have not seen them
                self._store.append(fence, events)
            with contextlib.suppress(LostJob):
                await self._store.finish(fence, end)
            self.unsaved.pop(job, None)

    async def _export(self, job: Job, warnings: list[str]) -> str | None:
        try:
            target, root = map(Path, job.task.export)
            return str(await export.write(self._store, job.conversation, target, root))
        except CounselError as error:
            warnings.append(f"The conversation was not exported: {error}")
            return None


class _Ending:
    """Completes a result with the conversation's length, which is known only when the turn is written."""

    def __init__(self, result: Result, conversation: str, added_messages: int) -> None:
        self.result = result
        self._conversation = conversation
        self._added_messages = added_messages

    def complete(self, count: int) -> Result:
        continuation = replace(self.result.continuation, message_count=count)
        if count == self._added_messages and not ids.is_ours(self._conversation):
            continuation = replace(continuation, status="new")  # nothing was stored under the caller's name
        self.result = replace(self.result, continuation=continuation)
        return self.result


def _with_warnings(result: Result, warnings: tuple[str, ...]) -> Result:
    if isinstance(result, ChatResult):
        return replace(
            result, metadata=replace(result.metadata, warnings=(*result.metadata.warnings, *warnings))
        )
    if isinstance(result, ReviewResult):
        return replace(
            result, metadata=replace(result.metadata, warnings=(*result.metadata.warnings, *warnings))
        )
    return replace(result, metadata=replace(result.metadata, warnings=(*result.metadata.warnings, *warnings)))


def _completed(
    running: Running,
    consultation: Consultation,
    outcome: Outcome,
    result: Callable[[int], Result],
    expires: float,
) -> JobCompleted:
    job = running.job
    return JobCompleted(
        status=outcome.status,
        result=result,
        turn=NewTurn(
            conversation=job.conversation,
            messages=outcome.messages,
            provider=outcome.provider,
            model=outcome.model,
            expires=expires,
            session=outcome.session,
        ),
        completed=outcome.completed,
        usage=tuple(answer.usage for answer in consultation.unrecorded),
        has_events=running.live.is_stored,
        is_kept=job.task.can_run_again or bool(outcome.messages) or job.key is not None,
        task=job.task_without_messages(),
    )

"""A job that this process runs: its state and its outcome."""

from __future__ import annotations

import asyncio
import time
from dataclasses import field

from counsel.engine.jobs.events import Live
from counsel.engine.jobs.model import Job
from counsel.engine.store.protocol import Pending, Store
from counsel.engine.store.records import Fence, Message, StoreError, Submitted
from counsel.errors import CounselError
from counsel.job_events import JobEvent
from counsel.lazy_dataclass import dataclass
from counsel.requests import Status
from counsel.results import Result

AGAIN = 1.0  # seconds after which events that could not be written are tried again


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a job, before it is stored."""

    status: Status
    result: Result
    messages: tuple[Message, ...]  # the turn to add to the conversation
    completed: int
    provider: str | None = None
    model: str | None = None
    session: tuple[str, str] | None = None  # an agent, and the id of its own session
    text: str = ""  # to summarise


@dataclass(slots=True, eq=False)
class Running:
    job: Job
    live: Live
    fence: Fence
    title: str = ""
    since: float = field(default_factory=time.monotonic)
    task: asyncio.Task[None] = field(init=False)
    result: Result | None = None
    # a copy: the error's frames would refer to the job, and the job to the error
    failure: CounselError | None = None
    titling: asyncio.Task[str] | None = None
    summary: asyncio.Task[str] | None = None  # the final one
    running_summary: str = ""
    summing_up: asyncio.Task[None] | None = None
    cancelled: bool = False
    in_doubt: bool = False  # at the last check another process owned the job
    lost: bool = False  # another process has the job now, or has ended it
    ending: bool = False  # its end is being written: too late to stop it
    written: Pending[Submitted] | None = None  # the write of the job's row
    gaps: int = 0  # `Owners.gaps` when the job was last known to be ours
    incomplete_on_disk: bool = False  # a warning or an export is missing there, or the whole end
    _waiters: list[asyncio.Future[None]] = field(default_factory=list)  # for the end
    _events: list[JobEvent] = field(default_factory=list)  # of the last write
    _append: Pending[None] | None = None
    _appended_at: float = 0.0

    def ended(self) -> asyncio.Future[None]:
        """Done after any end; `asyncio.wait` takes three times as long."""
        waiter = self.task.get_loop().create_future()
        if self.task.done():
            waiter.set_result(None)
        else:
            self._waiters.append(waiter)
        return waiter

    def wake_waiters(self) -> None:
        """Called at the end of the task."""
        for waiter in self._waiters:
            if not waiter.done():  # its task may have been cancelled
                waiter.set_result(None)

    def stop(self) -> None:
        """Cancel once: a second cancellation would interrupt the writes of the first."""
        if not (self.cancelled or self.ending or self.lost):
            self.cancelled = True
            self.task.cancel()

    def lose(self) -> None:
        """Stop the calls of a job that is no longer ours; writes in progress check ownership themselves."""
        if not (self.cancelled or self.ending or self.lost):
            self.lost = self.job.handed_over = True
            self.task.cancel()

    def flush(self, store: Store, *, is_last: bool = False) -> None:
        """Write new events, including text, after those that could not be written before.

        One write at a time: if a later one succeeded after an earlier one failed, a follower in another process would
        skip the gap. `is_last`: the job's end follows, so a pending write is repeated with it.
        """
        if self._is_append_pending() and not is_last:
            return
        if events := [*self.unwritten_events(), *self.live.unwritten()]:
            self._events, self._append = events, store.append(self.fence, events)
            self._appended_at = time.monotonic()

    def unwritten_events(self) -> list[JobEvent]:
        """Those of the last write, unless it succeeded. Writing an event again changes nothing."""
        if self._append is not None and self._append.done() and self._append.exception() is None:
            self._events = []
        return self._events

    def _is_append_pending(self) -> bool:
        """Whether the last write is in progress, or failed a moment ago: the database may be away for long."""
        if self._append is None or not self._append.done():
            return self._append is not None
        return self._append.exception() is not None and time.monotonic() - self._appended_at < AGAIN

    def storage_failure(self, error: Exception) -> BaseException | None:
        """Why the job is not on disk, if that caused the error."""
        if isinstance(error, StoreError):
            return error
        return self.written.exception() if self.written and self.written.done() else None

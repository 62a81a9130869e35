"""A job that this process runs: its state, and its outcome."""

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
    """The outcome of a job, before it is written down."""

    status: Status
    result: Result
    messages: tuple[Message, ...]  # the turn that the conversation gains
    completed: int
    provider: str | None = None
    model: str | None = None
    session: tuple[str, str] | None = None  # agent, and its own session
    text: str = ""  # what a summary is made of


@dataclass(slots=True, eq=False)
class Running:
    job: Job
    live: Live
    fence: Fence
    title: str = ""
    since: float = field(default_factory=time.monotonic)
    task: asyncio.Task[None] = field(init=False)
    result: Result | None = None
    failure: CounselError | None = (
        None  # a copy: the error's frames would hold the job, and the job the error
    )
    titling: asyncio.Task[str] | None = None
    summary: asyncio.Task[str] | None = None  # the final one
    running_summary: str = ""
    summing_up: asyncio.Task[None] | None = None
    cancelled: bool = False
    doubted: bool = False  # at the last look another process owned the job
    lost: bool = False  # another process has the job now, or has ended it
    ending: bool = False  # its end is being written: too late to stop it
    written: Pending[Submitted] | None = None  # the job's way to the disk
    gaps: int = 0  # of our presence, when the job was last known to be ours
    more: bool = False  # the disk does not hold everything: a warning, an export, or all of it
    _events: list[JobEvent] = field(default_factory=list)  # of the last write
    _append: Pending[None] | None = None
    _appended_at: float = 0.0

    async def ended(self) -> None:
        """Wait for the end, whatever it is; `asyncio.wait` takes three times as long."""
        if self.task.done():
            return
        waiter = asyncio.get_running_loop().create_future()

        def wake(_: object) -> None:
            if not waiter.done():
                waiter.set_result(None)

        self.task.add_done_callback(wake)
        try:
            await waiter
        finally:
            self.task.remove_done_callback(wake)

    def stop(self) -> None:
        """Once: a second cancellation would interrupt the first one's writing."""
        if not (self.cancelled or self.ending or self.lost):
            self.cancelled = True
            self.task.cancel()

    def lose(self) -> None:
        """Stop asking for a job that is no longer ours; writes in progress prove ownership themselves."""
        if not (self.cancelled or self.ending or self.lost):
            self.lost = self.job.handed_over = True
            self.task.cancel()

    def flush(self, store: Store, *, is_last: bool = False) -> None:
        """Write new events, text included, and before them those that could not be written.

        One write at a time: if an earlier one failed and a later one did not, a follower in another process would read on
        behind the gap. `is_last`: the job's end follows, so what is on its way is written once more with it.
        """
        if self._is_waiting() and not is_last:
            return
        if events := [*self.unwritten_events(), *self.live.unwritten()]:
            self._events, self._append = events, store.append(self.fence, events)
            self._appended_at = time.monotonic()

    def unwritten_events(self) -> list[JobEvent]:
        """Those of the last write, unless it has succeeded. To write an event again changes nothing."""
        if self._append is not None and self._append.done() and self._append.exception() is None:
            self._events = []
        return self._events

    def _is_waiting(self) -> bool:
        """For the last write, or after its failure for a moment: the database may be away for long."""
        if self._append is None or not self._append.done():
            return self._append is not None
        return self._append.exception() is not None and time.monotonic() - self._appended_at < AGAIN

    def unkept(self, error: Exception) -> BaseException | None:
        """Why the job is not on disk, if that is what the error comes from."""
        if isinstance(error, StoreError):
            return error
        return self.written.exception() if self.written and self.written.done() else None

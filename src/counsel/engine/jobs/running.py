"""A job on its way in this process."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import field

from counsel.engine.jobs.events import Live
from counsel.engine.jobs.model import Job
from counsel.engine.store.sqlite.database import StoreError
from counsel.lazy_dataclass import dataclass
from counsel.types import Json


@dataclass(slots=True, eq=False)
class Running:
    job: Job
    live: Live
    task: asyncio.Task[None] = field(init=False)
    result: Json | None = None
    failure: Json | None = None  # the error as it is told: its frames would hold the job, and the job it
    title: str = ""
    titling: asyncio.Task[str] | None = None
    summary: asyncio.Task[str] | None = None  # the final one
    running_summary: str = ""
    summing_up: asyncio.Task[None] | None = None
    cancelled: bool = False
    doubted: bool = False  # the journal said at the last look that the job is another's
    lost: bool = False  # another process has the job now, or has ended it
    ending: bool = False  # how it ended is being written down: too late to stop it
    written: Future[bool] | None = None  # the job's way to the disk
    more: bool = False  # there is more to say than the disk holds: a warning, an export, or all of it

    def stop(self) -> None:
        """Once: a second cancellation would interrupt the first one's writing."""
        if not (self.cancelled or self.ending or self.lost):
            self.cancelled = True
            self.task.cancel()

    def lose(self) -> None:
        """Stop asking for a job that is no longer ours; what is being written proves ownership itself."""
        if not (self.cancelled or self.ending or self.lost):
            self.lost = True
            self.task.cancel()

    def unkept(self, error: Exception) -> BaseException | None:
        """Why the job is not on disk, if that is what the error comes from."""
        if isinstance(error, StoreError):
            return error
        return self.written.exception() if self.written and self.written.done() else None

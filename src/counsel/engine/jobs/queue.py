"""A team's queue as the runner uses it; `engine/team/queue/` implements it. An engine without a team has none."""

from __future__ import annotations

from typing import Protocol

from counsel.engine.jobs.model import Job
from counsel.engine.store.records import QueueEntry


class JobQueue(Protocol):
    def entry(self, job: Job, fingerprint: str) -> QueueEntry:
        """Where a new job is offered, and whether this process has capacity for it."""

    def stored(self, job: str) -> None:
        """A new job was stored or could not be stored; it has not started yet."""

    def offered(self, job: str) -> None:
        """A job that was submitted here waits for a worker."""

    def ended(self) -> None:
        """A job has ended here."""

    def stop_taking(self) -> None:
        """Take no more jobs for this process."""

    async def close(self) -> None:
        """Called after the jobs of this process are released."""

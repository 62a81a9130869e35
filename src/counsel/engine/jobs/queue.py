"""A team's queue as the runner sees it; `engine/team/queue/` implements it. One person's engine has none."""

from __future__ import annotations

from typing import Protocol

from counsel.engine.jobs.model import Job
from counsel.engine.store.records import QueueEntry


class JobQueue(Protocol):
    def entry(self, job: Job, fingerprint: str) -> QueueEntry:
        """Where a new job is offered, and whether this process has room for it."""

    def offered(self, job: str) -> None:
        """A job that was asked here waits for whoever takes it."""

    def ended(self) -> None:
        """A job has ended here."""

    def stop_taking(self) -> None:
        """No more jobs for this process."""

    async def close(self) -> None:
        """After the jobs of this process are released."""

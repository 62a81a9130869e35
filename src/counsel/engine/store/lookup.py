"""Looking up ids for commands: `sqlite/lookup.py` and `postgres/lookup.py` implement it."""

from __future__ import annotations

from typing import Protocol

from counsel.engine.store.records import Entry


class Lookup(Protocol):
    """Jobs and conversations by the beginning of their ids, for commands. Raises nothing, and never waits long."""

    readable: bool  # False: the database cannot be read, and nothing is found

    def close(self) -> None: ...

    def job(self, job: str) -> Entry | None: ...

    def jobs(self, prefix: str, limit: int = 50) -> list[Entry]:
        """Newest first."""

    def newest_job(self, project: str | None = None, *, running: bool = False) -> Entry | None:
        """The newest job of a project, or of all; `running`: only jobs that have not ended."""

    def conversation(self, name: str) -> Entry | None: ...

    def conversations(self, prefix: str, limit: int = 50) -> list[Entry]:
        """Most recently used first."""

    def newest_conversation(self, project: str) -> Entry | None:
        """The project's most recently used one that has an answer or waits for one; not one whose only call failed."""

"""The store on SQLite: one file for all processes of a home, or memory where no file can be written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from counsel.engine.store.records import NewJob, Sharing
from counsel.engine.store.sqlite import backups, upkeep
from counsel.engine.store.sqlite.budgets import Budgets
from counsel.engine.store.sqlite.conversations import Conversations
from counsel.engine.store.sqlite.database import Database, Work, nothing
from counsel.engine.store.sqlite.job_rows import reinstate
from counsel.engine.store.sqlite.jobs import Jobs
from counsel.engine.store.sqlite.replies import Replies
from counsel.engine.store.sqlite.usage import Usage
from counsel.errors import ConfigInvalid

if TYPE_CHECKING:
    from counsel.engine.store.audit import AuditStore
    from counsel.engine.store.limits import LimitStore
    from counsel.engine.store.people import PeopleStore
    from counsel.engine.store.person_keys import PersonKeyStore
    from counsel.engine.store.protocol import Pending, Store
    from counsel.engine.store.sessions import SessionStore


class SqliteStore(Jobs, Replies, Conversations, Usage, Budgets):
    team = None  # its file belongs to one machine

    def __init__(self, path: Path, *, without_loop: bool = False) -> None:
        self.database = Database(path, without_loop=without_loop)
        self.database.file.reinstate = self._reinstate
        self.database.busy = lambda: bool(self.running())
        self.running: Callable[[], Sequence[NewJob]] = tuple
        self.mcp_sessions = (
            None  # on one machine each server keeps its own, and reads the others' uploads as files
        )
        self.uploads = None

    def _reinstate(self) -> list[Work[None]]:
        """Called on the writer's thread."""
        return [reinstate(job) for job in self.running()]

    @property
    def problem(self) -> str | None:
        return self.database.problem

    def is_home(self) -> bool:
        return self.database.file.home.is_there()

    def is_current(self) -> bool:
        return self.database.file.home.is_there() and self.database.is_at_path()

    async def flush(self) -> None:
        await self.database.write(nothing)

    def look(self) -> None:
        self.database.examine()

    async def check(self) -> None:
        if self.database.unclean:
            from asyncio import to_thread

            await to_thread(self.database.check)

    async def sweep(self, max_bytes: int = 0) -> int:
        return await upkeep.sweep(self.database, max_bytes)

    async def back_up(self) -> None:
        if not self.database.in_memory and backups.due(self.database.path):
            from asyncio import to_thread

            await to_thread(backups.attempt, self.database.path)

    async def close(self) -> None:
        self.database.close()

    # ── what only a team has ──

    @property
    def people(self) -> PeopleStore:
        raise _no_team()

    @property
    def sessions(self) -> SessionStore:
        raise _no_team()

    @property
    def limits(self) -> LimitStore:
        raise _no_team()

    @property
    def person_keys(self) -> PersonKeyStore:
        raise _no_team()

    @property
    def audit(self) -> AuditStore:
        raise _no_team()

    def scoped(self, person: str) -> Store:
        raise _no_team(person)

    def of_team(self) -> Store:
        raise _no_team()

    async def sharings(self, conversations: Collection[str]) -> dict[str, Sharing]:
        raise _no_team(conversations)

    def share(self, conversation: str, at: float | None) -> Pending[bool]:
        raise _no_team(conversation, at)


def _no_team(*_: object) -> ConfigInvalid:
    return ConfigInvalid(
        "People and sharing need a database that a team shares.",
        hint="Set COUNSEL_DATABASE to a PostgreSQL database (docs/use/team.md).",
    )

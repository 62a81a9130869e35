"""The store on PostgreSQL: one database for any number of servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from counsel.engine.store.postgres import scope, upkeep
from counsel.engine.store.postgres.audit import AuditLog
from counsel.engine.store.postgres.budgets import Budgets
from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.postgres.conversations import Conversations
from counsel.engine.store.postgres.database import Database
from counsel.engine.store.postgres.jobs import Jobs
from counsel.engine.store.postgres.limits import Limits
from counsel.engine.store.postgres.mcp_sessions import McpSessions
from counsel.engine.store.postgres.people import People
from counsel.engine.store.postgres.person_keys import PersonKeys
from counsel.engine.store.postgres.presence import Presence
from counsel.engine.store.postgres.replies import Replies
from counsel.engine.store.postgres.sessions import Sessions
from counsel.engine.store.postgres.team import Team
from counsel.engine.store.postgres.uploads import Uploads
from counsel.engine.store.postgres.usage import Usage
from counsel.engine.store.records import NewJob
from counsel.errors import Internal


class PostgresStore(Jobs, Replies, Conversations, Usage, Budgets):
    """The server takes care of backups, damaged files and free space: `look`, `check` and `back_up` do nothing."""

    database: Database

    def __init__(self, url: str, *, without_loop: bool = False) -> None:
        self.database = Database(url, without_loop=without_loop)
        self.team = Team(self.database)
        self.mcp_sessions = McpSessions(self.database)
        self.uploads = Uploads(self.database)
        self.running: Callable[[], Sequence[NewJob]] = tuple  # not needed: the database is never rebuilt

    @property
    def presence(self) -> Presence:
        return self.database.presence

    def worker(self) -> int | None:
        return self.team.queue.worker

    @property
    def problem(self) -> str | None:
        return self.database.writer.problem

    def is_home(self) -> bool:
        return True

    def is_current(self) -> bool:
        return True

    async def flush(self) -> None:
        if not self.database.writer.is_idle:
            await self.database.write(_nothing)

    def look(self) -> None:
        pass

    async def check(self) -> None:
        pass

    async def sweep(self, max_bytes: int = 0) -> int:
        return await upkeep.sweep(self.database, max_bytes)

    async def back_up(self) -> None:
        pass

    async def close(self) -> None:
        await self.database.close()

    # ── a team ──

    @property
    def people(self) -> People:
        return People(self.database)

    @property
    def audit(self) -> AuditLog:
        return AuditLog(self.database)

    @property
    def sessions(self) -> Sessions:
        return Sessions(self.database)

    @property
    def limits(self) -> Limits:
        return Limits(self.database)

    @property
    def person_keys(self) -> PersonKeys:
        return PersonKeys(self.database)

    def scoped(self, person: str) -> ScopedStore:
        return ScopedStore(self, scope.of_person(person), person)

    def of_team(self) -> ScopedStore:
        return ScopedStore(self, scope.shared())


class ScopedStore(Jobs, Replies, Conversations, Usage, Budgets):
    """One person's view of a store. Only the store itself runs jobs and is closed."""

    def __init__(self, store: PostgresStore, rows: scope.Scope, person: str = "") -> None:
        self._store = store
        self.team = store.team
        self.database = scope.ScopedDatabase(store.database, rows)
        self.person = person
        self.mcp_sessions = store.mcp_sessions  # each call names its person
        self.uploads = store.uploads
        self.running: Callable[[], Sequence[NewJob]] = tuple

    @property
    def problem(self) -> str | None:
        return self._store.problem

    def is_home(self) -> bool:
        return True

    def is_current(self) -> bool:
        return True

    async def flush(self) -> None:
        await self._store.flush()

    def look(self) -> None:
        pass

    async def check(self) -> None:
        pass

    async def sweep(self, max_bytes: int = 0) -> int:  # noqa: ARG002 - the protocol has it
        raise Internal("A person's view of the store is not swept: the whole store is.")

    async def back_up(self) -> None:
        pass

    async def close(self) -> None:
        pass

    @property
    def people(self) -> People:
        return self._store.people

    @property
    def audit(self) -> AuditLog:
        return self._store.audit

    @property
    def sessions(self) -> Sessions:
        return self._store.sessions

    @property
    def limits(self) -> Limits:
        return self._store.limits

    @property
    def person_keys(self) -> PersonKeys:
        return self._store.person_keys

    def scoped(self, person: str) -> ScopedStore:
        return self._store.scoped(person)

    def of_team(self) -> ScopedStore:
        return self._store.of_team()


async def _nothing(_: Transaction) -> None:
    """The writer works in order, so everything queued before has been written."""

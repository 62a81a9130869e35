"""What one person sees of the store, or what the team shares: the same queries, on fewer rows.

A statement's tables are replaced by their visible rows here, the one place that all statements of a scoped store pass
through. So a later query cannot forget whose rows it may read, and a table without a rule is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from counsel.engine.store.postgres.commits import Transaction, Work, Write
from counsel.engine.store.postgres.connections import Row
from counsel.errors import Internal
from counsel.people import owners_seen_by

if TYPE_CHECKING:
    from counsel.engine.store.postgres.database import Database
    from counsel.engine.store.postgres.listener import Listener
    from counsel.engine.store.postgres.notifications import Changes

T = TypeVar("T")
# we make the ids of people; "" stands for callers who belong to no team
_ID = re.compile(r"[a-z][a-z0-9_]{0,63}|").fullmatch
_TABLE = re.compile(r"\bcounsel\.(\w+)")
_CHANGE = re.compile(r"(UPDATE|DELETE FROM|INSERT INTO) counsel\.(\w+)")
_CHANGEABLE = frozenset({"jobs", "conversations", "answers"})
_IN_MESSAGES = (
    "EXISTS (SELECT 1 FROM counsel.messages m JOIN counsel.conversations c ON c.id = m.conversation "
    'WHERE m.images @> ARRAY[b.sha COLLATE "default"] AND {})'
)

_NAMES = "SELECT id, name FROM counsel.people"  # who shared a conversation


class Statements(Protocol):
    """The part of a database that the parts of a store use."""

    @property
    def listener(self) -> Listener: ...

    @property
    def changes(self) -> Changes: ...

    def write(self, work: Work[T], *, may_wait: bool = False) -> Write[T]: ...

    async def row(self, sql: str, *values: object) -> Row | None: ...

    async def rows(self, sql: str, *values: object) -> list[Row]: ...


class Scope:
    """Which rows of each table are visible, as conditions."""

    def __init__(self, rows: Mapping[str, str], changeable: frozenset[str] = frozenset()) -> None:
        self._rows = rows
        self._changeable = changeable

    def statement(self, sql: str) -> str:
        """The statement on visible rows only. Raises `Internal` if there is no rule for it."""
        change = _CHANGE.match(sql)
        start = change.end() if change else 0
        if _CHANGE.search(sql, start) or not (change or sql.startswith("SELECT ")):
            raise Internal("A person's view of the store does not accept this statement.")
        tables = dict.fromkeys(_TABLE.findall(sql, start))
        if unknown := tables.keys() - self._rows.keys():
            raise Internal(f"A person's view of the store has no rows of {', '.join(unknown)}.")
        rest = _TABLE.sub(r"visible_\1", sql[start:])
        if change:
            rest = self._change_statement(change[1], change[2], rest)
        visible = ", ".join(f"visible_{name} AS NOT MATERIALIZED ({self._rows[name]})" for name in tables)
        return f"WITH {visible} {rest}" if visible else rest

    def _change_statement(self, verb: str, table: str, rest: str) -> str:
        if table not in self._changeable:
            raise Internal(f"A person's view of the store does not change {table}.")
        if verb == "INSERT INTO":
            if table != "answers":  # the statement itself names the person of these rows
                raise Internal(f"A person's view of the store does not add {table}.")
            return f"{verb} counsel.{table}{rest}"
        head, where, condition = rest.partition(" WHERE ")
        if not where or " RETURNING " in condition:
            raise Internal(f"A person's view of the store does not change all {table}.")
        is_own = self._rows[table].partition(" WHERE ")[2]
        return f"{verb} counsel.{table}{head} WHERE {is_own} AND ({condition})"


def of_person(person: str) -> Scope:
    if not _ID(person):
        raise Internal("A person's id has an unexpected form.")
    owners = ", ".join(f"'{owner}'" for owner in owners_seen_by(person))
    is_own = f"person IN ({owners})"
    by_job = f"EXISTS (SELECT 1 FROM counsel.jobs j WHERE j.id = t.job AND j.{is_own})"
    by_conversation = (
        f"EXISTS (SELECT 1 FROM counsel.conversations c WHERE c.id = t.conversation AND c.{is_own})"
    )
    in_jobs = f'EXISTS (SELECT 1 FROM counsel.jobs j WHERE j.images @> ARRAY[b.sha COLLATE "default"] AND j.{is_own})'
    owned_tables = ("jobs", "conversations", "usage", "reservations", "answers")
    return Scope(
        {
            **{table: f"SELECT * FROM counsel.{table} WHERE {is_own}" for table in owned_tables},
            **{table: f"SELECT t.* FROM counsel.{table} t WHERE {by_job}" for table in ("calls", "events")},
            **{
                table: f"SELECT t.* FROM counsel.{table} t WHERE {by_conversation}"
                for table in ("messages", "sessions")
            },
            "people": _NAMES,
            "blobs": f"SELECT b.* FROM counsel.blobs b WHERE {in_jobs} OR {_IN_MESSAGES.format(f'c.{is_own}')}",
        },
        _CHANGEABLE,
    )


def shared() -> Scope:
    """Conversations that their owners have shared, with their images, read-only."""
    is_shared = "shared IS NOT NULL"
    empty_tables = ("jobs", "usage", "reservations", "answers", "calls", "events", "sessions")
    return Scope(
        {
            **{table: f"SELECT * FROM counsel.{table} WHERE FALSE" for table in empty_tables},
            "people": _NAMES,
            "conversations": f"SELECT * FROM counsel.conversations WHERE {is_shared}",
            "messages": "SELECT t.* FROM counsel.messages t WHERE EXISTS "
            f"(SELECT 1 FROM counsel.conversations c WHERE c.id = t.conversation AND c.{is_shared})",
            "blobs": f"SELECT b.* FROM counsel.blobs b WHERE {_IN_MESSAGES.format(f'c.{is_shared}')}",
        }
    )


class ScopedTransaction(Transaction):
    def __init__(self, transaction: Transaction, scope: Scope) -> None:
        super().__init__(transaction._connection)  # noqa: SLF001 - the same transaction
        self._scope = scope
        self.changed = transaction.changed

    async def execute(self, sql: str, *values: object) -> int:
        return await super().execute(self._scope.statement(sql), *values)

    async def row(self, sql: str, *values: object) -> Row | None:
        return await super().row(self._scope.statement(sql), *values)

    async def rows(self, sql: str, *values: object) -> list[Row]:
        return await super().rows(self._scope.statement(sql), *values)


class ScopedDatabase:
    """`Statements` on the rows of a scope."""

    def __init__(self, database: Database, scope: Scope) -> None:
        self._database = database
        self._scope = scope

    @property
    def listener(self) -> Listener:
        return self._database.listener

    @property
    def changes(self) -> Changes:
        return self._database.changes

    def write(self, work: Work[T], *, may_wait: bool = False) -> Write[T]:
        async def scoped(db: Transaction) -> T:
            return await work(ScopedTransaction(db, self._scope))

        return self._database.write(scoped, may_wait=may_wait)

    async def row(self, sql: str, *values: object) -> Row | None:
        rows = await self.rows(sql, *values)
        return rows[0] if rows else None

    async def rows(self, sql: str, *values: object) -> list[Row]:
        return await self._database.rows(self._scope.statement(sql), *values)

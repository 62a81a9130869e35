"""Limits of people, groups and providers: one table that all servers read."""

from __future__ import annotations

from counsel.engine.store.limits import LimitRow
from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.postgres.database import Database
from counsel.engine.store.protocol import Pending


class Limits:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def listed(self) -> list[LimitRow]:
        rows = await self._database.rows(
            "SELECT l.kind, l.name, l.day, l.month, l.per_minute, l.at_once, COALESCE(p.name, l.name) "
            "FROM counsel.limits l LEFT JOIN counsel.people p ON l.kind = 'person' AND p.id = l.name "
            "ORDER BY l.kind, 7"
        )
        return [LimitRow(*row) for row in rows]

    def set(self, row: LimitRow) -> Pending[None]:
        async def work(db: Transaction) -> None:
            await db.execute("DELETE FROM counsel.limits WHERE kind = %s AND name = %s", row.kind, row.name)
            if not row.is_empty:
                await db.execute(
                    "INSERT INTO counsel.limits (kind, name, day, month, per_minute, at_once) "
                    "VALUES (%s, %s, %s, %s, %s, %s)",
                    row.kind,
                    row.name,
                    row.day,
                    row.month,
                    row.per_minute,
                    row.at_once,
                )

        return self._database.write(work)

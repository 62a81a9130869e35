"""Usage records (the table `ledger`) and cached answers."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from operator import attrgetter

from counsel.engine.store.model import Reply
from counsel.engine.store.protocol import Pending
from counsel.engine.store.records import UsageRecord, UsageTotal
from counsel.engine.store.sqlite import budgets
from counsel.engine.store.sqlite.database import Database

_COLUMNS = (
    "at", "job", "tool", "provider", "model", "client", "ms", "code",
    "input", "output", "reasoning", "cache_read", "cache_write", "cost",
)  # fmt: skip
_SELECTED = ", ".join(_COLUMNS)
_values = attrgetter(*_COLUMNS)


class Usage:
    database: Database

    def record_usage(self, usage: UsageRecord) -> Pending[None]:
        return self.database.soon(lambda db: insert(db, [usage]))

    async def usage(self, since: float) -> list[UsageRecord]:
        rows = await self.database.search(
            f"SELECT {_SELECTED}, COALESCE(project, '') FROM ledger LEFT JOIN usage_projects USING (job) "
            "WHERE at >= ? ORDER BY at",
            since,
        )
        return [UsageRecord(*row) for row in rows]

    async def usage_totals(self) -> list[UsageTotal]:
        failures = await self.database.search(
            "SELECT provider, model, code, COUNT(*) FROM ledger WHERE code != '' GROUP BY provider, model, code"
        )
        errors: dict[tuple[str, str], dict[str, int]] = {}
        for provider, model, code, count in failures:
            errors.setdefault((provider, model), {})[code] = count
        rows = await self.database.search(
            "SELECT provider, model, COUNT(*), SUM(input), SUM(output), COALESCE(SUM(cost), 0), SUM(ms) / 1000.0 "
            "FROM ledger GROUP BY provider, model"
        )
        return [UsageTotal(*[*row, errors.get((row[0], row[1]), {})]) for row in rows]

    async def cached_answer(self, key: str) -> Reply | None:
        row = self.database.row("SELECT reply FROM answers WHERE key = ? AND expires > ?", key, time.time())
        return Reply.load(row[0]) if row else None

    def cache_answer(self, key: str, reply: Reply, *, expires: float) -> Pending[None]:
        def work(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO answers VALUES (?,?,?)", (key, expires, reply.dump()))

        return self.database.soon(work)


def insert(db: sqlite3.Connection, usage: Sequence[UsageRecord]) -> None:
    for record in usage:
        db.execute("INSERT INTO ledger VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)", _values(record))
        if record.project:
            db.execute("INSERT OR IGNORE INTO usage_projects VALUES (?,?)", (record.job, record.project))
        if record.reservations:
            budgets.replace_with_cost(db, record.reservations, record.cost)

"""Usage records and cached answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter

from counsel.engine.store.model import Reply
from counsel.engine.store.postgres import budgets
from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.postgres.scope import Statements
from counsel.engine.store.protocol import Pending
from counsel.engine.store.records import UsageRecord, UsageTotal

_COLUMNS = [field.name for field in fields(UsageRecord) if field.name != "reservations"]
_SELECTED = ", ".join(_COLUMNS)
# The person comes from the job's row, so that no writer can forget it.
_INSERT = (
    f"INSERT INTO counsel.usage ({_SELECTED}, person) VALUES ({', '.join(['%s'] * len(_COLUMNS))}, "
    "COALESCE((SELECT person FROM counsel.jobs WHERE id = %s), ''))"
)
_values = attrgetter(*_COLUMNS)


class Usage:
    database: Statements
    person: str = ""

    def record_usage(self, usage: UsageRecord) -> Pending[None]:
        async def work(db: Transaction) -> None:
            await insert(db, [usage])

        return self.database.write(work)

    async def usage(self, since: float) -> list[UsageRecord]:
        rows = await self.database.rows(
            f"SELECT {_SELECTED} FROM counsel.usage WHERE at >= %s ORDER BY at, id", since
        )
        return [UsageRecord(*row) for row in rows]

    async def usage_totals(self) -> list[UsageTotal]:
        failures = await self.database.rows(
            "SELECT provider, model, code, COUNT(*) FROM counsel.usage WHERE code != '' GROUP BY provider, model, code"
        )
        errors: dict[tuple[str, str], dict[str, int]] = {}
        for provider, model, code, count in failures:
            errors.setdefault((provider, model), {})[code] = count
        rows = await self.database.rows(
            "SELECT provider, model, COUNT(*), SUM(input)::int8, SUM(output)::int8, COALESCE(SUM(cost), 0), "
            "SUM(ms)::float8 / 1000 FROM counsel.usage GROUP BY provider, model"
        )
        return [UsageTotal(*[*row, errors.get((row[0], row[1]), {})]) for row in rows]

    async def cached_answer(self, key: str) -> Reply | None:
        row = await self.database.row(
            "SELECT reply FROM counsel.answers WHERE key = %s AND expires > %s",
            self._own_key(key),
            time.time(),
        )
        return Reply.load(row[0]) if row else None

    def cache_answer(self, key: str, reply: Reply, *, expires: float) -> Pending[None]:
        reply_json = reply.dump()

        async def work(db: Transaction) -> None:
            await db.execute(
                "INSERT INTO counsel.answers (key, expires, reply, person) VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (key) DO UPDATE SET expires = excluded.expires, reply = excluded.reply",
                self._own_key(key),
                expires,
                reply_json,
                self.person,
            )

        return self.database.write(work)

    def _own_key(self, key: str) -> str:
        """Two people who ask the same have separate answers."""
        return f"{self.person}:{key}" if self.person else key


async def insert(db: Transaction, usage: Sequence[UsageRecord]) -> None:
    for record in usage:
        await db.execute(_INSERT, *_values(record), record.job)
        if record.reservations:
            await budgets.replace_with_cost(db, record.reservations, record.cost)

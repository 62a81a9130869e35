"""The audit log: rows are added and expire; nothing changes one."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter

from counsel.engine.store.audit import AuditRecord
from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.postgres.database import Database
from counsel.engine.store.protocol import Pending

_COLUMNS = [field.name for field in fields(AuditRecord)]
_SELECTED = ", ".join(_COLUMNS)
_values = attrgetter(*_COLUMNS)


class AuditLog:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, record: AuditRecord, expires: float) -> Pending[None]:
        async def work(db: Transaction) -> None:
            await db.execute(
                f"INSERT INTO counsel.audit ({_SELECTED}, expires) VALUES ({', '.join(['%s'] * len(_COLUMNS))}, %s)",
                *_values(record),
                expires,
            )

        return self._database.write(work, may_wait=True)

    async def read(self, since: float, person: str | None, limit: int) -> list[AuditRecord]:
        condition = (
            ""
            if person is None
            else (" AND (person = %s OR person IN (SELECT id FROM counsel.people WHERE folded = %s))")
        )
        rows = await self._database.rows(
            f"SELECT {_SELECTED} FROM counsel.audit WHERE at >= %s{condition} ORDER BY at DESC, id DESC LIMIT %s",
            since,
            *(() if person is None else (person, person)),
            limit,
        )
        return [AuditRecord(*row) for row in rows]

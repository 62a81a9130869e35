"""Whether the database can be used, and how far the servers are behind."""

from __future__ import annotations

from counsel.engine.store.health import QueueState
from counsel.engine.store.postgres import schema
from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.postgres.database import Database
from counsel.engine.store.records import StoreError

_QUEUE = """
    SELECT COUNT(*), COUNT(*) FILTER (WHERE late),
        COALESCE(EXTRACT(EPOCH FROM clock_timestamp()) - MIN(created) FILTER (WHERE late), 0)::float8
    FROM (
        SELECT created, owner = '' AND NOT EXISTS (
            SELECT 1 FROM counsel.jobs e
            WHERE e.conversation = j.conversation AND e.turn < j.turn AND e.status = 'processing'
        ) AS late
        FROM counsel.jobs j WHERE status = 'processing'
    ) AS unfinished
"""


class Health:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def check(self) -> None:
        """Raises `StoreError` when the database cannot be used, `ConfigInvalid` when its tables do not match.

        Reading alone proves little: with all connections in use elsewhere, a connected pool can still read, while
        nothing can be written and no call is sent.
        """
        schema.check(await schema.state(self._database.rows), self._database.info)
        if not self._database.presence.is_seen():
            raise StoreError("The LISTEN connection is lost: this process cannot show that it is alive.")
        if self._database.writer.problem:
            await self._database.write(_nothing)  # only a write that succeeds ends the problem

    async def queue(self) -> QueueState:
        row = await self._database.row(_QUEUE)
        assert row is not None
        return QueueState(int(row[0]), int(row[1]), max(0.0, float(row[2])))


async def _nothing(_: Transaction) -> None:
    """An empty transaction."""

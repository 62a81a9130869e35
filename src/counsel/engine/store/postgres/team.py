"""What servers on several machines share besides stored data: presence, the queue, and one secret."""

from __future__ import annotations

import secrets

from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.postgres.database import Database
from counsel.engine.store.postgres.health import Health
from counsel.engine.store.postgres.presence import Presence
from counsel.engine.store.postgres.queue import Queue

_LENGTH = 32  # bytes


class Team:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.queue = Queue(database)

    @property
    def health(self) -> Health:
        return Health(self._database)

    @property
    def presence(self) -> Presence:
        return self._database.presence

    async def secret(self) -> bytes:
        """Reads first: if the database cannot be used, a read fails at once, while a write would wait for it."""
        select = "SELECT value FROM counsel.secrets WHERE name = 'fingerprints'"
        row = await self._database.row(select)
        if row is None:
            value = secrets.token_bytes(_LENGTH)

            async def work(db: Transaction) -> None:
                await db.execute(
                    "INSERT INTO counsel.secrets (name, value) VALUES ('fingerprints', %s) ON CONFLICT DO NOTHING",
                    value,
                )

            await self._database.write(work)
            row = await self._database.row(select)
        assert row is not None
        return bytes(row[0])

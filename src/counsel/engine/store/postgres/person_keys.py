"""People's own keys, encrypted; they are deleted with the person."""

from __future__ import annotations

from collections.abc import Mapping

from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.postgres.database import Database
from counsel.engine.store.protocol import Pending


class PersonKeys:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def sealed(self, person: str) -> dict[str, bytes]:
        rows = await self._database.rows(
            "SELECT provider, sealed FROM counsel.person_keys WHERE person = %s", person
        )
        return {provider: bytes(ciphertext) for provider, ciphertext in rows}

    async def stored(self, person: str) -> dict[str, float]:
        rows = await self._database.rows(
            "SELECT provider, stored FROM counsel.person_keys WHERE person = %s ORDER BY provider", person
        )
        return dict(rows)

    def set(self, person: str, provider: str, ciphertext: bytes, at: float) -> Pending[None]:
        async def work(db: Transaction) -> None:
            await db.execute(
                "INSERT INTO counsel.person_keys (person, provider, sealed, stored) VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (person, provider) DO UPDATE SET sealed = excluded.sealed, stored = excluded.stored",
                person,
                provider,
                ciphertext,
                at,
            )

        return self._database.write(work)

    def remove(self, person: str, provider: str) -> Pending[bool]:
        async def work(db: Transaction) -> bool:
            return (
                await db.execute(
                    "DELETE FROM counsel.person_keys WHERE person = %s AND provider = %s", person, provider
                )
                == 1
            )

        return self._database.write(work)

    async def all(self) -> Mapping[tuple[str, str], bytes]:
        rows = await self._database.rows("SELECT person, provider, sealed FROM counsel.person_keys")
        return {(person, provider): bytes(ciphertext) for person, provider, ciphertext in rows}

    def reseal(self, person: str, provider: str, before: bytes, after: bytes) -> Pending[bool]:
        async def work(db: Transaction) -> bool:
            count = await db.execute(
                "UPDATE counsel.person_keys SET sealed = %s WHERE person = %s AND provider = %s AND sealed = %s",
                after,
                person,
                provider,
                before,
            )
            return count == 1

        return self._database.write(work)

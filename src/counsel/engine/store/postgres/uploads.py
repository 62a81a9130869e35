"""Files that people sent over HTTP, for questions that may reach another server."""

from __future__ import annotations

from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.postgres.database import Database
from counsel.engine.store.protocol import Pending

KEEP = 86_400.0  # seconds
MOST_FILES = 500  # of one person
MOST_BYTES = 512 * 1024 * 1024  # of one person's files together
_NEWEST_FIRST = (
    "SELECT id, row_number() OVER newest AS n, SUM(octet_length(data)) OVER newest AS bytes FROM counsel.uploads "
    "WHERE person = %s WINDOW newest AS (ORDER BY created DESC, id)"
)


class Uploads:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, person: str, file: str, data: bytes) -> Pending[None]:
        """Store a file; delete the person's oldest ones beyond the limits."""

        async def work(db: Transaction) -> None:
            await db.execute(
                "INSERT INTO counsel.uploads (id, person, file, data) VALUES (%s, %s, %s, %s)",
                name,
                person,
                file,
                data,
            )
            await db.execute(
                f"DELETE FROM counsel.uploads WHERE id IN (SELECT id FROM ({_NEWEST_FIRST}) AS own "
                "WHERE n > %s OR (bytes > %s AND n > 1))",
                person,
                MOST_FILES,
                MOST_BYTES,
            )

        return self._database.write(work)

    async def read(self, name: str, person: str) -> tuple[str, bytes] | None:
        """The file's name and content; None if this person has no such upload."""
        row = await self._database.row(
            "SELECT file, data FROM counsel.uploads WHERE id = %s AND person = %s "
            "AND created > clock_timestamp() - make_interval(secs => %s)",
            name,
            person,
            KEEP,
        )
        return (row[0], bytes(row[1])) if row else None

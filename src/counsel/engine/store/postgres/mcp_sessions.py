"""MCP sessions over HTTP, shared by all servers: a client's next request may reach another one."""

from __future__ import annotations

from counsel.engine.store.postgres.commits import Transaction
from counsel.engine.store.postgres.database import Database
from counsel.engine.store.protocol import Pending

IDLE_SECONDS = 3_600.0  # after which an unused session ends
MOST = 1_000  # per person; beyond that, the least recently used are deleted
_FRESH = "seen > clock_timestamp() - make_interval(secs => %s)"


class McpSessions:
    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, name: str, person: str, state: str) -> Pending[None]:
        async def work(db: Transaction) -> None:
            await db.execute(
                "INSERT INTO counsel.mcp_sessions (id, person, state) VALUES (%s, %s, %s)",
                name,
                person,
                state,
            )
            await db.execute(
                "DELETE FROM counsel.mcp_sessions WHERE id IN (SELECT id FROM counsel.mcp_sessions "
                "WHERE person = %s ORDER BY seen DESC OFFSET %s)",
                person,
                MOST,
            )

        return self._database.write(work)

    async def use(self, name: str, person: str) -> str | None:
        """The state of this person's session, whose lifetime begins again; None: there is none."""
        row = await self._database.row(
            "UPDATE counsel.mcp_sessions SET seen = clock_timestamp(), uses = uses + 1 "
            f"WHERE id = %s AND person = %s AND {_FRESH} RETURNING state",
            name,
            person,
            IDLE_SECONDS,
        )
        return row[0] if row else None

    async def uses(self, name: str) -> int:
        """How often the servers have used the session; 0 if it has ended."""
        row = await self._database.row("SELECT uses FROM counsel.mcp_sessions WHERE id = %s", name)
        return int(row[0]) if row else 0

    def close(self, name: str) -> Pending[None]:
        async def work(db: Transaction) -> None:
            await db.execute("DELETE FROM counsel.mcp_sessions WHERE id = %s", name)

        return self._database.write(work)

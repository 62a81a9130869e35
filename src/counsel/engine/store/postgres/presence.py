"""Which owners of jobs live, for servers on several machines (docs/decisions/22-presence-in-postgresql.md).

An owner has a row that it renews every two seconds, by the database's clock, and a lock that belongs to its LISTEN
connection. It counts as dead when its row is old, or sooner when its lock is free, too. Both can be wrong about a process
that lives (it was suspended, its connection was cut): the fence makes a wrong guess harmless.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection

from counsel.engine.store.postgres.connections import Connection, Row, clean

BEAT = 2.0  # seconds between two renewals
DEAD_AFTER = 15.0  # seconds without a renewal
DEAD_UNLOCKED = (
    5.0  # the same, when the connection is gone, too: its owner connects again within a second or two
)
_LOCKS = 0x636F756E  # the class of our advisory locks
_HELD = (
    "EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    f"AND classid = {_LOCKS} AND objid = o.id)"
)


class Presence:
    """The owners in this process, and what the database knows of others."""

    def __init__(self, start: Callable[[], None], rows: Callable[..., Awaitable[list[Row]]]) -> None:
        self._start = start
        self._rows = rows
        self._names: set[str] = set()
        self._locked: tuple[Connection | None, set[str]] = (None, set())
        self._renewed = asyncio.Event()
        self.confirmed = 0.0  # by time.monotonic(): when the last successful renewal was begun

    async def hold(self, owner: str) -> None:
        """Show from now on that this owner lives; returns when the others can see it."""
        self._names.add(owner)
        self._renewed.clear()
        self._start()
        await self._renewed.wait()

    def is_sure(self) -> bool:
        """Whether no other process can take our owners for dead. Else no new call should be sent."""
        return time.monotonic() - self.confirmed < DEAD_AFTER

    async def release(self, owner: str) -> None:
        """It owns nothing any more."""
        self._names.discard(owner)
        await self._rows("DELETE FROM counsel.owners WHERE name = %s RETURNING name", owner)

    async def dead(self, owners: Collection[str]) -> set[str]:
        """Those that are dead. An owner without a row proves nothing: it may be of a release that has none."""
        rows = await self._rows(
            "SELECT name, extract(epoch FROM clock_timestamp() - seen)::float8 AS age, "
            f"{_HELD} FROM counsel.owners o WHERE name = ANY(%s)",
            list(owners),
        )
        return {
            name
            for name, age, locked in rows
            if name not in self._names and age > (DEAD_AFTER if locked else DEAD_UNLOCKED)
        }

    async def beat(self, connection: Connection) -> None:
        """Renew our rows and have our locks. Raises when the connection is lost."""
        names = set(self._names)
        if not names:
            await connection.execute("SELECT 1")  # notices a connection that died silently
            return
        began = time.monotonic()
        cursor = await connection.execute(
            "INSERT INTO counsel.owners (name) SELECT unnest(%s::text[]) "
            "ON CONFLICT (name) DO UPDATE SET seen = clock_timestamp() RETURNING name, id",
            [sorted(clean(name) for name in names)],
        )
        await self._lock(connection, dict(await cursor.fetchall()))
        self.confirmed = began
        if names >= self._names:
            self._renewed.set()

    async def _lock(self, connection: Connection, ids: dict[str, int]) -> None:
        """Never waits: the lock of our own connection that was cut may still be there for a while."""
        if self._locked[0] is not connection:
            self._locked = (connection, set())
        for name in ids.keys() - self._locked[1]:
            cursor = await connection.execute("SELECT pg_try_advisory_lock(%s, %s)", [_LOCKS, ids[name]])
            row = await cursor.fetchone()
            if row and row[0]:
                self._locked[1].add(name)

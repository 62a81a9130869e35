"""Which owners of jobs are alive, for servers on several machines (docs/decisions/23-presence-in-postgresql.md).

An owner has a row that it renews every two seconds, by the database's clock, and a lock that belongs to its LISTEN
connection. It counts as dead when its row is old, or sooner if its lock is free as well. Both can be wrong about a live
process (it was suspended, its connection was cut): the fence makes a wrong guess harmless.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Literal

from counsel.engine.store.postgres.connections import Connection, Row, clean

BEAT = 2.0  # seconds between two renewals
DEAD_AFTER = 15.0  # seconds without a renewal
# the same if the connection is gone, too: a live owner connects again within a second or two
DEAD_UNLOCKED = 5.0
SURE_SECONDS = DEAD_UNLOCKED - 1.0  # after a renewal in which no other process can consider us dead
SETTLE_SECONDS = DEAD_UNLOCKED  # of our own renewals before we may declare others dead
_LOCKS = 0x636F756E  # the class of our advisory locks
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # also counts while the machine sleeps
_IS_LOCKED = (
    "EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    f"AND classid = {_LOCKS} AND objid = o.id)"
)


def _now() -> float:
    return time.clock_gettime(_CLOCK)


class Presence:
    """The owners in this process, and the state of others according to the database."""

    def __init__(self, start: Callable[[], None], rows: Callable[..., Awaitable[list[Row]]]) -> None:
        self._start = start
        self._rows = rows
        self._names: set[str] = set()
        self.queues: Sequence[str] = ()  # from which this process takes jobs
        self._locked: tuple[Connection | None, set[str]] = (None, set())
        self._rowless: dict[str, float] = {}  # owners without a row: when we first saw that
        self._renewed = asyncio.Event()
        self.confirmed = float("-inf")  # by our clock: when the last successful renewal began
        self._steady = float("inf")  # by our clock: since when renewals have been without a gap
        self.gaps = 0  # how often renewals were so far apart that others may have considered us dead

    async def hold(self, owner: str) -> None:
        """Show from now on that this owner is alive; return when other processes can see it."""
        self._names.add(owner)
        self._renewed.clear()
        self._start()
        await self._renewed.wait()

    def is_sure(self) -> bool:
        """Whether no other process can consider our owners dead. If not, no new call should be sent."""
        return _now() - self.confirmed < SURE_SECONDS

    async def sure(self) -> None:
        """Wait until `is_sure`: not at all, or for the next renewal."""
        while not self.is_sure():
            self._renewed.clear()
            self._start()
            await self._renewed.wait()

    def is_seen(self) -> bool:
        """Whether other processes can still see that this one is alive, if it owns jobs."""
        return not self._names or _now() - self.confirmed < DEAD_UNLOCKED

    def may_judge(self) -> bool:
        """Whether others had time to renew their rows: after an outage of the database or of us, all rows are old."""
        return self.is_sure() and _now() - self._steady > SETTLE_SECONDS

    async def release(self, owner: str) -> None:
        """The owner no longer has jobs."""
        self._names.discard(owner)
        await self._rows("DELETE FROM counsel.owners WHERE name = %s RETURNING name", owner)

    async def dead(self, owners: Collection[str]) -> set[str]:
        return {owner for owner, state in (await self.states(owners)).items() if state == "dead"}

    async def states(self, owners: Collection[str]) -> dict[str, Literal["alive", "dead", "unknown"]]:
        """The state of each owner. Without a row an owner is unknown at first: a live one would write its row again
        within seconds."""
        rows = await self._rows(
            "SELECT name, extract(epoch FROM clock_timestamp() - seen)::float8 AS age, "
            f"{_IS_LOCKED} FROM counsel.owners o WHERE name = ANY(%s)",
            list(owners),
        )
        states: dict[str, Literal["alive", "dead", "unknown"]] = {}
        for name, age, locked in rows:
            is_old = age > (DEAD_AFTER if locked else DEAD_UNLOCKED)
            is_dead = name not in self._names and is_old and self.may_judge()
            states[name] = "dead" if is_dead else "alive"
            self._rowless.pop(name, None)
        for name in set(owners) - states.keys():
            since = self._rowless.setdefault(name, _now())
            states[name] = "dead" if _now() - since > DEAD_AFTER and self.may_judge() else "unknown"
        return states

    async def beat(self, connection: Connection) -> None:
        """Renew our rows and take our locks. Raises when the connection is lost."""
        names = set(self._names)
        if not names:
            await connection.execute("SELECT 1")  # notices a connection that died silently
            return
        began = _now()
        cursor = await connection.execute(
            "INSERT INTO counsel.owners (name, queues) SELECT unnest(%s::text[]), %s::text[] ON CONFLICT (name) "
            "DO UPDATE SET seen = clock_timestamp(), queues = excluded.queues RETURNING name, id",
            [sorted(clean(name) for name in names), list(self.queues)],
        )
        await self._lock(connection, dict(await cursor.fetchall()))
        if _now() - self.confirmed >= SURE_SECONDS:
            self.gaps += self.confirmed > float("-inf")
            self._steady = began
        self.confirmed = began
        if names >= self._names:
            self._renewed.set()

    async def _lock(self, connection: Connection, ids: dict[str, int]) -> None:
        """Never waits: our own earlier connection, if it was cut, may still hold the lock for a while."""
        if self._locked[0] is not connection:
            self._locked = (connection, set())
        for name in ids.keys() - self._locked[1]:
            cursor = await connection.execute("SELECT pg_try_advisory_lock(%s, %s)", [_LOCKS, ids[name]])
            row = await cursor.fetchone()
            if row and row[0]:
                self._locked[1].add(name)

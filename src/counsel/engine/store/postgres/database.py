"""The connections of one process: a pool for reads, one that writes, one that listens."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

import psycopg

from counsel.engine.store.postgres import connections, schema
from counsel.engine.store.postgres.commits import Work, Write
from counsel.engine.store.postgres.connections import Row, bound
from counsel.engine.store.postgres.listener import Listener
from counsel.engine.store.postgres.notifications import Changes
from counsel.engine.store.postgres.presence import Presence
from counsel.engine.store.postgres.writer import Writer

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool

T = TypeVar("T")
READ_SECONDS = 10.0  # that a read waits for a database that cannot be reached
_READERS = 8  # connections at most
# seconds; the pool's own pauses double: after a long outage reads would fail for two more minutes
_RECONNECT = 2.0
_CONNECT = 3.0  # seconds that a read waits for a connection of the pool before it looks for dead ones


class Database:
    """Connects on the first read or write."""

    def __init__(self, url: str, *, without_loop: bool = False) -> None:
        self.info = connections.conninfo(url)
        self._without_loop = without_loop
        self._sync_connection: psycopg.Connection[Row] | None = None  # without a loop
        self._pool: AsyncConnectionPool[connections.Connection] | None = None
        self._failure: psycopg.Error | None = None  # why the pool has no connection
        self._opening = asyncio.Lock()
        self._checked = False
        self.changes = Changes()
        self.writer = Writer(self.info, self._ready, self.changes.report)
        self.presence = Presence(self._listen, self.rows)
        self.listener = Listener(self.info, self._ready, lambda: self.writer.pid, self.changes, self.presence)

    def write(self, work: Work[T], *, may_wait: bool = False) -> Write[T]:
        return self.writer.write(work, may_wait=may_wait)

    async def row(self, sql: str, *values: object) -> Row | None:
        rows = await self.rows(sql, *values)
        return rows[0] if rows else None

    async def rows(self, sql: str, *values: object) -> list[Row]:
        """Read, again on another connection when one was lost. Raises `StoreError`."""
        if self._without_loop:
            return self._rows_sync(sql, values)
        deadline = time.monotonic() + READ_SECONDS
        while True:
            try:
                with connections.cancellable():
                    await self._ready()
                    return await self._read(sql, values)
            except (psycopg.Error, OSError) as error:
                cause = self._failure or error
                if (
                    time.monotonic() > deadline
                    or not connections.is_lost(error)
                    or connections.is_refused(cause)
                ):
                    raise connections.unreachable(self.info, cause) from error
                if self._pool is not None:
                    await self._pool.check()  # after a restart of the server all of them are dead
                await asyncio.sleep(0.05)

    async def close(self) -> None:
        await self.listener.close()
        await self.writer.close()
        if self._pool is not None:
            await self._pool.close()
        if self._sync_connection is not None:
            self._sync_connection.close()

    def _listen(self) -> None:
        self.listener.start()

    async def _ready(self) -> None:
        """Open the pool, and check once that the tables match. Raises `ConfigInvalid`, or psycopg's errors."""
        if self._checked:
            return
        async with self._opening:
            if not self._checked:
                async with await connections.connect(self.info) as connection:  # fails at once, and says why
                    schema.check(await schema.state(_reader(connection)), self.info)
                self._pool = self._pool or await self._new_pool()
                self._checked = True

    async def _new_pool(self) -> AsyncConnectionPool[connections.Connection]:
        from psycopg_pool import AsyncConnectionPool

        database = self

        class Pooled(psycopg.AsyncConnection[Row]):
            """Stores why connecting failed: the pool itself only says how long it has waited, and logs each attempt."""

            @classmethod
            async def connect(cls, conninfo: str = "", **options: Any) -> Self:
                try:
                    connection = await super().connect(conninfo, **options)
                except psycopg.Error as error:
                    database._failure = error
                    raise
                database._failure = None
                return connection

        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
        pool: AsyncConnectionPool[connections.Connection] = AsyncConnectionPool(
            self.info,
            connection_class=Pooled,
            kwargs={"autocommit": True},
            min_size=1,
            max_size=_READERS,
            timeout=_CONNECT,
            reconnect_timeout=_RECONNECT,
            open=False,
            name="counsel",
        )
        await pool.open()
        return pool

    async def _read(self, sql: str, values: tuple[object, ...] = ()) -> list[Row]:
        assert self._pool is not None
        async with self._pool.connection() as connection:
            return await (await connection.execute(sql.encode(), bound(values))).fetchall()

    def _rows_sync(self, sql: str, values: tuple[object, ...]) -> list[Row]:
        try:
            if self._sync_connection is None:
                self._sync_connection = psycopg.connect(self.info, autocommit=True)
                schema.check(schema.state_sync(self._sync_connection), self.info)
            return self._sync_connection.execute(sql.encode(), bound(values)).fetchall()
        except psycopg.Error as error:
            raise connections.unreachable(self.info, error) from error


def _reader(connection: connections.Connection) -> Callable[[str], Awaitable[list[Row]]]:
    async def read(sql: str) -> list[Row]:
        return await (await connection.execute(sql.encode())).fetchall()

    return read

"""Writes that share one transaction, and how to find out whether a commit without an answer took effect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import field
from typing import Any, Generic, TypeAlias, TypeVar

import psycopg
from psycopg import sql

from counsel.engine.store.postgres import connections
from counsel.engine.store.postgres.connections import Connection, Row, bound, clean
from counsel.engine.store.records import LostJob, StoreError
from counsel.lazy_dataclass import dataclass

log = logging.getLogger("counsel.store")
T = TypeVar("T")
CHANNEL = "counsel"
QUEUE_CHANNEL = "procrastinate_any_queue_v1"  # procrastinate notifies it about new rows, we about those that are free again
_LONGEST_PAYLOAD = 200  # bytes of a job's id in a notification; PostgreSQL takes 8,000


class Transaction:
    """What a write gets: statements inside the transaction that it shares with others."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.changed: dict[str, None] = {}  # jobs whose followers should read again; in order

    async def execute(self, text: str, *values: object) -> int:
        """Return how many rows were affected."""
        return (await self._connection.execute(text.encode(), bound(values))).rowcount

    async def row(self, text: str, *values: object) -> Row | None:
        return await (await self._connection.execute(text.encode(), bound(values))).fetchone()

    async def rows(self, text: str, *values: object) -> list[Row]:
        return await (await self._connection.execute(text.encode(), bound(values))).fetchall()

    def notify(self, job: str) -> None:
        self.changed[job] = None

    async def commit(self) -> None:
        """Commit and notify in one round trip. Notifications have only ids: followers read what has changed."""
        statement: sql.SQL | sql.Composed = sql.SQL("COMMIT")
        if self.changed:
            payloads = [clean(job) if len(job.encode()) <= _LONGEST_PAYLOAD else "" for job in self.changed]
            notify = sql.SQL("SELECT pg_notify({}, job) FROM unnest({}::text[]) AS job; COMMIT")
            statement = notify.format(CHANNEL, payloads)
        await self._connection.execute(statement, prepare=False)


Work: TypeAlias = Callable[[Transaction], Awaitable[T]]


class Write(Generic[T]):
    """A write in progress. Cancelling the task that awaits it does not stop it."""

    def __init__(self, work: Work[T]) -> None:
        self.work = work
        self._future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._future.add_done_callback(self._log_failure)
        self._is_awaited = False

    def __await__(self) -> Generator[object, None, T]:
        self._is_awaited = True
        return asyncio.shield(self._future).__await__()

    def done(self) -> bool:
        return self._future.done()

    def exception(self) -> BaseException | None:
        return self._future.exception()

    def settle(self, outcome: Outcome) -> None:
        if outcome.error is None:
            self._future.set_result(outcome.value)
        else:
            self._future.set_exception(outcome.error)

    def _log_failure(self, future: asyncio.Future[T]) -> None:
        error = future.exception()
        if error is not None and not self._is_awaited:
            log.error("a write failed: %s", error)


@dataclass(frozen=True, slots=True)
class Outcome:
    value: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class Commit:
    """One transaction; `sent` and `xid` tell how far it got when the connection is lost."""

    connection: Connection
    xid: str = ""  # the server's number of the transaction
    sent: bool = False  # COMMIT was sent: without an answer it may have taken effect
    outcomes: list[Outcome] = field(default_factory=list)
    changed: Sequence[str] = ()

    async def run(self, batch: Sequence[Write[object]]) -> None:
        """Run all together; if one of them fails, run all again in savepoints, so that it affects no other.

        Raises `psycopg.Error` if no single write is at fault; then nothing has taken effect, unless `sent`.
        """
        try:
            try:
                await self._together(batch)
            except Exception as error:
                if _is_database_failure(error):
                    raise
                await self.connection.execute("ROLLBACK")
                await self._in_savepoints(batch)
        except BaseException:
            await _roll_back(self.connection)
            raise

    async def _together(self, batch: Sequence[Write[object]]) -> None:
        db = await self._begin()
        self.outcomes = [Outcome(await write.work(db)) for write in batch]
        await self._commit(db)

    async def _in_savepoints(self, batch: Sequence[Write[object]]) -> None:
        db = await self._begin()
        self.outcomes = [await self._in_savepoint(db, write) for write in batch]
        await self._commit(db)

    async def _in_savepoint(self, db: Transaction, write: Write[object]) -> Outcome:
        before = dict(db.changed)
        await self.connection.execute("SAVEPOINT write")
        try:
            value = await write.work(db)
        except Exception as error:
            if _is_database_failure(error):
                raise
            db.changed = before
            await self.connection.execute("ROLLBACK TO write")
            return Outcome(error=_failure(error))
        await self.connection.execute("RELEASE write")
        return Outcome(value)

    async def _begin(self) -> Transaction:
        """One round trip for both statements. The number is what `was_committed` asks for."""
        cursor = await self.connection.execute("BEGIN; SELECT pg_current_xact_id()::text", prepare=False)
        cursor.nextset()
        row = await cursor.fetchone()
        self.xid = str(row[0]) if row else ""
        return Transaction(self.connection)

    async def _commit(self, db: Transaction) -> None:
        self.changed = list(db.changed)
        self.sent = True
        await db.commit()


async def was_committed(connection: Connection, xid: str) -> bool:
    """Ask on a new connection about a commit whose answer was lost: the server knows, so nothing is guessed.

    A transaction whose connection is gone may still be open on the server, with its locks; then it is ended.
    """
    while True:
        cursor = await connection.execute("SELECT pg_xact_status(%s::text::xid8)", [xid])
        row = await cursor.fetchone()
        if row is None or row[0] != "in progress":
            return row is not None and row[0] == "committed"
        await end_transaction(connection, xid)
        await asyncio.sleep(0.1)


async def end_transaction(connection: Connection, xid: str) -> None:
    """End our transaction if the server has not noticed yet that we are cut off: a retry would wait for its locks."""
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE backend_xid = %s::text::xid8::xid AND pid != pg_backend_pid()",
        [xid],
    )


async def _roll_back(connection: Connection) -> None:
    if connection.closed:
        return
    try:
        await connection.execute("ROLLBACK")
    except psycopg.Error:
        await connection.close()


def _is_database_failure(error: BaseException) -> bool:
    """Whether no write is to blame: a lost connection, a full disk, a deadlock."""
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) or connections.is_lost(error)


def _failure(error: Exception) -> Exception:
    if isinstance(error, LostJob) or not isinstance(error, psycopg.Error):
        return error
    return StoreError(
        f"PostgreSQL refused a write: {connections.reason(error)}.", hint=connections.remedy(error)
    )

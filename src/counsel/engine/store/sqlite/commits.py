"""Many writes in one transaction: all together, or each in a savepoint when one of them fails."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from counsel.engine.store.sqlite.backups import is_damage
from counsel.lazy_dataclass import dataclass

if TYPE_CHECKING:  # 25 ms of CPU; `counsel usage` and `conversations` need no event loop
    import asyncio

T = TypeVar("T")
log = logging.getLogger("counsel.store")
Work = Callable[[sqlite3.Connection], T]
Waiting: TypeAlias = "asyncio.Future[Any] | Future[Any] | Write[Any]"
Queued: TypeAlias = tuple[Callable[[sqlite3.Connection], Any], Waiting]
QueuedStep: TypeAlias = tuple["Step", Waiting]
Settled: TypeAlias = list[tuple[Waiting, Any, Exception | None]]


@dataclass(frozen=True, slots=True)
class Step:
    """Something that the writer's thread does between two commits."""

    run: Callable[[], None]
    changes_nothing: bool = False  # in the database: quick commits need not wait for it


class Write(Generic[T]):
    """A write that wakes the event loop only if it is awaited. Cancelling the waiting task does not stop it.

    A `Future` of the standard library has a lock and a condition, which took 10 µs of every call.
    """

    __slots__ = ("_error", "_is_done", "_is_logged", "_value", "_waiting")

    def __init__(self, *, is_logged: bool = False) -> None:
        """`is_logged`: its failure is, since nobody may await it."""
        self._is_logged = is_logged
        self._is_done = False
        self._value: T | None = None
        self._error: Exception | None = None
        self._waiting: Future[T] | None = None  # of tasks that await it

    def done(self) -> bool:
        return self._is_done

    def exception(self) -> Exception | None:
        return self._error

    def set_result(self, value: T) -> None:
        self._value = value
        self._end()

    def set_exception(self, error: Exception) -> None:
        if self._is_logged:
            log.error("a write failed: %s", error)
        self._error = error
        self._end()

    def _end(self) -> None:
        with _ending:
            self._is_done, waiting = True, self._waiting
        if waiting is not None:
            self._tell(waiting)

    def _tell(self, waiting: Future[T]) -> None:
        if self._error is not None:
            waiting.set_exception(self._error)
        else:
            waiting.set_result(self._value)  # type: ignore[arg-type] # it is done

    def __await__(self) -> Generator[object, None, T]:
        import asyncio

        with _ending:
            is_done, self._waiting = self._is_done, self._waiting or Future()
        if is_done and not self._waiting.done():
            self._tell(self._waiting)
        return asyncio.shield(asyncio.wrap_future(self._waiting)).__await__()


_ending = threading.Lock()  # between the writer's thread and a task that begins to wait


def commit(connection: sqlite3.Connection, batch: list[Queued]) -> Settled:
    """All in one transaction. When a write fails, the others run again without it.

    Raises `sqlite3.Error` when it is the disk that fails; then nothing of the batch was written.
    """
    try:
        try:
            return together(connection, batch)
        except Exception as error:
            if _is_the_disk(error):
                raise
            connection.execute("ROLLBACK")
            return _apart(connection, batch)  # one of them failed: the savepoints show which
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


def _is_the_disk(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) or is_damage(error)


def together(connection: sqlite3.Connection, batch: list[Queued]) -> Settled:
    connection.execute("BEGIN IMMEDIATE")
    settled: Settled = [(done, work(connection), None) for work, done in batch]
    connection.execute("COMMIT")
    return settled


def _apart(connection: sqlite3.Connection, batch: list[Queued]) -> Settled:
    connection.execute("BEGIN IMMEDIATE")
    settled: Settled = [(done, *_attempt(connection, work)) for work, done in batch]
    connection.execute("COMMIT")
    return settled


def settle(outcomes: Settled) -> None:
    """Wake each event loop once for all of its writes: a wake is a system call."""
    by_loop: dict[
        asyncio.AbstractEventLoop, list[tuple[asyncio.Future[object], object, Exception | None]]
    ] = {}
    for done, value, failed in outcomes:
        if not isinstance(done, Future | Write):  # asyncio's
            by_loop.setdefault(done.get_loop(), []).append((done, value, failed))
        elif failed is None:
            done.set_result(value)
        else:
            done.set_exception(failed)
    for loop, group in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop has closed: no task waits any more
            loop.call_soon_threadsafe(_resolve, group)


def _resolve(outcomes: list[tuple[asyncio.Future[object], object, Exception | None]]) -> None:
    for done, value, failed in outcomes:
        if done.done():
            continue
        if failed is None:
            done.set_result(value)
        else:
            done.set_exception(failed)


def _attempt(connection: sqlite3.Connection, work: Work[object]) -> tuple[Any, Exception | None]:
    connection.execute("SAVEPOINT write")
    try:
        value = work(connection)
    except Exception as error:
        if _is_the_disk(error):
            raise
        # otherwise it belongs to this write's caller
        connection.execute("ROLLBACK TO write")
        connection.execute("RELEASE write")
        return None, error
    connection.execute("RELEASE write")
    return value, None

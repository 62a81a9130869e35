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
    changes_nothing: bool = False  # in the database, so quick commits need not wait for it


class Write(Generic[T]):
    """A write that wakes the event loop only if it is awaited. Cancelling the waiting task does not stop it.

    A `Future` of the standard library has a lock and a condition, which cost every call 10 µs.
    """

    __slots__ = ("_error", "_is_done", "_is_logged", "_value", "_waiting")

    def __init__(self, *, is_logged: bool = False) -> None:
        """`is_logged`: log its failure, since nobody may await it."""
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
            self._copy_to(waiting)

    def _copy_to(self, waiting: Future[T]) -> None:
        if self._error is not None:
            waiting.set_exception(self._error)
        else:
            waiting.set_result(self._value)  # type: ignore[arg-type] # it is done

    def __await__(self) -> Generator[object, None, T]:
        import asyncio

        with _ending:
            is_done, self._waiting = self._is_done, self._waiting or Future()
        if is_done and not self._waiting.done():
            self._copy_to(self._waiting)
        return asyncio.shield(asyncio.wrap_future(self._waiting)).__await__()


_ending = threading.Lock()  # between the writer's thread and a task that begins to wait


def commit(connection: sqlite3.Connection, batch: list[Queued]) -> Settled:
    """Commit all in one transaction. If a write fails, the others run again without it.

    Raises `sqlite3.Error` if the disk fails; then nothing of the batch was written.
    """
    try:
        try:
            return together(connection, batch)
        except Exception as error:
            if _is_disk_failure(error):
                raise
            connection.execute("ROLLBACK")
            return _in_savepoints(connection, batch)  # one of them failed: the savepoints show which
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


def _is_disk_failure(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) or is_damage(error)


def together(connection: sqlite3.Connection, batch: list[Queued]) -> Settled:
    connection.execute("BEGIN IMMEDIATE")
    outcomes: Settled = [(future, work(connection), None) for work, future in batch]
    connection.execute("COMMIT")
    return outcomes


def _in_savepoints(connection: sqlite3.Connection, batch: list[Queued]) -> Settled:
    connection.execute("BEGIN IMMEDIATE")
    outcomes: Settled = [(future, *_in_savepoint(connection, work)) for work, future in batch]
    connection.execute("COMMIT")
    return outcomes


def settle(outcomes: Settled) -> None:
    """Wake each event loop once for all of its writes: a wake is a system call."""
    by_loop: dict[
        asyncio.AbstractEventLoop, list[tuple[asyncio.Future[object], object, Exception | None]]
    ] = {}
    for future, value, error in outcomes:
        if not isinstance(future, Future | Write):  # asyncio's
            by_loop.setdefault(future.get_loop(), []).append((future, value, error))
        elif error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
    for loop, group in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop has closed: no task is waiting
            loop.call_soon_threadsafe(_resolve, group)


def _resolve(outcomes: list[tuple[asyncio.Future[object], object, Exception | None]]) -> None:
    for future, value, error in outcomes:
        if future.done():
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


def _in_savepoint(connection: sqlite3.Connection, work: Work[object]) -> tuple[Any, Exception | None]:
    connection.execute("SAVEPOINT write")
    try:
        value = work(connection)
    except Exception as error:
        if _is_disk_failure(error):
            raise
        # otherwise it belongs to this write's caller
        connection.execute("ROLLBACK TO write")
        connection.execute("RELEASE write")
        return None, error
    connection.execute("RELEASE write")
    return value, None

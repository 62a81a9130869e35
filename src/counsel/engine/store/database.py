"""SQLite in WAL mode with one writer thread.

Writes queue up and are committed together (`BEGIN IMMEDIATE` … one fsync for all that waited). When one of them fails,
all run again in savepoints of their own, so that it does not spoil the others: a write must be a function of the database. A future resolves after the commit, never before.
The writer is first in, first out: awaiting the last write of several implies the earlier ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from counsel import private
from counsel.engine.store.schema import climbed, migrate
from counsel.errors import ConfigInvalid, Internal
from counsel.unicode import sound

log = logging.getLogger("counsel.store")
T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
Waiting: TypeAlias = asyncio.Future[Any] | Future[Any]
Queued: TypeAlias = tuple[Callable[[sqlite3.Connection], Any], Waiting]
_SHORTLY = 0.005  # seconds; a call that takes longer than this has its job on disk before its answer
_TO_DISK = 0.05  # seconds after which a quick write is on disk
_BATCH = 500  # writes in one commit; bounds how long a caller waits for others


class StoreError(Internal):
    """The database cannot be written: a full disk, a read-only folder, a damaged file."""


class Database:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem: str | None = None  # set when nothing can be kept: answers still come
        self._queue: queue.SimpleQueue[Queued | None] = queue.SimpleQueue()
        self._waiting: list[Queued] = []
        self._sent = 0  # writes given to the writer, and
        self._settled = 0  # those that it is done with
        self._anchor: sqlite3.Connection | None = None  # of a database in memory, which lives as long as it
        self._target = self._prepare(path)
        self.reader = self._connect()
        self._quick = self._connect_quick()
        self._to_disk: asyncio.TimerHandle | None = None
        self._writer = threading.Thread(target=self._write_forever, name="counsel-store", daemon=True)
        self._writer.start()

    # ── opening ──────────────────────────────────────────────────────────────────────────────────────

    def _prepare(self, path: Path) -> str:
        try:
            private.folder(path.parent)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            with closing(_connect(str(path))) as connection:
                climbed(connection, path)
                _patiently(lambda: connection.execute("PRAGMA journal_mode=WAL"))
                _patiently(lambda: migrate(connection, path))
        except (OSError, sqlite3.Error) as error:
            return self._fall_back(path, error)
        return str(path)

    def _fall_back(self, path: Path, error: Exception) -> str:
        """A start must not fail because a disk is bad: work in memory, and say so with every answer."""
        if isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error):
            raise ConfigInvalid(
                f"{path} is not a counsel database.", file=str(path), hint="Move it away; a new one is made."
            ) from error
        self.problem = (
            f"{path} cannot be written ({_reason(error)}): nothing is kept after this process ends."
        )
        log.warning("%s", self.problem)
        target = f"file:counsel-{id(self)}?mode=memory&cache=shared"
        self._anchor = anchor = _connect(target)
        self._copy_readable(path, anchor)
        migrate(anchor, path)
        return target

    @staticmethod
    def _copy_readable(path: Path, into: sqlite3.Connection) -> None:
        try:
            if path.stat().st_size < 256 * 1024 * 1024:
                with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as old:
                    old.backup(into)
        except (OSError, sqlite3.Error):
            log.warning("%s cannot be read either", path)

    def _connect(self) -> sqlite3.Connection:
        return _connect(self._target)

    def _connect_quick(self) -> sqlite3.Connection:
        """Never waits: not for other writers, not for the disk, not for a checkpoint."""
        connection = self._connect()
        connection.execute("PRAGMA busy_timeout=0")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        return connection

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────

    def write(self, work: Work[T]) -> asyncio.Future[T]:
        """Queue a write; the future resolves once it is on disk, or with a `StoreError`.

        Whoever waits may be cancelled; what was asked for is written all the same.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put((work, done))
        return done

    def soon(self, work: Work[Any]) -> None:
        """Queue a write that nobody waits for; a failure is logged."""
        done: Future[Any] = Future()
        done.add_done_callback(_log_failure)
        self._put((work, done))

    def shortly(self, work: Work[T]) -> Future[T]:
        """A write that may wait a few milliseconds for the next one, to share its commit."""
        done: Future[T] = Future()
        self._waiting.append((work, done))
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_later(_SHORTLY, self._put, None)
        return done

    def quickly(self, work: Work[T]) -> asyncio.Future[T]:
        """A small write when nobody else writes: on this thread, which saves two changes of threads.

        It is safe from the death of this process at once, and from that of the machine a moment later. When anybody
        else is writing, it is a `write` like all others.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        batch = [*self._waiting, (work, done)]
        if self._sent != self._settled or not self._commit_here(batch):
            self._put((work, done))
            return done
        self._waiting.clear()
        if self._to_disk is None:
            self._to_disk = asyncio.get_running_loop().call_later(_TO_DISK, self._sync)
        return done

    def _commit_here(self, batch: list[Queued]) -> bool:
        try:
            settled = _together(self._quick, batch)
        except Exception:  # noqa: BLE001 - another process writes, the disk is full: the writer waits, or says it
            with contextlib.suppress(sqlite3.Error):
                self._quick.rollback()
            return False
        for done, value, _ in settled:
            done.set_result(value)
        return True

    def _sync(self) -> None:
        """Whoever has a quick write behind it is on disk, too."""
        if self._to_disk is not None:
            self._to_disk.cancel()
            self._to_disk = None
            self.soon(_touch)

    def _put(self, item: Queued | None) -> None:
        """First what waited, so that the order of writes is the order of the calls."""
        given = self._waiting if item is None else [*self._waiting, item]
        self._waiting = []
        self._sent += len(given)
        for each in given:
            self._queue.put(each)

    def _write_forever(self) -> None:
        connection = self._connect()
        running = True
        while running:
            batch, running = self._gather()
            if batch:
                _commit(connection, batch)
                self._settled += len(batch)
        connection.close()

    def _gather(self) -> tuple[list[Queued], bool]:
        batch: list[Queued] = []
        item = self._queue.get()
        while item is not None:
            batch.append(item)
            if len(batch) >= _BATCH or self._queue.empty():
                return batch, True
            item = self._queue.get()
        return batch, False

    def close(self) -> None:
        self._sync()
        self._put(None)
        self._queue.put(None)
        self._writer.join()
        self._quick.close()
        self.reader.close()
        if self._anchor:
            self._anchor.close()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """A quick read on the caller's thread: by key or by index."""
        return self.reader.execute(sql, values).fetchall()

    def row(self, sql: str, *values: Any) -> sqlite3.Row | None:
        found: sqlite3.Row | None = self.reader.execute(sql, values).fetchone()
        return found

    async def search(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """A read that may take long, off the event loop."""
        return await asyncio.to_thread(self._search, sql, values)

    def _search(self, sql: str, values: tuple[Any, ...]) -> list[sqlite3.Row]:
        with closing(self._connect()) as connection:
            return connection.execute(sql, values).fetchall()

    def version(self) -> int:
        """Changes when another process has written."""
        return int(self.reader.execute("PRAGMA data_version").fetchone()[0])


class _Connection(sqlite3.Connection):
    """A write must not fail because of half a character: a folder's name that is no UTF-8, half an emoji in an answer."""

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        try:
            return super().execute(sql, values)
        except UnicodeEncodeError:  # while binding: nothing has run yet
            return super().execute(sql, [sound(one) if isinstance(one, str) else one for one in values])

    def executemany(self, sql: str, rows: Any, /) -> sqlite3.Cursor:
        for row in rows:
            self.execute(sql, row)
        return self.cursor()


def _connect(target: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        target,
        timeout=60,
        isolation_level=None,
        check_same_thread=False,
        uri=target.startswith("file:"),
        factory=_Connection,
    )
    connection.row_factory = sqlite3.Row
    try:
        for setting in ("synchronous=FULL", "foreign_keys=ON", "cache_size=-2000"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:  # not a database, or not to be read
        connection.close()
        raise
    return connection


def _touch(db: sqlite3.Connection) -> None:
    """Changes nothing; its commit takes all earlier ones to the disk."""
    db.execute(f"PRAGMA user_version={db.execute('PRAGMA user_version').fetchone()[0]}")


def _patiently(step: Callable[[], object], seconds: float = 30) -> None:
    """Switching to WAL does not wait for its turn as other statements do: several first starts at once collide."""
    until = time.monotonic() + seconds
    while True:
        try:
            step()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


def _commit(connection: sqlite3.Connection, batch: list[Queued]) -> None:
    """All in one transaction. A write that fails takes the others along only for a moment: they run again without it."""
    try:
        try:
            settled = _together(connection, batch)
        except sqlite3.OperationalError:
            raise  # the disk, not the work
        except Exception:  # noqa: BLE001 - one of them; which one, the savepoints tell
            connection.execute("ROLLBACK")
            settled = _apart(connection, batch)
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        failure = StoreError(
            f"counsel's database cannot be written: {_reason(error)}.",
            hint="Free some disk space or mend the folder's permissions, then ask again.",
        )
        settled = [(done, None, failure) for _, done in batch]
    _tell(settled)


Settled: TypeAlias = list[tuple[Waiting, Any, Exception | None]]


def _together(connection: sqlite3.Connection, batch: list[Queued]) -> Settled:
    connection.execute("BEGIN IMMEDIATE")
    settled: Settled = [(done, work(connection), None) for work, done in batch]
    connection.execute("COMMIT")
    return settled


def _apart(connection: sqlite3.Connection, batch: list[Queued]) -> Settled:
    connection.execute("BEGIN IMMEDIATE")
    settled: Settled = [(done, *_attempt(connection, work)) for work, done in batch]
    connection.execute("COMMIT")
    return settled


def _tell(settled: Settled) -> None:
    """Wake each event loop once for all of its writes: a wake is a system call."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any, Exception | None]]] = {}
    for done, value, failed in settled:
        if isinstance(done, asyncio.Future):
            by_loop.setdefault(done.get_loop(), []).append((done, value, failed))
        elif failed is None:
            done.set_result(value)
        else:
            done.set_exception(failed)
    for loop, outcomes in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, outcomes)


def _resolve(outcomes: list[tuple[asyncio.Future[Any], Any, Exception | None]]) -> None:
    for done, value, failed in outcomes:
        if done.done():
            continue
        if failed is None:
            done.set_result(value)
        else:
            done.set_exception(failed)


def _attempt(connection: sqlite3.Connection, work: Work[Any]) -> tuple[Any, Exception | None]:
    connection.execute("SAVEPOINT one")
    try:
        value = work(connection)
    except sqlite3.OperationalError:
        raise  # the disk, not the work
    except Exception as error:  # noqa: BLE001 - it belongs to whoever asked for this write
        connection.execute("ROLLBACK TO one")
        connection.execute("RELEASE one")
        return None, error
    connection.execute("RELEASE one")
    return value, None


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _log_failure(done: Future[Any]) -> None:
    if not done.cancelled() and (error := done.exception()):
        log.error("a write failed: %s", error)

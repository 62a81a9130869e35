"""SQLite in WAL mode with one writer thread.

Writes queue up and are committed together (`BEGIN IMMEDIATE` … one fsync for all that waited). When one of them fails,
all run again in savepoints of their own, so that it does not spoil the others: a write must be a function of the database. A future resolves after the commit, never before.
The writer is first in, first out: awaiting the last write of several implies the earlier ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from counsel import locks
from counsel.engine.store.records import StoreError
from counsel.engine.store.sqlite import backups, copying, files, opening, recovery
from counsel.engine.store.sqlite.commits import Queued, Settled, Work, Write, commit, tell, together
from counsel.engine.store.sqlite.connections import WAL_BYTES, connect
from counsel.engine.store.sqlite.schema import migrate
from counsel.errors import CounselError

__all__ = ["Database", "Work"]
log = logging.getLogger("counsel.store")
T = TypeVar("T")
_SHORTLY = 0.005  # seconds; a call that takes longer than this has its job on disk before its answer
_TO_DISK = 0.05  # seconds after which a quick write is on disk
_BATCH = 500  # writes in one commit; bounds how long a caller waits for others
_IDLE = 2.0  # seconds without a write after which a long write-ahead log is cut
_RETURN = 15.0  # seconds between attempts to get back to a disk that could not be written


class Database:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.reinstate: Callable[[], list[Work[Any]]] = list  # writes that put running jobs into a new file
        self.busy: Callable[[], bool] = lambda: False  # whether jobs run here
        self._queue: queue.SimpleQueue[Queued | None] = queue.SimpleQueue()
        self._waiting: list[Queued] = []
        self._sent = 0  # writes given to the writer, and
        self._settled = 0  # those that it is done with
        self._retired: list[
            sqlite3.Connection | opening.Place
        ] = []  # of files that are gone; closed at the end
        self.problem: str | None = None  # told with every answer, which come all the same
        self._tried = time.monotonic()
        self._to_disk: asyncio.TimerHandle | None = None
        connection = self._use(opening.place(path))
        self.home = locks.Pinned(path.parent)
        self._writer = threading.Thread(
            target=self._write_forever, args=[connection], name="counsel-store", daemon=True
        )
        self._writer.start()

    @property
    def in_memory(self) -> bool:
        return self._place.opened is None

    @property
    def unclean(self) -> bool:
        """Whether the process before us was ended from outside: then the file should be checked."""
        return self._place.unclean

    def _use(self, place: opening.Place) -> sqlite3.Connection:
        """Connect to a place; the writer's connection. One that fails at this very moment is replaced by memory."""
        try:
            self._place = place
            connection = self._connect_writer()
            self.reader, self._quick = self._connect_reader(), self._connect_quick()
        except sqlite3.Error as error:
            words = f"{self.path} cannot be used ({error}): nothing is kept after this process ends."
            log.warning("%s", words)
            self._retired.append(place)
            self._place = opening.in_memory(self.path, words)
            connection = self._connect_writer()
            self.reader, self._quick = self._connect_reader(), self._connect_quick()
        self.problem = self._place.problem or self.problem
        return connection

    def _connect(self) -> sqlite3.Connection:
        return connect(self._place.target)

    def _connect_writer(self) -> sqlite3.Connection:
        """Room for the pages of 5,000 calls: ids are random, so each call touches other pages of the indexes."""
        connection = self._connect()
        connection.execute("PRAGMA cache_size=-8000")
        return connection

    def _connect_reader(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.execute("SELECT 1 FROM jobs LIMIT 1").fetchone()  # opens the log, too
        self._log = files.identity(files.beside(self.path)[0]) if self._place.opened else None
        return connection

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

    def soon(self, work: Work[T]) -> Write[T]:
        """Queue a write that nobody needs to wait for; a failure is logged."""
        done: Write[T] = Write()
        done.add_done_callback(_log_failure)
        self._put((work, done))
        return done

    def shortly(self, work: Work[T]) -> Write[T]:
        """A write that may wait a few milliseconds for the next one, to share its commit."""
        done: Write[T] = Write()
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
        if self._sent != self._settled or self._gone() or not self._commit_here(batch):
            self._put((work, done))
            return done
        self._waiting.clear()
        if self._to_disk is None:
            self._to_disk = asyncio.get_running_loop().call_later(_TO_DISK, self._sync)
        return done

    def _commit_here(self, batch: list[Queued]) -> bool:
        try:
            settled = together(self._quick, batch)
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

    def _write_forever(self, connection: sqlite3.Connection) -> None:
        running = True
        while running:
            batch, running = self._gather()
            try:
                connection = self._step(connection, batch)
            except Exception as error:  # the thread must live: nobody else would tell those who wait
                log.exception("the writer failed")
                tell(_failed(batch, error))
            self._settled += len(batch)
        connection.close()

    def _step(self, connection: sqlite3.Connection, batch: list[Queued]) -> sqlite3.Connection:
        if not batch:
            self._cut_log(connection)
        elif why := self._gone():
            connection = self._recover(connection, why, live=True)
        connection = self._control(connection, batch)
        if writes := [item for item in batch if not isinstance(item[0], _Control)]:
            connection = self._commit(connection, writes)
        return connection

    def _control(self, connection: sqlite3.Connection, batch: list[Queued]) -> sqlite3.Connection:
        for work, done in batch:
            if isinstance(work, _Control):
                connection = work.step(connection)
                tell([(done, None, None)])
        return connection

    def _gather(self) -> tuple[list[Queued], bool]:
        """What has queued up; nothing, once, when nobody has written for a while."""
        batch: list[Queued] = []
        try:
            item = self._queue.get(timeout=_IDLE) if self._log_is_long() else self._queue.get()
        except queue.Empty:
            return [], True
        while item is not None:
            batch.append(item)
            if len(batch) >= _BATCH or self._queue.empty():
                return batch, True
            item = self._queue.get()
        return batch, False

    def _commit(self, connection: sqlite3.Connection, batch: list[Queued]) -> sqlite3.Connection:
        """Write the batch, once more after a recovery, and tell those who wait."""
        settled: Settled
        try:
            settled = commit(connection, batch)
        except sqlite3.Error as error:
            if why := self._damage(error):
                connection = self._recover(connection, why, live=self._gone() is not None)
            try:
                if not why:
                    raise
                settled = commit(connection, batch)
            except sqlite3.Error as failed:
                settled = _failed(batch, failed)
        tell(settled)
        return connection

    def _log_is_long(self) -> bool:
        return not self.in_memory and files.size(files.beside(self.path)[0]) > WAL_BYTES

    @staticmethod
    def _cut_log(connection: sqlite3.Connection) -> None:
        """Without waiting for anybody who reads: there is another moment."""
        with contextlib.suppress(sqlite3.Error):
            connection.execute("PRAGMA busy_timeout=0")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("PRAGMA busy_timeout=60000")

    def close(self) -> None:
        self._sync()
        self._put(None)
        self._queue.put(None)
        self._writer.join()
        self._quick.close()
        self.reader.close()
        self._place.close()
        for each in self._retired:
            each.close()
        self.home.close()

    # ── a file that is damaged or gone ───────────────────────────────────────────────────────────────

    def is_at_path(self) -> bool:
        """False when the file that is open was deleted, moved or replaced: the writer sees to it within two seconds."""
        return not (self._place.opened and self._place.opened.gone())

    def _gone(self) -> str | None:
        """One `stat`: whether the file at the path is still the one that is open. With a whole home nothing is done but told."""
        opened = self._place.opened
        why = opened.gone() if opened else None
        if why and not self.home.is_there():
            self.problem = (
                f"{self.path.parent} was deleted, moved or replaced while counsel ran: nothing is kept there."
            )
            return None
        return why

    def _damage(self, error: sqlite3.Error) -> str | None:
        """What is wrong with the file, if an error may come from that; None when it is only full, locked or forbidden."""
        opened = self._place.opened
        if opened is None or not _is_suspicious(error):
            return None
        try:
            return self._gone() or recovery.examine(opened, thorough=backups.is_damage(error))
        except (OSError, sqlite3.Error):  # looking failed: that is no damage
            return None

    def examine(self) -> Future[None]:
        """See whether the file is still there and looks sound, and get back to a disk that works again. Costs microseconds."""
        opened = self._place.opened
        if opened is None:
            if time.monotonic() - self._tried > _RETURN and not self.busy():
                self._tried = time.monotonic()
                return self._do(self._return_to_disk)
        elif self._gone() or opened.spoilt() or opened.shortened():
            return self._do(self._examined)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def check(self) -> str | None:
        """Read the whole file, on the caller's thread (about 1 s for 500 MB); the writer mends what is wrong with it."""
        opened = self._place.opened
        if opened is None:
            return None
        try:
            words = recovery.examine(opened)
        except (OSError, sqlite3.Error):
            return None
        if words:
            self._do(self._examined).result()
        else:
            self._place.unclean = False
        return words

    def alone(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """What SQLite does outside of transactions only, between two commits; waited for. A failure is logged."""

        def step(connection: sqlite3.Connection) -> sqlite3.Connection:
            try:
                work(connection)
            except sqlite3.Error as error:
                log.warning("%s: %s", self.path, error)
            return connection

        self._do(step).result()

    def _do(self, step: Callable[[sqlite3.Connection], sqlite3.Connection]) -> Future[None]:
        done: Future[None] = Future()
        self._put((_Control(step), done))
        return done

    def _examined(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        opened = self._place.opened
        if opened is None or opened.gone():
            return connection  # the writer has seen it
        with contextlib.suppress(OSError, sqlite3.Error):  # looking failed: that is no damage
            if words := recovery.examine(opened):
                return self._recover(connection, words)
        return connection

    def _recover(self, connection: sqlite3.Connection, why: str, *, live: bool = False) -> sqlite3.Connection:
        """On the writer's thread: another file, or memory, in the place of the one that is damaged or gone."""
        try:
            now = self._made_anew(connection, why, live=live)
        except (OSError, sqlite3.Error, CounselError) as error:
            words = f"{self.path}: {why}, and no new one can be made ({opening.reason(error)}): nothing is kept after this process ends."
            log.warning("%s", words)
            now = opening.in_memory(self.path, words, lambda into: _merge_into(into, connection, self.path))
        return self._move(connection, now)

    def _made_anew(self, connection: sqlite3.Connection, why: str, *, live: bool) -> opening.Place:
        opened = self._place.opened
        if not self.home.is_there():
            raise FileNotFoundError(errno.ENOENT, "its folder is gone")
        there = files.identity(self.path)
        if there is None or (opened and there == opened.identity):
            return opening.on_disk(self.path, connection if live else None, why)
        if (
            files.identity(files.beside(self.path)[0]) == self._log
        ):  # of the old file: it would spoil the new one
            with recovery.lock(self.path):
                recovery.set_aside_log(self.path)
        now = opening.on_disk(self.path)  # made anew by another process, or put there by the user
        with contextlib.suppress(sqlite3.Error), closing(connect(now.target)) as into:
            copying.merge(connection, into)  # what it lacks is here
        now.problem = now.problem or f"{self.path}: {why}. It is used now; `counsel doctor` tells more."
        return now

    def _return_to_disk(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """The disk can be written again: what was kept in memory goes there."""
        if not self.path.parent.is_dir() or not self.home.is_there():
            return connection
        try:
            now = opening.on_disk(self.path)
        except (OSError, sqlite3.Error, CounselError):
            return connection
        try:
            with closing(connect(now.target)) as into:
                copying.merge(connection, into, leave_out=self._place.frozen)
        except sqlite3.Error:
            now.close()
            return connection
        log.warning("%s can be written again: what was kept in memory is there now", self.path)
        self.problem = None
        return self._move(connection, now)

    def _move(self, connection: sqlite3.Connection, now: opening.Place) -> sqlite3.Connection:
        """Swap all connections. The old ones may be in use at this moment: they are closed at the end."""
        self._retired += [connection, self.reader, self._quick, self._place]
        fresh = self._use(now)
        for work in self.reinstate():
            with contextlib.suppress(sqlite3.Error):
                commit(fresh, [(work, Future())])
        return fresh

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """A quick read on the caller's thread: by key or by index."""
        return self._reading(lambda: self.reader.execute(sql, values).fetchall())

    def row(self, sql: str, *values: Any) -> sqlite3.Row | None:
        found: sqlite3.Row | None = self._reading(lambda: self.reader.execute(sql, values).fetchone())
        return found

    async def search(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """A read that may take long, off the event loop."""
        return await asyncio.to_thread(self._reading, lambda: self._search(sql, values))

    def _search(self, sql: str, values: tuple[Any, ...]) -> list[sqlite3.Row]:
        if not self.is_at_path():  # what lies there now is another one
            return self.reader.execute(sql, values).fetchall()
        with closing(self._connect()) as connection:
            return connection.execute(sql, values).fetchall()

    def _reading(self, step: Callable[[], T]) -> T:
        """Once more when the file was damaged or gone and has been made anew: the one time that the event loop waits for it."""
        try:
            return step()
        except sqlite3.Error as error:
            if self.in_memory or not _is_suspicious(error):
                raise
            self._do(self._examined).result()
            return step()

    def version(self) -> int:
        """Changes when another process has written."""
        return int(self.reader.execute("PRAGMA data_version").fetchone()[0])


class _Control:
    """What the writer's thread does between two commits."""

    def __init__(self, step: Callable[[sqlite3.Connection], sqlite3.Connection]) -> None:
        self.step = step

    def __call__(self, _: sqlite3.Connection) -> None:
        raise NotImplementedError


def _is_suspicious(error: sqlite3.Error) -> bool:
    """Whether the file itself may be at fault: it is looked at before anything is done."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_ERROR:
        return "no such table" in str(error)
    return code in {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
    }


def _failed(batch: list[Queued], error: Exception) -> Settled:
    failure = StoreError(
        f"counsel's database cannot be written: {opening.reason(error)}.",
        hint="Free some disk space or mend the folder's permissions, then ask again.",
    )
    return [(done, None, failure) for _, done in batch if not done.done()]


def _merge_into(into: sqlite3.Connection, source: sqlite3.Connection, path: Path) -> None:
    migrate(into, path)
    copying.merge(source, into)


def _touch(db: sqlite3.Connection) -> None:
    """Changes nothing; its commit takes all earlier ones to the disk."""
    db.execute(f"PRAGMA user_version={db.execute('PRAGMA user_version').fetchone()[0]}")


def _log_failure(done: Future[Any]) -> None:
    if not done.cancelled() and (error := done.exception()):
        log.error("a write failed: %s", error)

"""SQLite in WAL mode with one writer thread.

Writes queue up and are committed together (`BEGIN IMMEDIATE` … one fsync for all that waited). When one of them fails,
all run again in savepoints of their own, so that the others still take effect; a write may run twice, so it must depend
on nothing but the database. A future resolves after the commit, never before. Awaiting the last write of several
implies the earlier ones.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from counsel.engine.store.sqlite.commits import Queued, Work, Write, together
from counsel.engine.store.sqlite.database_file import DatabaseFile, is_suspicious
from counsel.engine.store.sqlite.held_writes import HeldWrites
from counsel.engine.store.sqlite.writer import Writer

if TYPE_CHECKING:  # imported where a write needs a loop (commits.py)
    import asyncio

__all__ = ["Database", "Work"]
log = logging.getLogger("counsel.store")
T = TypeVar("T")
_SHORTLY = 0.005  # seconds
_APART = 0.005  # seconds between two batches of lazy writes: each batch costs as much as five writes
_TO_DISK = 0.05  # seconds after which a quick or lazy write is on disk
_MOST_QUICK = 50  # quick commits, of some 15 pages each, before the writer may copy the log into the database
_RETURN = 15.0  # seconds between attempts to return to a disk that could not be written


class Database:
    def __init__(self, path: Path, *, without_loop: bool = False) -> None:
        """`without_loop`: reads never suspend, and nothing is written."""
        self.path = path
        self.without_loop = without_loop
        self.busy: Callable[[], bool] = lambda: False  # whether jobs run here
        self.file = DatabaseFile(path)
        self._writer = Writer(self.file)
        self._held = HeldWrites()
        self._tried = time.monotonic()
        self._to_disk: asyncio.TimerHandle | None = None
        self._quick = 0  # commits since the writer last checked the log's length
        self._turn: asyncio.AbstractEventLoop | None = (
            None  # when its current turn ends, waiting writes are queued
        )
        self._put_at = 0.0  # when the writer got its last batch
        self._lazy_waits = False  # whether a lazy write may be among those that wait
        self._due = 0.0  # when waiting writes are written, by the loop's clock
        self._alarm: tuple[asyncio.AbstractEventLoop, float] | None = None  # the next check of waiting writes

    @property
    def in_memory(self) -> bool:
        return self.file.in_memory

    @property
    def problem(self) -> str | None:
        return self.file.problem

    @property
    def reader(self) -> sqlite3.Connection:
        return self.file.reader

    def close(self) -> None:
        self._turn = None
        self._release()
        self._put()
        self._sync()
        self._writer.close()
        self.file.close()

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────

    def write(self, work: Work[T]) -> asyncio.Future[T]:
        """Queue a write; the future resolves once it is on disk, or with a `StoreError`.

        The waiting task may be cancelled; the write still happens.
        """
        from asyncio import get_running_loop

        loop = get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._release()
        self._writer.waiting.append((work, future))
        self._writer.is_urgent = True
        self._put_after_turn(loop)
        return future

    def _put_after_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """All writes of one turn wake the thread once: a wake-up takes 15 µs and competes for the GIL."""
        if self._turn is not loop:
            self._turn = loop
            loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._turn = None
        self._put()

    def _put(self) -> None:
        self._put_at = time.monotonic()
        self._lazy_waits = False
        self._writer.put()

    def soon(self, work: Work[T]) -> Write[T]:
        """Queue a write without waiting for it; a failure is logged."""
        write: Write[T] = Write(is_logged=True)
        self._release()
        self._writer.put((work, write))
        return write

    def hold(self, name: str, work: Work[T], seconds: float) -> Write[T]:
        """A write that may be replaced: it waits for `take`, for a write that may depend on it, or for `seconds`."""
        from asyncio import get_running_loop

        write: Write[T] = Write()
        loop = get_running_loop()
        due = loop.time() + seconds
        self._held.add(name, (work, write), due)
        self._look_by(loop, due)
        return write

    def take(self, name: str) -> Work[object] | None:
        """Withdraw a write that is still held: another one will do its work."""
        return self._held.take(name)

    async def written(self, name: str) -> None:
        """If a write with this name is held, wait until it is on disk."""
        if self._held.has(name):
            await self.write(nothing)

    def _release(self, until: float = math.inf) -> None:
        """Let held writes go: all of them, or those that are due."""
        self._writer.waiting += self._held.pop(until)

    def shortly(self, work: Work[T], seconds: float = _SHORTLY) -> Write[T]:
        """A write that may wait a moment for the next one, to share its commit."""
        from asyncio import get_running_loop

        write: Write[T] = Write()
        loop = get_running_loop()
        self._append((work, write), loop, loop.time() + seconds)
        return write

    def _append(self, item: Queued, loop: asyncio.AbstractEventLoop, due: float) -> None:
        if not self._writer.waiting or due < self._due:
            self._due = due
        self._writer.waiting.append(item)
        self._look_by(loop, due)

    def _look_by(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        """Check the waiting writes at that time at the latest."""
        if self._alarm is None or self._alarm[0] is not loop or due < self._alarm[1]:
            self._look_at(loop, due)

    def _look_at(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._alarm = (loop, due)
        loop.call_at(due, self._look, self._alarm)

    def _look(self, alarm: tuple[asyncio.AbstractEventLoop, float]) -> None:
        """By now most writes have shared another one's commit; later ones have a due time of their own."""
        if alarm is not self._alarm:
            return
        self._alarm = None
        loop, now = alarm
        if self._held.due <= now:
            self._release(now)
            self._put()
        elif self._writer.waiting and self._due <= now:
            self._put()
        due = min(self._held.due, self._due if self._writer.waiting else math.inf)
        if due < math.inf:
            self._look_at(loop, due)

    def lazily(self, work: Work[T], to_disk: float = _TO_DISK) -> asyncio.Future[T]:
        """Queue one of many writes that could each use `quickly`: they share commits that do not wait for the disk."""
        from asyncio import get_running_loop

        loop = get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._append((work, future), loop, self._put_at + _APART)  # loop.time() is time.monotonic()
        self._lazy_waits = True
        self._sync_in(loop, to_disk)
        return future

    def quickly(self, work: Work[T], to_disk: float = _TO_DISK) -> asyncio.Future[T]:
        """Commit a small write on this thread if no other is in progress, which saves two thread switches.

        It survives the death of this process at once, and that of the machine after `to_disk` seconds. If another
        write is in progress, it is queued like all others.
        """
        from asyncio import get_running_loop

        loop = get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        batch = [*self._writer.waiting, (work, future)]
        if (
            self._writer.is_urgent
            or not self._writer.idle
            or self.file.gone()
            or not self._commit_here(batch)
        ):
            self._writer.put((work, future))
            return future
        self._writer.waiting.clear()
        self._quick += 1
        self._sync_in(loop, to_disk)
        return future

    def _sync_in(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Flush quick writes to the disk in `seconds`, or earlier if that is already planned."""
        due = loop.time() + seconds
        if self._to_disk is not None:
            if self._to_disk.when() <= due:
                return
            self._to_disk.cancel()
        self._to_disk = loop.call_at(due, self._sync)

    def _commit_here(self, batch: list[Queued]) -> bool:
        quick = self.file.quick
        try:
            outcomes = together(quick, batch)
        except Exception:  # noqa: BLE001 - another process writes, the disk is full: the writer waits, or reports it
            with contextlib.suppress(sqlite3.Error):
                quick.rollback()
            return False
        for future, value, _ in outcomes:
            if not future.done():  # the task that awaited it may have been cancelled
                future.set_result(value)
        return True

    def _sync(self) -> None:
        """Flush quick writes to the disk.

        A commit by the writer would also do. But each connection that commits makes the others read their pages again,
        and single calls would alternate between two of them: 1.1 ms of CPU for each call.
        """
        if self._to_disk is None:
            return
        self._to_disk.cancel()
        self._to_disk = None
        if self._lazy_waits:
            self._put()
        if self._quick > _MOST_QUICK:
            self._quick = 0
            self.soon(_touch)
        elif not self.in_memory:
            self._writer.run_unrelated(self.file.sync_log)

    # ── upkeep ───────────────────────────────────────────────────────────────────────────────────────

    def is_at_path(self) -> bool:
        return self.file.is_at_path()

    @property
    def unclean(self) -> bool:
        """Whether the previous process was killed, so that the file should be checked."""
        return self.file.location.unclean

    def examine(self) -> Future[None]:
        """Check that the file is there and looks intact; return to a disk that works again. Takes microseconds."""
        if self.in_memory:
            if time.monotonic() - self._tried > _RETURN and not self.busy():
                self._tried = time.monotonic()
                return self._writer.do(self.file.return_to_disk)
        elif self.file.looks_damaged():
            return self._writer.do(self.file.repair)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def check(self) -> str | None:
        """Read the whole file on the caller's thread; the writer repairs what is wrong with it."""
        damage = self.file.check()
        if damage:
            self._writer.do(self.file.repair).result()
        return damage

    def alone(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Run what SQLite allows only outside transactions, between two commits, and wait. A failure is logged."""

        def step() -> None:
            try:
                work(self.file.writer)
            except sqlite3.Error as error:
                log.warning("%s: %s", self.path, error)

        self._release()
        self._writer.do(step).result()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────

    def rows(self, sql: str, *values: object) -> list[sqlite3.Row]:
        """A quick read on the caller's thread: by key or by index."""
        try:
            return self.file.reader.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            self._repair_after(error)
            return self.file.reader.execute(sql, values).fetchall()

    def row(self, sql: str, *values: object) -> sqlite3.Row | None:
        row: sqlite3.Row | None
        try:
            row = self.file.reader.execute(sql, values).fetchone()
        except sqlite3.Error as error:
            self._repair_after(error)
            row = self.file.reader.execute(sql, values).fetchone()
        return row

    async def search(self, sql: str, *values: object) -> list[sqlite3.Row]:
        """A read that may take long: off the event loop, if there is one."""
        if self.without_loop:
            return self._search(sql, values)
        from asyncio import to_thread

        return await to_thread(self._search, sql, values)

    def _search(self, sql: str, values: tuple[object, ...]) -> list[sqlite3.Row]:
        try:
            return self._search_once(sql, values)
        except sqlite3.Error as error:
            self._repair_after(error)
            return self._search_once(sql, values)

    def _search_once(self, sql: str, values: tuple[object, ...]) -> list[sqlite3.Row]:
        if not self.is_at_path():  # another file may be there now
            return self.file.reader.execute(sql, values).fetchall()
        with closing(self.file.connect()) as connection:
            return connection.execute(sql, values).fetchall()

    def _repair_after(self, error: sqlite3.Error) -> None:
        """Repair the file before a read is retried. Only here does the event loop wait for the writer."""
        if self.in_memory or not is_suspicious(error):
            raise error
        self._writer.do(self.file.repair).result()

    def version(self) -> int:
        """Changes when any other connection has committed."""
        return int(self.file.reader.execute("PRAGMA data_version").fetchone()[0])


def nothing(_: sqlite3.Connection) -> None:
    """A write whose end is that of all earlier ones."""


def _touch(db: sqlite3.Connection) -> None:
    """Changes nothing; its commit flushes all earlier ones to the disk, and a long log into the database."""
    db.execute(f"PRAGMA user_version={db.execute('PRAGMA user_version').fetchone()[0]}")

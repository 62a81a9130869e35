"""The one thread that writes: whatever has queued up is committed together, in order."""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeAlias

from counsel.engine.store.records import StoreError
from counsel.engine.store.sqlite import opening
from counsel.engine.store.sqlite.commits import Queued, QueuedStep, Settled, Step, commit, settle
from counsel.engine.store.sqlite.database_file import DatabaseFile

log = logging.getLogger("counsel.store")
Item: TypeAlias = Queued | QueuedStep
_BATCH = 500  # writes in one commit; bounds how long a caller waits for others
_IDLE = 2.0  # seconds without a write after which a long write-ahead log is cut


class Writer:
    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._queue: queue.SimpleQueue[tuple[list[Item], bool] | None] = queue.SimpleQueue()
        self._sent = 0  # writes given to the thread
        self._settled = 0  # writes that it has finished
        self.waiting: list[Queued] = []  # writes that wait a moment for the next one
        self.is_urgent = False  # whether one of them is done only when it is on disk
        self._thread = threading.Thread(target=self._run, name="counsel-store", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        return self._sent == self._settled

    def put(self, item: Item | None = None) -> None:
        """Queue what waits, then the item, so that writes keep the order of the calls. An item is urgent."""
        items: list[Item] = [*self.waiting] if item is None else [*self.waiting, item]
        is_urgent = self.is_urgent or item is not None
        self.waiting, self.is_urgent = [], False
        if items:
            self._sent += len(items)
            self._queue.put((items, is_urgent))

    def do(self, step: Callable[[], None]) -> Future[None]:
        """Run a step on the thread, between two commits."""
        future: Future[None] = Future()
        self.put((Step(step), future))
        return future

    def run_unrelated(self, step: Callable[[], None]) -> None:
        """Run a step on the thread that does not change the database. Waiting writes keep waiting."""
        self._queue.put(([(Step(step, changes_nothing=True), Future())], False))

    def close(self) -> None:
        self.put()
        self._queue.put(None)
        self._thread.join()

    # ── on the thread ────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        running = True
        while running:
            batch, is_urgent, running = self._gather()
            try:
                self._write(batch, is_urgent=is_urgent)
            except Exception as error:  # the thread must survive: no other would answer the waiting callers
                log.exception("the writer failed")
                settle(_failed(batch, error))
            self._settled += sum(not _changes_nothing(work) for work, _ in batch)

    def _gather(self) -> tuple[list[Item], bool, bool]:
        """What has queued up (nothing: time to cut a long log), whether it is urgent, and whether more may come."""
        batch: list[Item] = []
        any_urgent = False
        try:
            entry = self._queue.get(timeout=_IDLE) if self._file.log_is_long() else self._queue.get()
        except queue.Empty:
            return [], False, True
        while entry is not None:
            items, is_urgent = entry
            batch += items
            any_urgent = any_urgent or is_urgent
            if len(batch) >= _BATCH or self._queue.empty():
                return batch, any_urgent, True
            entry = self._queue.get()
        return batch, any_urgent, False

    def _write(self, batch: list[Item], *, is_urgent: bool) -> None:
        if not batch:
            self._file.cut_log()
        elif why := self._file.gone():
            self._file.recover(why, live=True)
        writes: list[Queued] = []
        for work, future in batch:
            if not isinstance(work, Step):
                writes.append((work, future))
                continue
            if writes:  # a step may depend on the writes before it
                settle(self._commit(writes, is_urgent=is_urgent))
                writes = []
            work.run()
            settle([(future, None, None)])
        if writes:
            settle(self._commit(writes, is_urgent=is_urgent))

    def _commit(self, batch: list[Queued], *, is_urgent: bool) -> Settled:
        """Write the batch, and once more after a recovery."""
        try:
            self._file.wait_for_disk(is_urgent)
            return commit(self._file.writer, batch)
        except sqlite3.Error as error:
            why = self._file.damage(error)
            if not why:
                return _failed(batch, error)
        self._file.recover(why, live=self._file.gone() is not None)
        try:
            return commit(self._file.writer, batch)
        except sqlite3.Error as error:
            return _failed(batch, error)


def _changes_nothing(work: object) -> bool:
    return isinstance(work, Step) and work.changes_nothing


def _failed(batch: Sequence[Item], error: Exception) -> Settled:
    failure = StoreError(
        f"counsel's database cannot be written: {opening.reason(error)}.",
        hint="Free some disk space or fix the folder's permissions, then ask again.",
    )
    return [(future, None, failure) for _, future in batch if not future.done()]

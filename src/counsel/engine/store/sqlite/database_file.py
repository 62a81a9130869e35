"""The database's file, or the memory in its place: its connections, and its replacement when it is damaged or gone.

Damage is handled on the writer's thread. Readers get the new connections; the old ones may be in use at that
moment, so they are closed at the end.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

from counsel import locks
from counsel.engine.store.sqlite import backups, copying, files, opening, recovery
from counsel.engine.store.sqlite.commits import Work, commit
from counsel.engine.store.sqlite.connections import WAL_BYTES, connect
from counsel.engine.store.sqlite.schema import migrate
from counsel.errors import CounselError

log = logging.getLogger("counsel.store")


class DatabaseFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem: str | None = None  # shown with every answer
        self.reinstate: Callable[[], list[Work[Any]]] = list  # writes that put running jobs into a new file
        self._retired: list[sqlite3.Connection | opening.Location] = []  # closed at the end
        self._use(opening.locate(path))
        self.home = locks.PinnedFolder(path.parent)

    @property
    def in_memory(self) -> bool:
        return self.location.file is None

    # ── connections ──────────────────────────────────────────────────────────────────────────────────

    def _use(self, location: opening.Location) -> None:
        """Connect; if that fails, use a database in memory instead."""
        try:
            self._connect_all(location)
        except sqlite3.Error as error:
            problem = f"{self.path} cannot be used ({error}): nothing is kept after this process ends."
            log.warning("%s", problem)
            self._retired.append(location)
            self._connect_all(opening.in_memory(self.path, problem))
        self.problem = self.location.problem or self.problem

    def _connect_all(self, location: opening.Location) -> None:
        self.location = location
        self.writer = self._connect_writer()
        self.reader = self._connect_reader()
        self.quick = self._connect_quick()

    def connect(self) -> sqlite3.Connection:
        return connect(self.location.target)

    def _connect_writer(self) -> sqlite3.Connection:
        """Its cache holds the pages of many calls: new rows are adjacent, but rows of older conversations can be
        anywhere."""
        connection = self.connect()
        connection.execute("PRAGMA cache_size=-8000")
        self._waits_for_disk = True
        return connection

    def _connect_reader(self) -> sqlite3.Connection:
        connection = self.connect()
        connection.execute("SELECT 1 FROM jobs LIMIT 1").fetchone()  # opens the log, too
        self._log = files.identity(files.wal_files(self.path)[0]) if self.location.file else None
        return connection

    def _connect_quick(self) -> sqlite3.Connection:
        """Never waits for other writers, the disk or a checkpoint."""
        connection = self.connect()
        connection.execute("PRAGMA busy_timeout=0")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        return connection

    def close(self) -> None:
        """After the writer's thread has ended."""
        for resource in (self.writer, self.quick, self.reader, self.location, *self._retired, self.home):
            resource.close()

    # ── the write-ahead log ──────────────────────────────────────────────────────────────────────────

    def wait_for_disk(self, wait: bool) -> None:
        """Whether the writer's next commits are on disk when they return, or only with the next `sync_log`."""
        if wait != self._waits_for_disk:
            self.writer.execute(f"PRAGMA synchronous={'FULL' if wait else 'NORMAL'}")
            self._waits_for_disk = wait

    def log_is_long(self) -> bool:
        return not self.in_memory and files.size(files.wal_files(self.path)[0]) > WAL_BYTES

    def sync_log(self) -> None:
        """Flush commits of `quick` to the disk. SQLite holds no locks on its log, so closing a descriptor is safe."""
        try:
            files.sync(files.wal_files(self.path)[0])
        except OSError as error:
            log.warning("%s could not be written to the disk: %s", self.path, opening.reason(error))

    def cut_log(self) -> None:
        """Does not wait for readers: there is another attempt later."""
        with contextlib.suppress(sqlite3.Error):
            self.writer.execute("PRAGMA busy_timeout=0")
            self.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self.writer.execute("PRAGMA busy_timeout=60000")

    # ── noticing damage ──────────────────────────────────────────────────────────────────────────────

    def is_at_path(self) -> bool:
        """False when the open file was deleted, moved or replaced: the writer handles that within two seconds."""
        return not (self.location.file and self.location.file.gone())

    def gone(self) -> str | None:
        """What happened to the open file, by one `stat`. If the whole home is gone, that is only reported."""
        file = self.location.file
        loss = file.gone() if file else None
        if loss and not self.home.is_there():
            self.problem = (
                f"{self.path.parent} was deleted, moved or replaced while counsel ran: nothing is kept there."
            )
            return None
        return loss

    def looks_damaged(self) -> bool:
        """Costs microseconds."""
        file = self.location.file
        return file is not None and bool(self.gone() or file.header_damage() or file.is_truncated())

    def damage(self, error: sqlite3.Error) -> str | None:
        """What is wrong with the file, if that may be the error's cause; None if only full, locked or forbidden."""
        file = self.location.file
        if file is None or not is_suspicious(error):
            return None
        try:
            return self.gone() or recovery.examine(file, thorough=backups.is_damage(error))
        except (OSError, sqlite3.Error):  # the check failed, which proves no damage
            return None

    def check(self) -> str | None:
        """Read the whole file (about 1 s for 500 MB); return what is wrong with it."""
        file = self.location.file
        if file is None:
            return None
        try:
            damage = recovery.examine(file)
        except (OSError, sqlite3.Error):
            return None
        if damage is None:
            self.location.unclean = False
        return damage

    # ── replacing it, on the writer's thread ─────────────────────────────────────────────────────────

    def repair(self) -> None:
        file = self.location.file
        if file is None or file.gone():
            return  # the writer handles that
        with contextlib.suppress(OSError, sqlite3.Error):  # a failed check proves no damage
            if damage := recovery.examine(file):
                self.recover(damage)

    def recover(self, cause: str, *, live: bool = False) -> None:
        """Replace a file that is damaged or gone by another, or by memory. `live`: its rows can still be read."""
        try:
            location = self._replacement(cause, live=live)
        except (OSError, sqlite3.Error, CounselError) as error:
            problem = (
                f"{self.path}: {cause}, and no new one can be made ({opening.reason(error)}): "
                "nothing is kept after this process ends."
            )
            log.warning("%s", problem)
            location = opening.in_memory(self.path, problem, self._copy_into)
        self._move(location)

    def _replacement(self, cause: str, *, live: bool) -> opening.Location:
        file = self.location.file
        if not self.home.is_there():
            raise FileNotFoundError(errno.ENOENT, "its folder is gone")
        existing = files.identity(self.path)
        if existing is None or (file and existing == file.identity):
            return opening.on_disk(self.path, self.writer if live else None, cause)
        if files.identity(files.wal_files(self.path)[0]) == self._log:
            # the log of the old file would corrupt the new one
            with recovery.lock(self.path):
                recovery.set_aside_log(self.path)
        location = opening.on_disk(self.path)  # made by another process, or put there by the user
        with contextlib.suppress(sqlite3.Error), closing(connect(location.target)) as into:
            copying.merge(self.writer, into)  # adds the rows that only the old file has
        location.problem = (
            location.problem
            or f"{self.path}: {cause}. counsel uses it now; run `counsel doctor` for details."
        )
        return location

    def _copy_into(self, into: sqlite3.Connection) -> None:
        migrate(into, self.path)
        copying.merge(self.writer, into)

    def return_to_disk(self) -> None:
        """If the disk can be written again, copy there what was kept in memory."""
        if not self.path.parent.is_dir() or not self.home.is_there():
            return
        try:
            location = opening.on_disk(self.path)
        except (OSError, sqlite3.Error, CounselError):
            return
        try:
            with closing(connect(location.target)) as into:
                copying.merge(self.writer, into, leave_out=self.location.frozen)
        except sqlite3.Error:
            location.close()
            return
        log.warning("%s can be written again: what was kept in memory is there now", self.path)
        self.problem = None
        self._move(location)

    def _move(self, location: opening.Location) -> None:
        self._retired += [self.writer, self.reader, self.quick, self.location]
        self._use(location)
        for work in self.reinstate():
            with contextlib.suppress(sqlite3.Error):
                commit(self.writer, [(work, Future())])


def is_suspicious(error: sqlite3.Error) -> bool:
    """Whether the file itself may be at fault, and must be examined before anything is done."""
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

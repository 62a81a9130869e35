"""Replaces a damaged or missing database: moves it aside under a dated name, never deletes it, and rebuilds it.

Several processes may notice the damage at once: a lock lets one of them replace the file. A file that is locked,
forbidden or on a disk that does not answer is not damaged, and stays where it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from counsel.engine.store.sqlite import backups, copying, files
from counsel.engine.store.sqlite.schema import migrate, schema_version
from counsel.errors import ConfigInvalid
from counsel.lazy_dataclass import dataclass
from counsel.text import counted

log = logging.getLogger("counsel.store")
_LOCK_TIMEOUT = 60.0  # seconds to wait while another process replaces it


class Damaged(Exception):
    """The file is not a database, or a damaged one; the message says what is wrong."""

    def __init__(self, message: str, identity: files.Identity | None = None) -> None:
        super().__init__(message)
        self.identity = identity  # of the file that was examined


@dataclass(frozen=True, slots=True)
class Replacement:
    report: str  # what happened, what was done and what may be missing
    complete: bool  # nothing is missing


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """The lock for replacing the database's file."""
    folder = path.parent / "run"
    folder.mkdir(mode=0o700, exist_ok=True)  # not the home: if the user deleted it, it stays deleted
    handle = os.open(folder / "database.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _wait_for(handle)
        yield
    finally:
        os.close(handle)


def _wait_for(handle: int) -> None:
    deadline = time.monotonic() + _LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def examine(file: files.OpenFile, *, thorough: bool = False) -> str | None:
    """What is wrong with the file; None if nothing. Raises `sqlite3.Error` or `OSError` if the check itself fails."""
    path = file.path
    if damage := file.header_damage():
        return damage
    try:
        with closing(copying.read_only(path)) as db:
            version = schema_version(db, path)
            if damage := table_damage(db, version):
                return damage
            return backups.damage_in(db, thorough=thorough)
    except ConfigInvalid:  # a newer release's file, which this one cannot judge
        return None
    except sqlite3.DatabaseError as error:
        if backups.is_damage(error):
            return str(error)
        raise


def table_damage(db: sqlite3.Connection, version: int) -> str | None:
    """What is wrong with the tables of a readable database; None if nothing."""
    names = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not names:
        return "it is empty"
    if not names & set(copying.TABLES):
        return "it is another program's database"
    return None if version and names.issuperset(copying.TABLES) else "tables are missing"


def set_aside_log(path: Path) -> None:
    """Move aside a write-ahead log that does not belong to the file next to it."""
    aside = _free_name(path)
    for old, new in zip(files.wal_files(path), files.wal_files(aside), strict=True):
        with contextlib.suppress(FileNotFoundError):
            old.rename(new)


def set_aside(path: Path) -> Path:
    """Rename the file and what SQLite keeps beside it; return the file's new name."""
    target = _free_name(path)
    for old, new in zip((path, *files.wal_files(path)), (target, *files.wal_files(target)), strict=True):
        with contextlib.suppress(FileNotFoundError):
            old.rename(new)
    files.sync_folder(path.parent)
    return target


def _free_name(path: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target, number = path.with_name(f"{path.name}.damaged-{stamp}"), 1
    while any(os.path.lexists(file) for file in (target, *files.wal_files(target))):
        number += 1
        target = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    return target


def damaged_files(path: Path) -> list[Path]:
    """The damaged files that were moved aside, newest first."""
    with contextlib.suppress(OSError):
        matches = path.parent.glob(f"{path.name}.damaged-*")
        return sorted((file for file in matches if not file.name.endswith(("-wal", "-shm"))), reverse=True)
    return []


def replace(path: Path, cause: str, live: sqlite3.Connection | None = None) -> Replacement:
    """Under the lock: move the damaged file aside and make a new one.

    `live` is a connection that still sees a deleted file's content, so that nothing is missing.
    """
    aside = set_aside(path) if _exists(path) else None
    sources: list[str] = []
    complete = False

    def fill(draft: Path) -> None:
        nonlocal complete
        with closing(new_file(draft)) as db:
            complete = live is not None and _copy_all(live, db)
            if not complete:
                sources.extend(_salvage(path, aside, db))
                copying.freeze_unfinished(db)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.execute("PRAGMA journal_mode=DELETE")  # a single file, which is renamed afterwards

    backups.write(fill, path)
    report = f"{path}: {cause}."
    if aside:
        report += f" The old file is now {aside.name}."
    if complete:
        report += " All of its content was written to a new one."
    elif sources:
        report += f" A new one was made from {' and '.join(sources)}; newer and unreadable rows are missing."
    else:
        report += " A new, empty one was made."
    log.error("%s", report)
    return Replacement(report, complete)


def _exists(path: Path) -> bool:
    return any(files.size(file) or os.path.lexists(file) for file in (path, *files.wal_files(path)))


def _copy_all(live: sqlite3.Connection, db: sqlite3.Connection) -> bool:
    try:
        copying.merge(live, db)
    except sqlite3.Error:
        return False
    with contextlib.suppress(sqlite3.Error):
        return backups.damage_in(live) is None
    return False


def _salvage(path: Path, aside: Path | None, db: sqlite3.Connection) -> Iterator[str]:
    """The damaged file is newer, so its rows come first; the newest backup adds what they lack."""
    if aside and files.size(aside):
        with contextlib.suppress(sqlite3.Error, OSError), closing(copying.read_damaged(aside)) as rest:
            if count := copying.merge(rest, db):
                yield f"{counted(count, 'row')} that could be read"
    if backup := backups.newest_intact(path):
        with contextlib.suppress(sqlite3.Error, OSError), closing(copying.read_only(backup)) as source:
            copying.merge(source, db)
            date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(files.changed(backup)))
            yield f"the backup of {date}"


def new_file(path: Path) -> sqlite3.Connection:
    """An empty database whose file returns freed pages to the disk."""
    db = sqlite3.connect(files.uri(path, "mode=rw"), uri=True, timeout=30, isolation_level=None)
    try:
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        migrate(db, path)
    except BaseException:
        db.close()
        raise
    return db

"""A database that is damaged or gone: moved aside under a dated name, never deleted, and rebuilt from what can be read.

Several processes may notice it at once: a lock lets one of them do it, and the others find it done. A file that is locked,
forbidden or on a disk that does not answer is not damaged, and is left where it is.
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
from counsel.engine.store.sqlite.schema import climbed, migrate
from counsel.errors import ConfigInvalid
from counsel.lazy_dataclass import dataclass
from counsel.text import counted

log = logging.getLogger("counsel.store")
_REPLACED_WITHIN = 60.0  # seconds for another process that replaces it


class Damaged(Exception):
    """The file is not a database, or a broken one; the message says how."""

    def __init__(self, message: str, identity: files.Identity | None = None) -> None:
        super().__init__(message)
        self.identity = identity  # of the file that was examined


@dataclass(frozen=True, slots=True)
class Replaced:
    report: str  # what happened, what was done, what may be missing
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
    until = time.monotonic() + _REPLACED_WITHIN
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


def examine(opened: files.Opened, *, thorough: bool = False) -> str | None:
    """What is wrong with the file; None when nothing is. Raises `sqlite3.Error` or `OSError` when looking failed."""
    path = opened.path
    if damage := opened.spoilt():
        return damage
    try:
        with closing(copying.read_only(path)) as db:
            version = climbed(db, path)
            if damage := tables(db, version):
                return damage
            return backups.checked(db, thorough=thorough)
    except ConfigInvalid:  # a newer release's: not ours to judge
        return None
    except sqlite3.DatabaseError as error:
        if backups.is_damage(error):
            return str(error)
        raise


def tables(db: sqlite3.Connection, version: int) -> str | None:
    """What is wrong with a database that can be read: its tables are not ours."""
    names = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not names:
        return "it is empty"
    if not names & set(copying.TABLES):
        return "it is another program's database"
    return None if version and names.issuperset(copying.TABLES) else "tables are missing"


def set_aside_log(path: Path) -> None:
    """A write-ahead log that belongs to another file than the one beside it."""
    aside = _aside(path)
    for old, new in zip(files.beside(path), files.beside(aside), strict=True):
        with contextlib.suppress(FileNotFoundError):
            old.rename(new)


def set_aside(path: Path) -> Path:
    """Rename the file and what SQLite keeps beside it; the file's new name."""
    target = _aside(path)
    for old, new in zip((path, *files.beside(path)), (target, *files.beside(target)), strict=True):
        with contextlib.suppress(FileNotFoundError):
            old.rename(new)
    files.sync_folder(path.parent)
    return target


def _aside(path: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target, number = path.with_name(f"{path.name}.damaged-{stamp}"), 1
    while any(os.path.lexists(each) for each in (target, *files.beside(target))):
        number += 1
        target = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    return target


def asides(path: Path) -> list[Path]:
    """The damaged files that were moved aside, newest first."""
    with contextlib.suppress(OSError):
        paths = path.parent.glob(f"{path.name}.damaged-*")
        return sorted((each for each in paths if not each.name.endswith(("-wal", "-shm"))), reverse=True)
    return []


def replace(path: Path, why: str, live: sqlite3.Connection | None = None) -> Replaced:
    """Under the lock: move the damaged file aside and make a new one.

    `live` is a connection that still sees a deleted file's content: then nothing is missing.
    """
    aside = set_aside(path) if _exists(path) else None
    sources: list[str] = []
    complete = False

    def fill(draft: Path) -> None:
        nonlocal complete
        with closing(new_file(draft)) as db:
            complete = live is not None and _copied(live, db)
            if not complete:
                sources.extend(_salvaged(path, aside, db))
                copying.freeze_unfinished(db)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.execute("PRAGMA journal_mode=DELETE")  # one file, whole, to be renamed

    backups.write(fill, path)
    report = f"{path}: {why}."
    if aside:
        report += f" What was there is now {aside.name}."
    if complete:
        report += " It was written again, complete."
    elif sources:
        report += f" A new one was made from {' and '.join(sources)}; what is newer or could not be read is missing."
    else:
        report += " A new, empty one was made."
    log.error("%s", report)
    return Replaced(report, complete)


def _exists(path: Path) -> bool:
    return any(files.size(each) or os.path.lexists(each) for each in (path, *files.beside(path)))


def _copied(live: sqlite3.Connection, db: sqlite3.Connection) -> bool:
    try:
        copying.merge(live, db)
    except sqlite3.Error:
        return False
    with contextlib.suppress(sqlite3.Error):
        return backups.checked(live) is None
    return False


def _salvaged(path: Path, aside: Path | None, db: sqlite3.Connection) -> Iterator[str]:
    """The damaged file is the newer one: its rows first, then what the newest backup has besides."""
    if aside and files.size(aside):
        with contextlib.suppress(sqlite3.Error, OSError), closing(copying.read_damaged(aside)) as damaged:
            if count := copying.merge(damaged, db):
                yield f"{counted(count, 'row')} that could be read"
    if backup := backups.newest_sound(path):
        with contextlib.suppress(sqlite3.Error, OSError), closing(copying.read_only(backup)) as source:
            copying.merge(source, db)
            made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(files.changed(backup)))
            yield f"the backup of {made}"


def new_file(path: Path) -> sqlite3.Connection:
    """An empty database whose file gives freed pages back."""
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=30, isolation_level=None)
    try:
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        migrate(db, path)
    except BaseException:
        db.close()
        raise
    return db

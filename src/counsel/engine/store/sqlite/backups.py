"""Copies of the database, one a day: COUNSEL_HOME/backups/database, private, complete or not at all."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from counsel import paths
from counsel.engine.store.sqlite import copying, files

log = logging.getLogger("counsel.store")
KEPT = 3
EVERY = 24 * 3600.0  # seconds
LARGEST = 1024**3  # bytes of a database; a larger one is not copied
SPARE = 64 * 1024**2  # bytes that stay free on the disk beside a copy


def folder(path: Path) -> Path:
    return path.parent / "backups" / "database"


def listed(path: Path) -> list[Path]:
    """Newest first."""
    with contextlib.suppress(OSError):
        return sorted(folder(path).glob("counsel-*.db"), reverse=True)
    return []


def due(path: Path, now: float | None = None) -> bool:
    """Whether the last one is a day old and something was written since."""
    newest = next(iter(listed(path)), None)
    if newest is None:
        return True
    with contextlib.suppress(OSError):
        backup_time = newest.stat().st_mtime
        change_time = max(files.changed(file) for file in (path, *files.wal_files(path)[:1]))
        return (now or time.time()) - backup_time >= EVERY and change_time > backup_time
    return False


def obstacle(path: Path, live: int) -> str | None:
    """Why no copy of `live` bytes can be made; None if it can."""
    if live > LARGEST:
        return f"the database has {live / 1e6:,.0f} MB; backups are limited to {LARGEST / 1e6:,.0f} MB"
    import shutil

    free = shutil.disk_usage(path.parent).free
    if free < live + SPARE:
        return f"the disk has {free / 1e6:,.0f} MB left, and a copy needs {(live + SPARE) / 1e6:,.0f} MB"
    return None


def make(path: Path) -> Path | None:
    """Copy the database as it is now, while others may write. None if it is too large for a copy or for the disk."""
    with closing(copying.read_only(path)) as source:
        if reason := obstacle(path, live_bytes(source)):
            log.warning("no backup of %s: %s", path, reason)
            return None
        target = folder(path) / f"counsel-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.db"
        paths.private_folder(target.parent)
        write(lambda draft: _copy(source, draft), target)
    prune(path)
    return target


def attempt(path: Path) -> Path | None:
    """`make` for a background step: a failure is logged."""
    try:
        return make(path)
    except (OSError, sqlite3.Error) as error:
        log.warning("no backup of %s: %s", path, error)
        return None


def _copy(source: sqlite3.Connection, draft: Path) -> None:
    source.execute("VACUUM INTO ?", (str(draft),))
    if problem := damage(draft):
        raise sqlite3.DatabaseError(problem)


def write(fill: Callable[[Path], None], target: Path) -> None:
    """Fill a file under another name, sync it, then rename it."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    files.create(draft)
    try:
        fill(draft)
        handle = os.open(draft, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        draft.replace(target)
        files.sync_folder(target.parent)
    finally:
        for leftover in (draft, *files.wal_files(draft)):
            leftover.unlink(missing_ok=True)


def prune(path: Path) -> None:
    """Delete all but the newest ones, and unfinished ones of processes that died."""
    for old in listed(path)[KEPT:]:
        old.unlink(missing_ok=True)
    for draft in folder(path).glob(".counsel-*.db.*"):
        if time.time() - files.changed(draft) > EVERY:
            draft.unlink(missing_ok=True)


def live_bytes(db: sqlite3.Connection) -> int:
    """The size of the used pages."""
    pages, free, size = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def damage(path: Path) -> str | None:
    """What `quick_check` finds wrong with a file; None if it is intact. Raises if the check itself fails."""
    with closing(copying.read_only(path)) as db:
        return damage_in(db)


def damage_in(db: sqlite3.Connection, *, thorough: bool = False) -> str | None:
    try:
        result = str(db.execute(f"PRAGMA {'integrity' if thorough else 'quick'}_check(1)").fetchone()[0])
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return str(error)
    return None if result == "ok" else result.replace("\n", " ")


def is_damage(error: BaseException) -> bool:
    """SQLITE_CORRUPT and SQLITE_NOTADB; not a file that is only locked, full or forbidden."""
    return isinstance(error, sqlite3.DatabaseError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    }


def newest_intact(path: Path) -> Path | None:
    for backup in listed(path):
        with contextlib.suppress(OSError, sqlite3.Error):
            if backup.stat().st_size and damage(backup) is None:
                return backup
    return None


def forget(path: Path, conversation: str) -> None:
    """Delete from the copies what a user deleted."""
    _delete(
        path,
        conversation,
        "DELETE FROM jobs WHERE conversation = ?",
        "DELETE FROM conversations WHERE id = ?",
    )


def forget_job(path: Path, job: str) -> None:
    _delete(path, job, "DELETE FROM jobs WHERE id = ?")


def _delete(path: Path, name: str, *statements: str) -> None:
    for backup in listed(path):
        try:
            with closing(sqlite3.connect(backup, timeout=5, isolation_level=None)) as db:
                db.execute("PRAGMA secure_delete=ON")
                db.execute("PRAGMA foreign_keys=ON")
                for statement in statements:
                    db.execute(statement, (name,))
        except sqlite3.Error as error:
            log.warning("%s still contains %s: %s", backup, name, error)

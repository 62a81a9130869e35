"""Opening the database: on disk, after a damaged one was moved aside; else in memory, so that no start fails because of a disk."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import field
from pathlib import Path

from counsel import paths
from counsel.engine.store.sqlite import backups, copying, files, recovery
from counsel.engine.store.sqlite.connections import connect, patiently
from counsel.engine.store.sqlite.schema import climbed, migrate
from counsel.lazy_dataclass import dataclass

log = logging.getLogger("counsel.store")
_READABLE = 256 * 1024 * 1024  # bytes of a database that are copied into memory


@dataclass(slots=True)
class Location:
    """Where the database is."""

    target: str  # for sqlite3.connect
    opened: files.Opened | None = None  # the file; None: in memory
    anchor: sqlite3.Connection | None = None  # of a database in memory, which lives as long as this
    problem: str | None = None  # shown with every answer
    frozen: list[str] = field(default_factory=list)  # jobs in memory that wait for the disk
    unclean: bool = False  # the last process did not close it: it should be checked

    def close(self) -> None:
        for each in (self.anchor, self.opened):
            if each is not None:
                each.close()


def locate(path: Path) -> Location:
    """On disk if that is possible. A newer release's file is refused (`ConfigInvalid`) and left alone."""
    try:
        return on_disk(path)
    except (OSError, sqlite3.Error) as error:
        problem = f"{path} cannot be written ({reason(error)}): nothing is kept after this process ends."
        log.warning("%s", problem)
        return in_memory(path, problem, lambda into: _copy_readable(path, into))


def on_disk(path: Path, live: sqlite3.Connection | None = None, why: str | None = None) -> Location:
    """Open the file; a damaged one is replaced first. `why`: what is known to be wrong with it."""
    paths.private_folder(path.parent)
    bad = recovery.Damaged(why, files.identity(path)) if why else None
    problem = None
    for _ in range(3):  # found damaged, replaced, opened; once more when another process was at it, too
        if bad:
            problem = _replace(path, bad, live) or problem
        try:
            location = _open(path)
        except recovery.Damaged as error:
            bad = error
        else:
            location.problem = problem
            return location
    raise sqlite3.OperationalError(f"it cannot be replaced: {bad}")


def _replace(path: Path, bad: recovery.Damaged, live: sqlite3.Connection | None) -> str | None:
    """Rebuild the database, unless another process has done so; what to report, if anything."""
    with recovery.lock(path):
        existing = files.identity(path)
        if existing is not None and existing != bad.identity and _is_intact(path):
            return None
        return recovery.replace(path, str(bad), live).report


def _is_intact(path: Path) -> bool:
    try:
        opened = files.Opened(path)
    except FileNotFoundError:
        return False
    with closing(opened):
        return recovery.examine(opened) is None


def _open(path: Path) -> Location:
    log_file, _ = files.beside(path)
    if files.identity(path) is None:
        if files.size(log_file):
            raise recovery.Damaged("it was deleted while its write-ahead log is still there")
        files.create(path)
    opened = files.Opened(path)
    try:
        unclean = files.size(log_file) > 0
        _check_header(opened)
        target = f"{path.absolute().as_uri()}?mode=rw"  # never created by SQLite beside an old log
        with _reporting_damage(opened.identity), closing(connect(target)) as connection:
            climbed(connection, path)
            if not opened.size:
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            patiently(lambda: connection.execute("PRAGMA journal_mode=WAL"))
            patiently(lambda: migrate(connection, path))
            _probe(connection)
        return Location(target, opened, unclean=unclean)
    except BaseException:
        opened.close()
        raise


def _check_header(opened: files.Opened) -> None:
    damage = opened.spoilt()
    if damage is None:
        return
    path = opened.path
    if opened.size or files.size(files.beside(path)[0]) or backups.listed(path):
        raise recovery.Damaged(
            damage, opened.identity
        )  # else it is new: another process made it a moment ago


@contextlib.contextmanager
def _reporting_damage(identity: files.Identity) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        foreign = (
            getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR
        )  # "no such table", "already exists"
        if foreign or backups.is_damage(error):
            raise recovery.Damaged(str(error), identity) from error
        raise


def _probe(connection: sqlite3.Connection) -> None:
    """Touches each table's first pages: a microsecond each."""
    for table in copying.TABLES:
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()  # our own names


# ── in memory ────────────────────────────────────────────────────────────────────────────────────────


def in_memory(
    path: Path, problem: str, fill: Callable[[sqlite3.Connection], None] = lambda _: None
) -> Location:
    location = Location("", problem=problem)
    location.target = f"file:counsel-{id(location)}?mode=memory&cache=shared"
    location.anchor = connect(location.target)
    try:
        fill(location.anchor)
    except (OSError, sqlite3.Error) as error:
        log.warning("%s cannot be read either: %s", path, reason(error))
    migrate(location.anchor, path)
    location.frozen = copying.freeze_unfinished(location.anchor)
    return location


def _copy_readable(path: Path, into: sqlite3.Connection) -> None:
    """With what is in the write-ahead log: on a read-only disk SQLite opens that only in a copy."""
    if not 0 < files.size(path) < _READABLE:
        return
    try:
        with closing(copying.read_only(path)) as old:
            old.backup(into)
    except sqlite3.Error:
        import shutil  # rare
        import tempfile

        with tempfile.TemporaryDirectory(prefix="counsel-") as folder:
            copy = Path(folder) / path.name
            with closing(files.Opened(path)) as opened:
                copy.write_bytes(opened.read(0, opened.size))
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(files.beside(path)[0], files.beside(copy)[0])
            with closing(sqlite3.connect(copy)) as old:
                old.backup(into)


def reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)

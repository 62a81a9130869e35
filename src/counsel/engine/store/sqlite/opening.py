"""Opens the database on disk, after replacing a damaged file; else in memory, so that a bad disk fails no start."""

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
from counsel.engine.store.sqlite.connections import connect, retry_while_locked
from counsel.engine.store.sqlite.schema import migrate, schema_version
from counsel.lazy_dataclass import dataclass

log = logging.getLogger("counsel.store")
_READABLE = 256 * 1024 * 1024  # bytes of a database that are copied into memory


@dataclass(slots=True)
class Location:
    """Where the database is."""

    target: str  # for sqlite3.connect
    file: files.OpenFile | None = None  # None: in memory
    anchor: sqlite3.Connection | None = None  # keeps a database in memory alive
    problem: str | None = None  # shown with every answer
    frozen: list[str] = field(default_factory=list)  # jobs in memory that wait for the disk
    unclean: bool = False  # the last process did not close it, so it should be checked

    def close(self) -> None:
        for resource in (self.anchor, self.file):
            if resource is not None:
                resource.close()


def locate(path: Path) -> Location:
    """On disk if possible. A newer release's file is refused (`ConfigInvalid`) and not changed."""
    try:
        return on_disk(path)
    except (OSError, sqlite3.Error) as error:
        problem = f"{path} cannot be written ({reason(error)}): nothing is kept after this process ends."
        log.warning("%s", problem)
        return in_memory(path, problem, lambda into: _copy_readable(path, into))


def on_disk(path: Path, live: sqlite3.Connection | None = None, cause: str | None = None) -> Location:
    """Open the file; a damaged one is replaced first. `cause`: what is already known to be wrong with it."""
    paths.private_folder(path.parent)
    damage = recovery.Damaged(cause, files.identity(path)) if cause else None
    problem = None
    for _ in range(3):  # damaged, replaced, opened; one more round if another process interferes
        if damage:
            problem = _replace(path, damage, live) or problem
        try:
            location = _open(path)
        except recovery.Damaged as error:
            damage = error
        else:
            location.problem = problem
            return location
    raise sqlite3.OperationalError(f"it cannot be replaced: {damage}")


def _replace(path: Path, damage: recovery.Damaged, live: sqlite3.Connection | None) -> str | None:
    """Rebuild the database, unless another process has done so; return what to report, if anything."""
    with recovery.lock(path):
        existing = files.identity(path)
        if existing is not None and existing != damage.identity and _is_intact(path):
            return None
        return recovery.replace(path, str(damage), live).report


def _is_intact(path: Path) -> bool:
    try:
        file = files.OpenFile(path)
    except FileNotFoundError:
        return False
    with closing(file):
        return recovery.examine(file) is None


def _open(path: Path) -> Location:
    log_file, _ = files.wal_files(path)
    if files.identity(path) is None:
        if files.size(log_file):
            raise recovery.Damaged("it was deleted while its write-ahead log is still there")
        files.create(path)
    file = files.OpenFile(path)
    try:
        unclean = files.size(log_file) > 0
        _check_header(file)
        target = files.uri(path, "mode=rw")  # SQLite must not create it beside an old log
        with _reporting_damage(file.identity), closing(connect(target)) as connection:
            schema_version(connection, path)
            if not file.size:
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            retry_while_locked(lambda: connection.execute("PRAGMA journal_mode=WAL"))
            retry_while_locked(lambda: migrate(connection, path))
            _probe(connection)
        return Location(target, file, unclean=unclean)
    except BaseException:
        file.close()
        raise


def _check_header(file: files.OpenFile) -> None:
    damage = file.header_damage()
    if damage is None:
        return
    path = file.path
    if file.size or files.size(files.wal_files(path)[0]) or backups.listed(path):
        raise recovery.Damaged(damage, file.identity)
    # else it is new: another process made it a moment ago


@contextlib.contextmanager
def _reporting_damage(identity: files.Identity) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        # "no such table", "already exists"
        is_foreign = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR
        if is_foreign or backups.is_damage(error):
            raise recovery.Damaged(str(error), identity) from error
        raise


def _probe(connection: sqlite3.Connection) -> None:
    """Read a row of each table, which takes a microsecond each."""
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
    """Includes the write-ahead log, which SQLite can open on a read-only disk only as a copy."""
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
            with closing(files.OpenFile(path)) as file:
                copy.write_bytes(file.read(0, file.size))
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(files.wal_files(path)[0], files.wal_files(copy)[0])
            with closing(sqlite3.connect(copy)) as old:
                old.backup(into)


def reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)

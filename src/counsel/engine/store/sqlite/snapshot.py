"""The history in a SQLite database of any age or state, read from a copy: the file itself does not change."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from counsel.engine.store.history import Row
from counsel.engine.store.sqlite import copying, files
from counsel.engine.store.sqlite.connections import connect
from counsel.engine.store.sqlite.schema import migrate, schema_version
from counsel.errors import ConfigInvalid, NotFound

_LISTS = ("images", "models", "cancelled_members")  # stored as JSON


class Snapshot:
    def __init__(self, db: sqlite3.Connection, problem: str | None) -> None:
        self._db = db
        self.problem = problem

    def conversations(self) -> Iterator[Row]:
        return self._rows("SELECT * FROM conversations WHERE expires > ? ORDER BY rowid", time.time())

    def messages(self, conversation: str) -> Iterator[Row]:
        return self._rows("SELECT * FROM messages WHERE conversation = ? ORDER BY n", conversation)

    def jobs(self) -> Iterator[Row]:
        return self._rows("SELECT * FROM jobs WHERE status != 'processing' ORDER BY rowid")

    def open_jobs(self) -> list[str]:
        return [
            row["id"] for row in self._rows("SELECT id FROM jobs WHERE status = 'processing' ORDER BY rowid")
        ]

    def calls(self, job: str) -> Iterator[Row]:
        return self._rows("SELECT key, at, reply FROM calls WHERE job = ?", job)

    def events(self, job: str) -> Iterator[Row]:
        return self._rows("SELECT seq, at, kind, slot, data FROM events WHERE job = ? ORDER BY seq", job)

    def usage(self) -> Iterator[Row]:
        return self._rows(
            "SELECT l.*, COALESCE(p.project, '') AS project FROM ledger l LEFT JOIN usage_projects p ON p.job = l.job "
            "ORDER BY l.rowid"
        )

    def blob(self, sha: str) -> tuple[str, bytes] | None:
        row = self._db.execute("SELECT media_type, data FROM blobs WHERE sha = ?", (sha,)).fetchone()
        return (row[0], row[1]) if row else None

    def _rows(self, sql: str, *values: object) -> Iterator[Row]:
        with closing(self._db.execute(sql, values)) as cursor:
            for row in cursor:
                yield {name: _value(name, row[name]) for name in row.keys()}  # noqa: SIM118 - a Row has no items


def _value(name: str, value: Any) -> Any:
    return json.loads(value) if name in _LISTS and isinstance(value, str) else value


@contextlib.contextmanager
def read(path: Path) -> Iterator[Snapshot]:
    """The readable rows, if the file is damaged. Raises `NotFound`, or `ConfigInvalid` for a newer release's file."""
    if not path.is_file():
        raise NotFound(f"There is no database {path}.", hint="Name its file, or its folder with --home.")
    with tempfile.TemporaryDirectory(prefix="counsel-import-") as folder:
        copy = Path(folder) / "counsel.db"
        problem = _copy(path, copy)
        with closing(connect(str(copy))) as db:
            yield Snapshot(db, problem)


def _copy(path: Path, copy: Path) -> str | None:
    """Copy it, with this release's tables; return what is wrong with the original, if anything."""
    try:
        with closing(_open(path)) as source, closing(connect(str(copy))) as into:
            schema_version(source, path)
            source.backup(into)
            migrate(into, path)
            result = str(into.execute("PRAGMA quick_check(1)").fetchone()[0])
        if result == "ok":
            return None
        problem = result
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
            raise
        problem = str(error)
    copy.unlink(missing_ok=True)
    rows = _merge(path, copy)
    if not rows:
        raise ConfigInvalid(
            f"{path} cannot be read: {problem}.",
            file=str(path),
            hint="Check that this is counsel's database, or use a backup.",
        )
    return f"{path} is damaged ({problem}): {rows} rows could be read"


def _open(path: Path) -> sqlite3.Connection:
    """If there is no write-ahead log, nobody is writing, and `immutable` keeps SQLite from creating files next to
    it."""
    if files.size(files.wal_files(path)[0]):
        return copying.read_only(path)
    target = files.uri(path, "mode=ro&immutable=1")
    return sqlite3.connect(target, uri=True, isolation_level=None)


def _merge(path: Path, copy: Path) -> int:
    with closing(copying.read_damaged(path)) as source, closing(connect(str(copy))) as into:
        migrate(into, copy)
        return copying.merge(source, into)

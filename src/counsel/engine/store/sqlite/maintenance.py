"""For `counsel doctor`: check whether the database's file is intact, and compact it while it is not in use."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

from counsel.engine.store.sqlite import files, opening, recovery, schema
from counsel.engine.store.sqlite.connections import connect
from counsel.records import Record

VERSION = sqlite3.sqlite_version
ERRORS: tuple[type[Exception], ...] = (OSError, sqlite3.Error)
_MAX_FREE_PAGES = 0.1  # of all pages; a file with more is rewritten
_INCREMENTAL = 2  # of auto_vacuum


class Integrity(Record):
    state: Literal["intact", "damaged", "unreadable", "unfinished"]
    detail: str  # the schema's version if intact, else what is wrong


def integrity(path: Path, seconds: float) -> Integrity:
    """Reads only, and gives up after `seconds`. Raises `ConfigInvalid` for a newer release's file."""
    try:
        with _read_only(path, seconds) as connection:
            version = schema.schema_version(connection, path)
            damage = recovery.table_damage(connection, version) if files.size(path) else "it is empty"
            result = str(connection.execute("PRAGMA quick_check(5)").fetchone()[0])
    except sqlite3.OperationalError as error:
        return Integrity("unfinished" if "interrupted" in str(error) else "unreadable", str(error))
    except sqlite3.DatabaseError as error:
        return Integrity("damaged", str(error))
    if damage or result != "ok":
        return Integrity("damaged", damage or result)
    return Integrity("intact", str(version))


@contextlib.contextmanager
def _read_only(path: Path, seconds: float) -> Iterator[sqlite3.Connection]:
    deadline = time.monotonic() + seconds
    with closing(sqlite3.connect(files.uri(path, "mode=ro"), uri=True, timeout=2.0)) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
        yield connection


def compact(path: Path) -> int:
    """Return free pages and the write-ahead log to the file system, and how many bytes that freed."""
    before = _bytes(path)
    with closing(opening.on_disk(path)) as location, closing(connect(location.target)) as db:
        pages, free, mode = (
            db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "auto_vacuum")
        )
        if mode != _INCREMENTAL or free > pages * _MAX_FREE_PAGES:
            db.execute("PRAGMA auto_vacuum=INCREMENTAL")
            db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return before - _bytes(path)


def _bytes(path: Path) -> int:
    return files.size(path) + files.size(files.wal_files(path)[0])

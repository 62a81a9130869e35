"""Connections to SQLite: their settings, and text that is not valid UTF-8."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import Any

from counsel.text import without_surrogates

# the write-ahead log is cut to this size once it has been copied into the database
WAL_BYTES = 4 * 1024 * 1024
_SETTINGS = ("synchronous=FULL", "foreign_keys=ON", "cache_size=-2000", f"journal_size_limit={WAL_BYTES}")


_execute = sqlite3.Connection.execute


class Connection(sqlite3.Connection):
    """Replaces lone surrogates (a folder's name that is not UTF-8, half an emoji): they must not fail a write."""

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        try:
            return _execute(self, sql, values)
        except UnicodeEncodeError:  # while binding: nothing has run yet
            return _execute(
                self,
                sql,
                [without_surrogates(value) if isinstance(value, str) else value for value in values],
            )

    def executemany(self, sql: str, rows: Any, /) -> sqlite3.Cursor:
        for row in rows:
            self.execute(sql, row)
        return self.cursor()


def connect(target: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        target,
        timeout=60,
        isolation_level=None,
        check_same_thread=False,
        uri=target.startswith("file:"),
        factory=Connection,
    )
    connection.row_factory = sqlite3.Row
    try:
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}")
    except BaseException:  # not a database, or not readable
        connection.close()
        raise
    return connection


def retry_while_locked(step: Callable[[], object], seconds: float = 30) -> None:
    """Switching to WAL does not wait for a lock as other statements do, so several first starts at once collide."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            step()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return

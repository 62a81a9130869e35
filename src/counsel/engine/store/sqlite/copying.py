"""Copies rows from one database into another: out of a damaged file, a backup, or the memory of a process without a
disk.

What cannot be read is skipped. Of a row that both have, the more complete one wins: a finished job over an
unfinished one, the longer conversation over the shorter one.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

from counsel.engine.store.sqlite import files
from counsel.errors import Internal

TABLES = (
    *("conversations", "messages", "sessions", "blobs", "jobs", "calls", "events"),
    *("ledger", "usage_projects", "answers", "reservations"),
)
_CHILDREN = {
    "messages": ("conversation", "conversations"),
    "sessions": ("conversation", "conversations"),
    "calls": ("job", "jobs"),
    "events": ("job", "jobs"),
}
_BETTER = {
    "conversations": "excluded.messages > conversations.messages",
    "jobs": "jobs.status = 'processing' AND excluded.status != 'processing'",
}
_TRIES = 60  # jumps over unreadable rows, each twice as far as the one before


def merge(source: sqlite3.Connection, into: sqlite3.Connection, *, leave_out: Collection[str] = ()) -> int:
    """Copy every readable row in one transaction; return how many were new or better."""
    into.execute("PRAGMA foreign_keys=OFF")
    into.execute("BEGIN IMMEDIATE")
    try:
        count = sum(_merge_table(source, into, table, leave_out) for table in TABLES)
        for child, (column, parent) in _CHILDREN.items():
            into.execute(f"DELETE FROM {child} WHERE {column} NOT IN (SELECT id FROM {parent})")
        # `messages` also gives the number of the next message.
        into.execute(
            "UPDATE conversations SET messages = (SELECT COALESCE(MAX(n), 0) FROM messages m WHERE m.conversation = conversations.id)"
        )
        into.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            into.execute("ROLLBACK")
        raise
    finally:
        into.execute("PRAGMA foreign_keys=ON")
    return count


def _merge_table(
    source: sqlite3.Connection, into: sqlite3.Connection, table: str, leave_out: Collection[str]
) -> int:
    with closing(into.execute(f"SELECT * FROM {table} LIMIT 0")) as cursor:
        own_columns = [column[0] for column in cursor.description]
    try:
        with closing(source.execute(f"SELECT * FROM {table} LIMIT 0")) as cursor:
            source_columns = {column[0] for column in cursor.description}
    except sqlite3.Error:
        return 0
    columns = [name for name in own_columns if name in source_columns]
    statement = _statement(table, columns)
    before = into.total_changes
    for row in _rows(source, table, columns):
        if table == "jobs" and row[columns.index("id")] in leave_out:
            continue
        with contextlib.suppress(sqlite3.IntegrityError, sqlite3.InterfaceError):
            into.execute(statement, row)
    return into.total_changes - before


def _statement(table: str, columns: list[str]) -> str:
    names, marks = ", ".join(columns), ", ".join(f"?{n}" for n in range(1, len(columns) + 1))
    if table == "ledger":  # it has no key: equal rows are the same row
        same = " AND ".join(f"{name} IS ?{n}" for n, name in enumerate(columns, 1))
        return f"INSERT INTO ledger ({names}) SELECT {marks} WHERE NOT EXISTS (SELECT 1 FROM ledger WHERE {same})"
    if table in _BETTER:
        updates = ", ".join(f"{name} = excluded.{name}" for name in columns if name != "id")
        return (
            f"INSERT INTO {table} ({names}) VALUES ({marks}) "
            f"ON CONFLICT (id) DO UPDATE SET {updates} WHERE {_BETTER[table]}"
        )
    return f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"


def _rows(source: sqlite3.Connection, table: str, columns: list[str]) -> Iterator[tuple[object, ...]]:
    """Read forwards up to an unreadable page, then continue behind it, in growing jumps."""
    names = ", ".join(columns)
    if table == "events":  # it has no rowid: read from both ends
        for order in ("", "ORDER BY job DESC, seq DESC"):
            with contextlib.suppress(sqlite3.Error):
                yield from _fetch(source.execute(f"SELECT {names} FROM events {order}"))
                return
        return
    last, step, tries = -(2**62), 1, 0
    while tries < _TRIES:
        try:
            cursor = source.execute(
                f"SELECT rowid, {names} FROM {table} WHERE rowid > ? ORDER BY rowid",
                (last,),
            )
            for row in _fetch(cursor):
                last, step, tries = row[0], 1, 0  # type: ignore[assignment]
                yield tuple(row)[1:]
        except sqlite3.Error:
            last = max(last, 0) + step
            step, tries = step * 2, tries + 1
        else:
            return


def _fetch(cursor: sqlite3.Cursor) -> Iterator[tuple[object, ...]]:
    """One by one: `fetchmany` loses the rows before the one that cannot be read."""
    with closing(cursor):
        for row in cursor:
            yield tuple(row)


def freeze_unfinished(db: sqlite3.Connection) -> list[str]:
    """In a copy that may be outdated: end its open jobs, which may have continued, and been paid for, elsewhere."""
    ids = [row[0] for row in db.execute("SELECT id FROM jobs WHERE status = 'processing'")]
    db.execute(
        "UPDATE jobs SET status = 'failed', finished = ?, error = ? WHERE status = 'processing'",
        (time.time(), json.dumps(_UNKNOWN.as_dict())),
    )
    return ids


_UNKNOWN = Internal(
    "counsel's database was damaged or could not be written, so it is unknown how far this job got.",
    hint="Ask again; `counsel doctor` says what happened to the database.",
)


def read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(files.uri(path, "mode=ro"), uri=True, timeout=5, isolation_level=None)


def read_damaged(path: Path) -> sqlite3.Connection:
    """With `writable_schema` SQLite reads files that are shorter than their header says."""
    db = read_only(path)
    with contextlib.suppress(sqlite3.Error):
        db.execute("PRAGMA writable_schema=ON")
    return db

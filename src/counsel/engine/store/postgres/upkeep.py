"""Keeps the database small: deletes what has expired in small steps. Several servers may do it at the same time.

PostgreSQL's own vacuum makes the space usable again. The limit counts bytes without compression.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from counsel.engine.store.postgres import mcp_sessions, uploads
from counsel.engine.store.postgres.connections import Row
from counsel.engine.store.postgres.database import Database

_STEP = 100  # rows in one statement
_USAGE = 400 * 86400  # seconds
_BLOB_AGE = 3600  # seconds: an image is stored before the job that refers to it
_OWNER_AGE = 86400  # seconds
_SHRINK_TO = 0.9  # of the limit, once it is exceeded
_ROW = 200  # bytes of a row, besides its long columns
_UNUSED = "id NOT IN (SELECT conversation FROM counsel.jobs WHERE status = 'processing')"


async def sweep(database: Database, limit: int) -> int:
    """Delete what has expired, stay within `limit` bytes (0: none); return how many jobs were deleted."""
    deleted = await _expired(database)
    if limit:
        deleted += await _within(database, limit)
    return deleted


async def _expired(database: Database) -> int:
    now = time.time()
    job_condition = (
        "finished < %s - 86400 AND finished + keep_days * 86400.0 < %s"  # the first condition uses the index
    )
    deleted = await _delete(database, "jobs", "id", job_condition, now, now)
    await _delete(database, "conversations", "id", f"expires < %s AND {_UNUSED}", now)
    await _delete(database, "answers", "key", "expires < %s", now)
    await _delete(database, "audit", "id", "expires < %s", now)
    await _delete(database, "usage", "id", "at < %s", now - _USAGE)
    await _delete(database, "reservations", "id", "NOT open AND at < %s", now - _USAGE)
    await _delete(
        database,
        "owners",
        "name",
        "seen < clock_timestamp() - make_interval(secs => %s) "
        "AND name NOT IN (SELECT owner FROM counsel.jobs WHERE status = 'processing')",
        _OWNER_AGE,
    )
    for table, seconds in (("mcp_sessions", mcp_sessions.IDLE_SECONDS), ("uploads", uploads.KEEP)):
        column = "seen" if table == "mcp_sessions" else "created"
        await _delete(
            database, table, "id", f"{column} < clock_timestamp() - make_interval(secs => %s)", seconds
        )
    await _unused_blobs(database)
    return deleted


async def _unused_blobs(database: Database) -> None:
    await _delete(
        database,
        "blobs",
        "sha",
        "at < %s AND sha NOT IN (SELECT unnest(images) FROM counsel.messages) "
        "AND sha NOT IN (SELECT unnest(images) FROM counsel.jobs)",
        time.time() - _BLOB_AGE,
    )


async def _delete(database: Database, table: str, key: str, condition: str, *values: object) -> int:
    """Find rows, then delete them in steps, each only if the condition still holds; return how many were deleted."""
    rows = await database.rows(f"SELECT {key} FROM counsel.{table} WHERE {condition}", *values)
    deleted = 0
    for start in range(0, len(rows), _STEP):
        deleted += await _step(database, table, key, rows[start : start + _STEP], condition, *values)
    return deleted


async def _step(
    database: Database, table: str, key: str, rows: Sequence[Row], condition: str, *values: object
) -> int:
    """Delete in one statement, then pause as long as that took: half of the server's time is left to others."""
    began = time.monotonic()
    deleted_rows = await database.rows(
        f"DELETE FROM counsel.{table} WHERE {key} = ANY(%s) AND {condition} RETURNING 1",
        [row[0] for row in rows],
        *values,
    )
    await asyncio.sleep(min(time.monotonic() - began, 1.0))
    return len(deleted_rows)


# ── a limit of bytes ─────────────────────────────────────────────────────────────────────────────────

_ENDED = "status != 'processing'"
_LONG = {  # columns that may be long; PostgreSQL knows their lengths without reading them
    "answers": ("reply",),
    "events": ("data",),
    "calls": ("reply",),
    "jobs": ("task", "result", "error"),
    "messages": ("text", "asked", "about"),
    "blobs": ("data",),
    "uploads": ("data",),
    "usage": (),
}
_ORDER = (  # what is deleted first; open jobs and their conversations are never deleted
    ("answers", "key", "TRUE", "expires"),
    ("uploads", "id", "TRUE", "created"),
    ("events", "job", f"job IN (SELECT id FROM counsel.jobs WHERE {_ENDED})", "job"),
    ("jobs", "id", _ENDED, "finished"),
    ("conversations", "id", _UNUSED, "updated"),
    ("usage", "id", "TRUE", "at"),
)


async def _within(database: Database, limit: int) -> int:
    """Delete the oldest rows of each table, the least valuable tables first; return how many jobs were deleted."""
    if await size(database) <= limit:
        return 0
    deleted = 0
    for table, key, condition, oldest in _ORDER:
        while await size(database) > limit * _SHRINK_TO:
            rows = await database.rows(
                f"SELECT {key} FROM counsel.{table} WHERE {condition} ORDER BY {oldest} LIMIT %s", _STEP // 4
            )
            if not rows:
                break
            count = await _step(database, table, key, rows, condition)
            deleted += count if table == "jobs" else 0
            if table in {"jobs", "conversations"}:
                await _unused_blobs(database)
    return deleted


async def size(database: Database) -> int:
    sums = " + ".join(
        f"(SELECT COUNT(*) * {_ROW}"
        + "".join(f" + COALESCE(SUM(octet_length({name})), 0)" for name in columns)
        + f" FROM counsel.{table})"
        for table, columns in _LONG.items()
    )
    row = await database.row(f"SELECT ({sums})::int8")
    return int(row[0]) if row else 0

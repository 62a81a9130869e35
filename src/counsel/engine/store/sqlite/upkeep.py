"""Keeps the database small: deletes what has expired in small steps, then returns freed pages to the disk.

A step is one short transaction (100 jobs: about 15 ms); other writes run between two steps.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator

from counsel.engine.store.sqlite.database import Database, Work

_JOBS = 100  # in one step
_PAGES = 500  # returned in one step: 2 MB
_LEDGER = 400 * 86400  # seconds
_BLOB_AGE = 3600  # seconds: an image is stored before the job that refers to it
_CHEAP = 64 * 1024**2  # bytes of rows up to which the whole file is rewritten at once (0.3 s)
_SHRINK_TO = 0.9  # of the limit, once it is exceeded


async def sweep(database: Database, limit: int = 0) -> int:
    """Delete what has expired, stay within `limit` bytes (0: none), free pages; return how many jobs were deleted."""
    deleted = await _expired(database)
    if limit:
        deleted += await _within(database, limit)
    await _shrink(database)
    return deleted


# ── what has expired ─────────────────────────────────────────────────────────────────────────────────


async def _expired(database: Database) -> int:
    now = time.time()
    job_condition = (
        "finished < ?1 - 86400 AND finished + keep_days * 86400 < ?1"  # the first condition uses the index
    )
    deleted = await _by_key(database, "jobs", "id", job_condition, now)
    conversation_condition = (
        "expires < ?1 AND id NOT IN (SELECT conversation FROM jobs WHERE status = 'processing')"
    )
    await _by_key(database, "conversations", "id", conversation_condition, now)
    await _by_key(database, "answers", "key", "expires < ?1", now)
    await _by_key(database, "ledger", "rowid", "at < ?1", now - _LEDGER)
    await _by_key(database, "reservations", "id", "NOT open AND at < ?1", now - _LEDGER)
    await _unused_projects(database)
    await _unused_blobs(database, now - _BLOB_AGE)
    return deleted


async def _by_key(database: Database, table: str, key: str, condition: str, value: float) -> int:
    """Find rows off the event loop and delete them in steps, checking each once more; return how many were found."""
    rows = await database.search(f"SELECT {key} FROM {table} WHERE {condition}", value)
    for batch in _steps([row[0] for row in rows]):
        await _step(database, _delete(table, key, condition, value, batch))
    return len(rows)


def _delete(table: str, key: str, condition: str, value: float, keys: Iterable[object]) -> Work[None]:
    def work(db: sqlite3.Connection) -> None:
        for row in keys:
            db.execute(f"DELETE FROM {table} WHERE {key} = ?2 AND {condition}", (value, row))

    return work


async def _unused_blobs(database: Database, before: float) -> None:
    candidates = {row[0] for row in await database.search("SELECT sha FROM blobs WHERE at < ?", before)}
    if not candidates:
        return
    references = await database.search(
        "SELECT value FROM messages, json_each(messages.images) "
        "UNION SELECT value FROM jobs, json_each(jobs.task, '$.images')"
    )
    for batch in _steps(sorted(candidates - {row[0] for row in references})):
        await _step(database, _delete("blobs", "sha", "at < ?1", before, batch))


async def _unused_projects(database: Database) -> None:
    """Delete the projects of jobs without usage records."""
    rows = await database.search("SELECT job FROM usage_projects EXCEPT SELECT job FROM ledger")
    for batch in _steps([row[0] for row in rows]):
        await _step(database, _delete("usage_projects", "job", "?1 = ?1", 0.0, batch))


def _steps(keys: list[object]) -> Iterator[list[object]]:
    return (keys[n : n + _JOBS] for n in range(0, len(keys), _JOBS))


async def _step(database: Database, work: Work[object]) -> None:
    """Write once, then pause as long as that took: half of the disk's time is left to others."""
    began = time.monotonic()
    await database.write(work)
    from asyncio import sleep

    await sleep(min(time.monotonic() - began, 1.0))


# ── a limit of bytes ─────────────────────────────────────────────────────────────────────────────────

_ORDER = (  # what is deleted first; open jobs and their conversations are never deleted
    ("answers", "key", "SELECT key FROM answers ORDER BY expires LIMIT ?"),
    (
        "events",
        "job",
        "SELECT DISTINCT job FROM events JOIN jobs ON jobs.id = job WHERE status != 'processing' ORDER BY finished LIMIT ?",
    ),
    ("jobs", "id", "SELECT id FROM jobs WHERE status != 'processing' ORDER BY finished LIMIT ?"),
    (
        "conversations",
        "id",
        "SELECT id FROM conversations WHERE id NOT IN (SELECT conversation FROM jobs WHERE status = 'processing') ORDER BY updated LIMIT ?",
    ),
    ("ledger", "rowid", "SELECT rowid FROM ledger ORDER BY at LIMIT ?"),
)


async def _within(database: Database, limit: int) -> int:
    """Delete the oldest rows of each table, the least valuable tables first; return how many jobs were deleted."""
    if size(database) <= limit:
        return 0
    deleted = 0
    for table, key, oldest in _ORDER:
        while size(database) > limit * _SHRINK_TO:
            rows = await database.search(oldest, _JOBS // 4)
            if not rows:
                break
            deleted += len(rows) if table == "jobs" else 0
            await _step(database, _delete(table, key, "?1 = ?1", 0.0, [row[0] for row in rows]))
            if table in {"jobs", "conversations"}:
                await _unused_blobs(database, time.time() - _BLOB_AGE)
    return deleted


def size(database: Database) -> int:
    """Bytes of the used pages."""
    pages, free, page = (
        int((database.row(f"PRAGMA {name}") or [0])[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * page


# ── free pages ───────────────────────────────────────────────────────────────────────────────────────


async def _shrink(database: Database) -> None:
    if database.in_memory:
        return
    mode = (database.row("PRAGMA auto_vacuum") or [0])[0]
    if mode == 2:  # incremental
        while (free := (database.row("PRAGMA freelist_count") or [0])[0]) > _PAGES:
            await _step(database, _give_back)
            if (database.row("PRAGMA freelist_count") or [0])[0] >= free:
                break
    elif size(database) < _CHEAP and not database.busy():
        from asyncio import to_thread

        await to_thread(rewrite, database)


def _give_back(db: sqlite3.Connection) -> None:
    for _ in range(_PAGES):  # a statement without columns is stepped once by Python: one page each, 10 µs
        db.execute("PRAGMA incremental_vacuum(1)")


def rewrite(database: Database) -> None:
    """Rewrite a file of an older release once, so that it can return freed pages from then on."""
    database.alone(_vacuum)


def _vacuum(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA auto_vacuum=INCREMENTAL")
    db.execute("VACUUM")

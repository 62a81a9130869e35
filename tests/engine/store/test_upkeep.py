"""Upkeep deletes expired rows in small steps, returns pages to the disk, keeps a size limit and makes backups."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from counsel.engine.store.sqlite import backups, files, upkeep
from counsel.engine.store.sqlite.connections import WAL_BYTES
from counsel.engine.store.sqlite.database import Database
from counsel.engine.store.sqlite.store import SqliteStore
from counsel.settings import load
from support.rows import first
from support.stored import usage

DAY = 86400


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "home" / "counsel.db")
    yield database
    database.close()


def add_jobs(
    db: sqlite3.Connection, count: int, *, age: float, name: str = "old", status: str = "completed"
) -> None:
    """Jobs with a call and two events, 6 KB each, each in a conversation of its own."""
    at = time.time() - age
    for n in range(count):
        job, conversation = f"{name}-{n}", f"talk-{name}-{n}"
        db.execute(
            "INSERT INTO conversations (id, created, updated, expires, tool, project, client, messages) VALUES (?,?,?,?,'chat','p','c',1)",
            (conversation, at, at, at + 30 * DAY),
        )
        db.execute(
            "INSERT INTO messages VALUES (?,1,'user',?,NULL,'[]','{}',?,?)",
            (conversation, "m" * 1000, job, at),
        )
        db.execute(
            "INSERT INTO jobs (id, tool, conversation, status, background, created, finished, owner, fingerprint, caller, task, models, total, result) "
            "VALUES (?,'chat',?,?,0,?,?,'o','f','{}','{}','[]',1,?)",
            (job, conversation, status, at, None if status == "processing" else at, "r" * 2000),
        )
        db.execute("INSERT INTO calls VALUES (?, 'answer', ?, ?)", (job, at, "c" * 1000))
        for seq in (1, 2):
            db.execute("INSERT INTO events VALUES (?,?,?,'text','0',?)", (job, seq, at, "e" * 500))


def count(database: Database, table: str = "jobs") -> int:
    return int(first(database, f"SELECT COUNT(*) FROM {table}"))


async def test_expired_jobs_and_their_pages_are_freed_in_many_short_transactions(
    database: Database,
) -> None:
    await database.write(lambda db: add_jobs(db, 3000, age=4 * DAY))
    await database.write(lambda db: add_jobs(db, 10, age=0, name="new"))
    steps = 0
    write = database.write

    def counted(work: Any) -> Any:
        nonlocal steps
        steps += 1
        return write(work)

    database.write = counted  # type: ignore[method-assign]
    assert await upkeep.sweep(database) == 3000
    assert steps >= 30
    assert count(database) == 10
    assert count(database, "events") == 20
    assert first(database, "PRAGMA freelist_count") <= 500


async def test_other_writes_get_through_while_it_sweeps(database: Database) -> None:
    import asyncio

    await database.write(lambda db: add_jobs(db, 1000, age=4 * DAY))
    sweeping = asyncio.ensure_future(upkeep.sweep(database))
    while count(database) == 1000:
        await asyncio.sleep(0.001)
    await database.write(lambda db: db.execute("INSERT INTO answers VALUES ('a', 9e9, 'x')"))
    assert not sweeping.done()
    await sweeping


async def test_the_log_is_cut_without_writes(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    monkeypatch.setattr("counsel.engine.store.sqlite.writer._IDLE", 0.05)
    log = files.wal_files(database.path)[0]
    await database.write(
        lambda db: db.execute("INSERT INTO answers VALUES ('big', 9e9, ?)", ("x" * 3 * WAL_BYTES,))
    )
    async with asyncio.timeout(60):
        while files.size(log):
            await asyncio.sleep(0.01)


async def test_an_old_file_is_rewritten_so_that_it_returns_pages(tmp_path: Path) -> None:
    path = tmp_path / "counsel.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA auto_vacuum=NONE")
        db.execute("PRAGMA user_version=0")
        db.execute("VACUUM")
    path.unlink()
    path.touch(0o600)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        from counsel.engine.store.sqlite.schema import migrate

        migrate(db, path)
        db.execute("BEGIN")  # one write to the disk, not thousands
        add_jobs(db, 500, age=4 * DAY)
        db.execute("COMMIT")
    database = Database(path)
    before = files.size(path)
    await upkeep.sweep(database)
    database.close()
    assert files.size(path) < before / 3
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA auto_vacuum").fetchone() == (2,)


async def test_past_the_limit_the_oldest_goes_first_and_unfinished_jobs_never(database: Database) -> None:
    await database.write(lambda db: add_jobs(db, 200, age=2 * DAY))
    await database.write(lambda db: add_jobs(db, 100, age=1000, name="new"))
    await database.write(lambda db: add_jobs(db, 5, age=3 * DAY, name="open", status="processing"))
    full = upkeep.size(database)
    await upkeep.sweep(database, full - 200_000)
    assert count(database, "conversations") == 305, "they go last"
    assert count(database, "events") < 600
    await upkeep.sweep(database, full // 2)
    assert upkeep.size(database) <= full // 2
    kinds = {row[0].split("-")[0] for row in database.rows("SELECT id FROM jobs")}
    assert "open" in kinds
    await upkeep.sweep(database, 1)
    assert {row[0] for row in database.rows("SELECT id FROM jobs")} == {f"open-{n}" for n in range(5)}
    assert {row[0] for row in database.rows("SELECT id FROM conversations")} == {
        f"talk-open-{n}" for n in range(5)
    }
    assert count(database, "events") == 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [("500 MB", 500 * 1024**2), ("2GiB", 2 * 1024**3), ("1.5g", 3 * 512 * 1024**2), ("4096", 4096), ("0", 0)],
)
def test_sizes_can_be_read_by_people(tmp_path: Path, text: str, expected: int) -> None:
    result = load({"COUNSEL_HOME": str(tmp_path), "COUNSEL_MAX_DATABASE_BYTES": text})
    assert result.max_database_bytes == expected
    assert result.problems == ()


async def test_a_backup_is_private_complete_and_made_once_a_day_if_something_changed(
    database: Database,
) -> None:
    path = database.path
    await database.write(lambda db: add_jobs(db, 3, age=0))
    assert backups.due(path)
    backup = backups.make(path)
    assert backup is not None
    assert stat.S_IMODE(os.stat(backup).st_mode) == 0o600  # noqa: PTH116 - no wait
    with closing(sqlite3.connect(backup)) as db:
        assert db.execute("SELECT COUNT(*) FROM jobs").fetchone() == (3,)
    assert not backups.due(path)
    assert not backups.due(path, time.time() + 2 * DAY), "nothing has changed"
    os.utime(backup, (0, 0))
    assert backups.due(path)
    for n in range(5):
        backup.with_name(f"counsel-2020010{n}T000000Z.db").touch()
    backups.prune(path)
    assert len(backups.listed(path)) == backups.KEPT


async def test_no_backup_without_room_on_the_disk(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "SPARE", 1 << 60)
    assert backups.make(database.path) is None
    assert backups.listed(database.path) == []


async def test_a_deleted_conversation_is_gone_from_the_backups(database: Database) -> None:
    await database.write(lambda db: add_jobs(db, 2, age=0))
    backup = backups.make(database.path)
    assert backup is not None
    store = SqliteStore(database.path)
    assert await store.delete_conversation("talk-old-0")
    await store.close()
    with closing(sqlite3.connect(backup)) as db:
        assert db.execute("SELECT id FROM conversations").fetchall() == [("talk-old-1",)]
        assert db.execute("SELECT id FROM jobs").fetchall() == [("old-1",)]


async def test_the_folder_of_a_job_is_known_as_long_as_its_usage_is(database: Database) -> None:
    store = SqliteStore(database.path)
    try:
        await store.record_usage(usage("kept", project="/p"))
        await database.write(lambda db: db.execute("INSERT INTO usage_projects VALUES ('gone', '/q')"))
        await upkeep.sweep(database)
        rows = await database.search("SELECT job FROM usage_projects")
        assert [row[0] for row in rows] == ["kept"]
    finally:
        await store.close()

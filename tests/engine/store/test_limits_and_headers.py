"""The database's size limit to the byte, and the header of its file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from counsel.engine.store.sqlite import files, upkeep
from counsel.engine.store.sqlite.database import Database
from engine.store.test_upkeep import add_jobs, count


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "home" / "counsel.db")
    yield database
    database.close()


async def test_a_database_at_its_limit_keeps_everything_and_one_past_it_shrinks(
    database: Database,
) -> None:
    await database.write(lambda db: add_jobs(db, 300, age=0))
    limit = upkeep.size(database)
    assert await upkeep.sweep(database, limit) == 0
    assert (count(database), count(database, "events")) == (300, 600)
    assert await upkeep.sweep(database) == 0  # no limit
    await upkeep.sweep(database, limit - 1)
    assert upkeep.size(database) <= 0.9 * limit
    assert count(database) == 300  # deleting their events was enough
    assert 0 < count(database, "events") < 600


async def test_jobs_are_deleted_only_after_events_and_are_counted(database: Database) -> None:
    await database.write(lambda db: add_jobs(db, 200, age=0))
    deletions = await upkeep.sweep(database, upkeep.size(database) // 2)
    assert count(database, "events") == 0
    assert 0 < deletions == 200 - count(database)


@pytest.mark.parametrize("page", [512, 4096, 65536])
def test_a_truncated_file_is_detected(tmp_path: Path, page: int) -> None:
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA page_size={page}")
        db.execute("CREATE TABLE t (x)")
        db.execute("INSERT INTO t VALUES (?)", ("x" * 3 * page,))
        db.commit()
    open_file = files.OpenFile(path)
    assert open_file.header_damage() is None
    assert not open_file.is_truncated()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    assert open_file.is_truncated()
    path.write_bytes(b"x" * 200)
    assert files.OpenFile(path).header_damage() == "it is not a database"
    path.write_bytes(b"")
    assert files.OpenFile(path).header_damage() == "it is empty"

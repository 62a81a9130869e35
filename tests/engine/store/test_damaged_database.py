"""A database that is damaged, emptied, deleted or replaced is noticed, moved aside, rebuilt and reported."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from counsel.engine.store.sqlite import backups, files, recovery
from counsel.engine.store.sqlite.database import Database
from counsel.engine.store.sqlite.store import SqliteStore
from support.stored import answer, completed, fence, new_job


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "counsel.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    database = Database(path)
    yield database
    database.close()


def put(name: str, size: int = 1) -> Any:
    return lambda db: db.execute("INSERT INTO answers VALUES (?, 1, ?)", (name, "x" * size))


def keys(database: Database) -> set[str]:
    return {row[0] for row in database.rows("SELECT key FROM answers")}


def on_disk(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {row[0] for row in db.execute("SELECT key FROM answers")}


def fill(path: Path, count: int = 200) -> None:
    """A cleanly closed database of several hundred pages."""
    database = Database(path)

    def work(db: sqlite3.Connection) -> None:
        for n in range(count):
            put(f"old-{n:04d}", 3000)(db)

    database.soon(work)
    database.close()


def overwrite(path: Path, offset: int, length: int, data: bytes = b"\xee", *, truncate: bool = False) -> None:
    with path.open("w+b" if truncate else "r+b") as file:
        file.seek(offset)
        file.write(data * length)


# ── while it is open ─────────────────────────────────────────────────────────────────────────────────


async def test_a_file_that_is_deleted_is_written_again_complete(database: Database) -> None:
    await database.write(put("a"))
    database.path.unlink()
    await database.write(put("b"))
    assert keys(database) == on_disk(database.path) == {"a", "b"}
    assert "it was deleted. " in (database.problem or "")
    assert stat.S_IMODE(database.path.stat().st_mode) == 0o600


async def test_a_sound_file_is_left_alone(database: Database) -> None:
    await database.write(put("a"))
    before = database.path.stat().st_ino
    database.examine().result(30)
    assert (database.path.stat().st_ino, database.problem) == (before, None)
    assert recovery.damaged_files(database.path) == []


async def test_a_quick_write_into_a_deleted_file_is_not_lost(database: Database) -> None:
    await database.quickly(put("a"))
    database.path.unlink()
    await database.quickly(put("b"))
    assert on_disk(database.path) == {"a", "b"}


async def test_deleting_all_its_files_loses_nothing(database: Database) -> None:
    await database.write(put("a"))
    for file in (database.path, *files.wal_files(database.path)):
        file.unlink()
    database.examine().result(30)
    assert on_disk(database.path) == {"a"}


@pytest.mark.parametrize("content", [b"", b"these are notes\n" * 1000])
async def test_a_file_that_is_emptied_or_overwritten_is_moved_aside(
    path: Path, database: Database, content: bytes
) -> None:
    await database.write(put("a"))
    overwrite(path, 0, 1, content, truncate=True)
    database.examine().result(30)
    await database.write(put("b"))
    assert "b" in on_disk(path)
    (aside,) = recovery.damaged_files(path)
    assert aside.read_bytes() == content
    assert aside.name in (database.problem or "")


async def test_a_file_that_is_cut_in_half_is_moved_aside_and_its_rows_saved(path: Path) -> None:
    fill(path)
    database = Database(path)
    os.truncate(path, files.size(path) // 8192 * 4096)
    database.examine().result(30)
    await database.write(put("new"))
    rows = on_disk(path)
    assert "new" in rows
    assert len(rows) > 50, "the rows of the first half are read"
    assert recovery.damaged_files(path)
    database.close()


async def test_damage_that_a_read_finds_is_repaired_and_the_read_answered(path: Path) -> None:
    fill(path)
    database = Database(path)
    overwrite(path, 4096 * 60, 4096 * 40)
    result = await database.search("SELECT key, length(reply) FROM answers")
    assert len(result) > 50
    assert len(recovery.damaged_files(path)) == 1
    assert "A new one was made from" in (database.problem or "")
    database.close()


async def test_damage_that_a_quick_read_finds_is_repaired_and_the_read_answered(path: Path) -> None:
    queries: tuple[Any, ...] = (
        lambda database: len(database.rows("SELECT length(reply) FROM answers")),
        lambda database: database.row("SELECT count(length(reply)) FROM answers")[0],
    )
    for number, query in enumerate(queries, 1):
        fill(path)
        database = Database(path)
        overwrite(path, 4096 * 60, 4096 * 40)
        assert query(database) > 50
        assert len(recovery.damaged_files(path)) == number
        database.close()
        path.unlink()


async def test_damage_that_a_write_finds_is_repaired_and_the_write_made(path: Path) -> None:
    fill(path)
    database = Database(path)
    overwrite(path, 4096 * 60, 4096 * 40)
    await database.write(lambda db: db.execute("UPDATE answers SET expires = 2, reply = reply || 'y'"))
    assert len(recovery.damaged_files(path)) == 1
    assert on_disk(path)
    database.close()


async def test_another_sound_file_in_its_place_is_used_and_completed(path: Path, tmp_path: Path) -> None:
    """A backup is restored while counsel runs; the log of the old file would corrupt it."""
    fill(path, 3)
    shutil.copy(path, tmp_path / "copy")
    database = Database(path)
    await database.write(put("a"))
    (tmp_path / "copy").replace(path)
    await database.write(put("b"))
    assert on_disk(path) == {"old-0000", "old-0001", "old-0002", "a", "b"}
    database.close()


async def test_the_end_of_a_job_whose_row_waited_is_not_lost_with_the_file(path: Path) -> None:
    """The rebuilt database gets the rows of the jobs that run, so the end finds its job there already."""
    store = SqliteStore(path)
    new = new_job()
    store.running = lambda: [new]
    store.submit(new, may_wait=True)
    path.unlink()
    await store.finish(fence(new), completed(new), foreground=True)
    job = await store.job(new.id)
    assert job is not None
    assert (job.status, answer(job)) == ("completed", "answer")
    assert len(await store.messages(new.conversation)) == 2
    await store.close()


async def test_a_deleted_home_is_not_recreated(path: Path, database: Database) -> None:
    await database.write(put("a"))
    shutil.rmtree(path.parent)
    await database.write(put("b"))
    assert keys(database) == {"a", "b"}
    assert not path.parent.exists()
    assert "nothing is kept" in (database.problem or "")


async def test_a_locked_file_is_not_taken_for_a_damaged_one(path: Path, database: Database) -> None:
    await database.write(put("a"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        assert database.check() is None
        connection.execute("ROLLBACK")
    assert recovery.damaged_files(path) == []


async def test_data_kept_in_memory_is_written_when_the_disk_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.engine.store.sqlite.database._RETURN", -1.0)
    (tmp_path / "home").write_text("a file where the folder should be")
    database = Database(tmp_path / "home" / "counsel.db")
    await database.write(put("a"))
    (tmp_path / "home").unlink()
    (tmp_path / "home").mkdir()
    database.examine().result(30)
    await database.write(put("b"))
    assert database.problem is None
    assert on_disk(database.path) == {"a", "b"}
    database.close()


# ── several processes ────────────────────────────────────────────────────────────────────────────────

SCRIPT = """
import asyncio, sys
from pathlib import Path
from counsel.engine.store.sqlite.database import Database
async def main():
    database = Database(Path(sys.argv[1]))
    print("open", flush=True)
    for n, _ in enumerate(sys.stdin):
        await database.write(lambda db: db.execute("INSERT INTO answers VALUES (?, 1, 'x')", (f"{sys.argv[2]}-{n}",)))
        print("written", flush=True)
    database.close()
asyncio.run(main())
"""


class Writer:
    def __init__(self, path: Path, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.wait_for_answer()

    def write(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def wait_for_answer(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline()

    def end(self) -> None:
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0


@pytest.mark.parametrize("spoil", ["delete", "overwrite"])
def test_of_several_processes_one_moves_it_aside_and_all_continue_with_the_new_one(
    path: Path, spoil: str
) -> None:
    writers = [Writer(path, name) for name in "abc"]
    for writer in writers:
        writer.write()
        writer.wait_for_answer()
    if spoil == "delete":
        path.unlink()
    else:
        overwrite(path, 0, 4096 * 3)
    for _ in range(2):
        for writer in writers:  # all at once
            writer.write()
        for writer in writers:
            writer.wait_for_answer()
    for writer in writers:
        writer.end()
    damaged_files = recovery.damaged_files(path)
    assert len(damaged_files) == (0 if spoil == "delete" else 1)
    assert on_disk(path) >= {
        f"{name}-{n}" for name in "abc" for n in ((0, 1, 2) if spoil == "delete" else (1, 2))
    }


# ── at the start ─────────────────────────────────────────────────────────────────────────────────────


def test_another_programs_file_is_moved_aside_and_left_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    notes = "these are my notes, not a database, and long enough to be told apart from one" * 20
    path.write_text(notes)
    database = Database(path)
    (aside,) = recovery.damaged_files(path)
    assert aside.read_text() == notes
    assert "it is not a database" in (database.problem or "")
    assert not database.in_memory
    database.close()


def test_another_programs_database_is_moved_aside(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE notes (a)")
        connection.execute("PRAGMA user_version=1")
    database = Database(path)
    assert len(recovery.damaged_files(path)) == 1
    assert not database.in_memory
    database.close()


def test_a_damaged_file_is_restored_from_its_rows_and_the_newest_backup(path: Path) -> None:
    fill(path)
    assert backups.make(path)
    overwrite(path, 0, 4096 * 30)
    database = Database(path)
    assert len(keys(database)) == 200
    assert "the backup of" in (database.problem or "")
    database.close()


def test_a_backup_that_is_damaged_itself_is_passed_over(path: Path) -> None:
    fill(path, 50)
    older = backups.make(path)
    assert older
    older = older.rename(older.with_name("counsel-20200101T000000Z.db"))
    newer = backups.make(path)
    assert newer
    overwrite(newer, 4096 * 3, 4096 * 5)
    path.write_bytes(b"no database" * 1000)
    database = Database(path)
    assert len(keys(database)) == 50
    database.close()


def test_a_log_whose_database_was_deleted_is_moved_aside_and_not_applied_to_a_new_one(path: Path) -> None:
    writer = Writer(path, "a")
    writer.write()
    writer.wait_for_answer()
    writer.process.kill()
    writer.process.communicate()
    log = files.wal_files(path)[0]
    content = log.read_bytes()
    path.unlink()
    database = Database(path)
    assert [file.read_bytes() for file in path.parent.glob("*.damaged-*-wal")] == [content]
    assert keys(database) == set()
    database.close()


def test_unfinished_jobs_of_a_backup_are_not_run_again(path: Path) -> None:
    """They may have finished since the backup, and been paid for."""
    database = Database(path)

    def work(db: sqlite3.Connection) -> None:
        db.execute(
            "INSERT INTO jobs (id, tool, conversation, status, background, created, owner, fingerprint, caller, task, models, total) "
            "VALUES ('j', 'chat', 'c', 'processing', 1, 1, 'dead', 'f', '{}', '{}', '[]', 1)"
        )

    database.soon(work)
    database.close()
    backups.make(path)
    path.write_bytes(b"no database" * 1000)
    database = Database(path)
    row = database.row("SELECT status, error FROM jobs WHERE id = 'j'")
    assert row is not None
    assert row["status"] == "failed"
    assert "unknown" in row["error"]
    database.close()


async def test_a_read_only_home_is_read_with_its_log(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed process left in the log is read, and the file does not change."""
    writer = Writer(path, "a")
    writer.write()
    writer.wait_for_answer()
    writer.process.kill()
    writer.process.communicate()
    files.wal_files(path)[1].unlink()
    before = {file.name: file.read_bytes() for file in path.parent.glob("counsel.db*")}

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    connect = sqlite3.connect

    def read_only(target: Any, *args: Any, **options: Any) -> Any:
        # tests may run as root, who may write everywhere: fail as SQLite does for other users
        if str(path.parent) in str(target) and "immutable" not in str(target):
            raise sqlite3.OperationalError("unable to open database file")
        return connect(target, *args, **options)

    monkeypatch.setattr("counsel.paths.private_folder", refuse)
    monkeypatch.setattr(sqlite3, "connect", read_only)
    database = Database(path)
    assert keys(database) == {"a-0"}
    assert "Read-only file system" in (database.problem or "")
    database.close()
    assert {file.name: file.read_bytes() for file in path.parent.glob("counsel.db*")} == before

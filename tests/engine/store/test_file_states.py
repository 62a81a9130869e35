"""The database's file seen from outside: which errors make it suspect, how long its log is, which copies are due."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from counsel.engine.store.sqlite import backups, copying, database_file, files, maintenance, opening, recovery
from counsel.engine.store.sqlite.database import Database
from counsel.engine.store.sqlite.database_file import DatabaseFile, is_suspicious
from counsel.engine.store.sqlite.store import SqliteStore
from support.stored import completed, fence, new_job


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Database(tmp_path / "home" / "counsel.db").close()
    return tmp_path / "home" / "counsel.db"


@pytest.fixture
def file(path: Path) -> Iterator[DatabaseFile]:
    file_ = DatabaseFile(path)
    yield file_
    file_.close()


def sqlite_error(code: int, message: str = "") -> sqlite3.Error:
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (sqlite_error(sqlite3.SQLITE_ERROR, "no such table: jobs"), True),
        (sqlite_error(sqlite3.SQLITE_ERROR, "near SELEC: syntax error"), False),
        (sqlite_error(sqlite3.SQLITE_CORRUPT), True),
        (sqlite_error(sqlite3.SQLITE_NOTADB), True),
        (sqlite_error(sqlite3.SQLITE_IOERR | 2 << 8), True),  # extended codes, too
        (sqlite_error(sqlite3.SQLITE_CANTOPEN), True),
        (sqlite_error(sqlite3.SQLITE_READONLY), True),
        (sqlite_error(sqlite3.SQLITE_FULL), False),
        (sqlite_error(sqlite3.SQLITE_BUSY), False),
        (sqlite3.ProgrammingError("closed"), False),
    ],
)
def test_which_errors_may_be_the_files_fault(error: sqlite3.Error, expected: bool) -> None:
    assert is_suspicious(error) is expected


def test_damage_is_told_from_what_is_only_locked_or_full() -> None:
    assert backups.is_damage(sqlite_error(sqlite3.SQLITE_CORRUPT | 1 << 8))
    assert backups.is_damage(sqlite_error(sqlite3.SQLITE_NOTADB))
    assert not backups.is_damage(sqlite_error(sqlite3.SQLITE_FULL))
    assert not backups.is_damage(sqlite3.DatabaseError("without a code"))
    assert not backups.is_damage(OSError())


@pytest.mark.parametrize(("limit", "expected"), [(10_000, True), (40_000, True), (1 << 20, False)])
def test_how_long_the_log_is(
    file: DatabaseFile, monkeypatch: pytest.MonkeyPatch, limit: int, expected: bool
) -> None:
    monkeypatch.setattr(database_file, "WAL_BYTES", limit)
    assert not file.log_is_long(), "its index alone has 32 KB"
    file.writer.execute("INSERT INTO answers VALUES ('a', 1, ?)", ("x" * 60_000,))
    assert file.log_is_long() is expected
    file.cut_log()
    assert not file.log_is_long()


def test_a_log_is_cut_although_somebody_reads_it_and_later_writes_wait_for_locks_again(
    file: DatabaseFile,
) -> None:
    file.writer.execute("INSERT INTO answers VALUES ('a', 1, 'x')")
    file.reader.execute("BEGIN")
    file.reader.execute("SELECT * FROM answers").fetchone()
    file.writer.execute("INSERT INTO answers VALUES ('b', 1, 'x')")
    file.cut_log()
    assert file.writer.execute("PRAGMA busy_timeout").fetchone()[0] == 60_000
    file.reader.execute("ROLLBACK")


def test_the_writer_waits_for_the_disk_only_when_it_must(file: DatabaseFile) -> None:
    for wait, level in ((True, 2), (False, 1), (False, 1), (True, 2)):
        file.wait_for_disk(wait)
        assert file.writer.execute("PRAGMA synchronous").fetchone()[0] == level


def test_whether_a_file_is_intact_before_it_is_replaced(path: Path, tmp_path: Path) -> None:
    assert opening._is_intact(path)
    assert not opening._is_intact(tmp_path / "none")
    (tmp_path / "notes").write_text("notes " * 100)
    assert not opening._is_intact(tmp_path / "notes")


def test_a_file_for_reading_is_not_written(path: Path) -> None:
    with closing(copying.read_only(path)) as db:
        assert db.execute("SELECT COUNT(*) FROM jobs").fetchone() == (0,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.execute("DELETE FROM jobs")
    with pytest.raises(sqlite3.OperationalError):
        copying.read_only(path.with_name("none.db"))


# ── backups ──────────────────────────────────────────────────────────────────────────────────────────


def backup(path: Path, name: str = "counsel-20261101T000000Z.db", at: float | None = None) -> Path:
    folder = backups.folder(path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(path.read_bytes())
    os.utime(folder / name, (at or time.time(),) * 2)
    return folder / name


def test_a_backup_is_due_a_day_after_the_last_one_if_something_was_written_since(path: Path) -> None:
    assert backups.due(path), "there is none"
    now = time.time()
    old = backup(path, at=now - backups.EVERY)
    os.utime(path, (now - 60, now - 60))
    assert backups.due(path, now)
    assert not backups.due(path, now - 1), "it is not a day old"
    os.utime(path, (now - backups.EVERY,) * 2)
    log = files.wal_files(path)[0]
    assert not backups.due(path, now), "nothing was written since"
    log.write_bytes(b"")
    os.utime(log, (now - 60, now - 60))
    assert backups.due(path, now), "the log was"
    log.unlink()
    old.unlink()


def test_only_the_newest_backups_stay_and_drafts_of_dead_processes_go(path: Path) -> None:
    names = [f"counsel-2026110{day}T000000Z.db" for day in range(1, 6)]
    for name in names:
        backup(path, name)
    old = backup(path, ".counsel-20261101T000000Z.db.77", time.time() - backups.EVERY - 60)
    young = backup(path, ".counsel-20261105T000000Z.db.78")
    backups.prune(path)
    assert [entry.name for entry in backups.listed(path)] == names[:1:-1]
    assert not old.exists()
    assert young.exists()


@pytest.mark.parametrize(
    ("live", "words"),
    [
        (backups.LARGEST + 1, "the database has 1,074 MB; backups are limited to 1,074 MB"),
        (backups.LARGEST, "the disk has 1,000 MB left, and a copy needs 1,141 MB"),
        (1_000_000_000 - backups.SPARE + 1, "the disk has 1,000 MB left"),
        (1_000_000_000 - backups.SPARE, None),
    ],
)
def test_why_no_copy_can_be_made(
    path: Path, monkeypatch: pytest.MonkeyPatch, live: int, words: str | None
) -> None:
    usage = type("Usage", (), {"free": 1_000_000_000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    reason = backups.obstacle(path, live)
    assert (words is None) == (reason is None)
    assert (words or "") in (reason or "")


def test_the_newest_intact_backup_is_used_and_an_empty_or_damaged_one_is_not(path: Path) -> None:
    assert backups.newest_intact(path) is None
    oldest = backup(path, "counsel-20261101T000000Z.db")
    backup(path, "counsel-20261102T000000Z.db").write_bytes(b"")
    backup(path, "counsel-20261103T000000Z.db").write_bytes(b"notes " * 100)
    assert backups.newest_intact(path) == oldest


@pytest.mark.parametrize("forget", ["a job", "a conversation"])
async def test_what_is_deleted_is_deleted_from_every_backup_that_can_be_written(
    path: Path, forget: str
) -> None:
    store = SqliteStore(path)
    job = new_job("mine", id="job_1")
    await store.submit(job)
    await store.finish(fence(job), completed(job))
    await store.close()
    copies = [backup(path, f"counsel-2026110{day}T000000Z.db") for day in (1, 2, 3)]
    copies[1].write_bytes(b"notes " * 100)
    if forget == "a job":
        backups.forget_job(path, "job_1")
    else:
        backups.forget(path, "mine")
    for copy in (copies[0], copies[2]):
        with closing(sqlite3.connect(copy)) as db:
            assert db.execute("SELECT COUNT(*) FROM jobs").fetchone() == (0,)
            assert db.execute("SELECT COUNT(*) FROM conversations").fetchone() == (int(forget == "a job"),)
            assert db.execute("SELECT COUNT(*) FROM messages").fetchone() == (2 * (forget == "a job"),)


# ── files that were moved aside ──────────────────────────────────────────────────────────────────────


def test_damaged_files_are_listed_newest_first_without_their_logs(path: Path) -> None:
    assert recovery.damaged_files(path) == []
    names = [f"counsel.db.damaged-2026110{day}T000000Z" for day in (1, 2)]
    for name in (*names, f"{names[0]}-wal", f"{names[0]}-shm", "counsel.db.other"):
        (path.parent / name).touch()
    assert [entry.name for entry in recovery.damaged_files(path)] == names[::-1]


def test_a_file_that_is_moved_aside_overwrites_none_of_the_same_second(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", lambda *_: "20261119T000000Z")
    files.wal_files(path)[0].write_bytes(b"log")
    first = recovery.set_aside(path)
    assert files.wal_files(first)[0].read_bytes() == b"log"
    path.write_bytes(b"second")
    second = recovery.set_aside(path)
    path.write_bytes(b"third")
    files.wal_files(path.with_name(f"{first.name}-3"))[0].touch()
    third = recovery.set_aside(path)
    assert [entry.name for entry in (first, second, third)] == [
        "counsel.db.damaged-20261119T000000Z", "counsel.db.damaged-20261119T000000Z-2",
        "counsel.db.damaged-20261119T000000Z-4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("statements", "damage"),
    [
        (lambda _: [], "it is empty"),
        (lambda _: ["CREATE TABLE notes (x)"], "it is another program's database"),
        (lambda _: ["CREATE TABLE jobs (x)"], "tables are missing"),
        (lambda names: [f"CREATE TABLE {name} (x)" for name in names], None),
    ],
)
def test_what_is_wrong_with_the_tables(
    statements: Callable[[tuple[str, ...]], list[str]], damage: str | None
) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in statements(copying.TABLES):
            db.execute(statement)
        assert recovery.table_damage(db, 1) == damage
        assert recovery.table_damage(db, 0) is not None, "a file without a version is unfinished"


def test_a_file_with_few_free_pages_is_not_rewritten_when_it_returns_them_by_itself(path: Path) -> None:
    before = path.stat().st_ino, path.read_bytes()
    assert maintenance.compact(path) == 0
    assert (path.stat().st_ino, path.read_bytes()) == before


@pytest.mark.parametrize("name", ["a b", "a?mode=rw", "a#b", "50%41", "é", "a&b"])
def test_the_address_of_a_file_names_it_whatever_its_folder_is_called(tmp_path: Path, name: str) -> None:
    path = tmp_path / name / "counsel.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE here (x)")
    with closing(sqlite3.connect(files.uri(path, "mode=ro"), uri=True)) as connection:
        assert connection.execute("SELECT count(*) FROM here").fetchone() == (0,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("INSERT INTO here VALUES (1)")

"""The writer commits writes together, resolves each future, and survives bad disks and many processes."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Awaitable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from counsel.engine.store.records import StoreError
from counsel.engine.store.sqlite import files
from counsel.engine.store.sqlite.database import Database
from counsel.errors import ConfigInvalid
from support.rows import first


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "home" / "counsel.db")
    yield database
    database.close()


def put(name: str) -> Any:
    return lambda db: db.execute("INSERT INTO answers VALUES (?, 1, 'x')", (name,))


def count(database: Database) -> int:
    return int(first(database, "SELECT COUNT(*) FROM answers"))


async def test_a_write_is_on_disk_when_its_future_resolves(database: Database) -> None:
    await database.write(put("a"))
    with closing(sqlite3.connect(database.path)) as db:
        assert db.execute("SELECT key FROM answers").fetchall() == [("a",)]


async def test_a_failed_write_does_not_affect_its_neighbours(database: Database) -> None:
    await database.write(put("a"))
    outcomes = await asyncio.gather(
        database.write(put("b")), database.write(put("a")), database.write(put("c")), return_exceptions=True
    )
    assert isinstance(outcomes[1], sqlite3.IntegrityError)
    assert count(database) == 3


async def test_the_last_of_several_writes_implies_the_earlier_ones(database: Database) -> None:
    for name in "abcdefgh":
        database.soon(put(name))
    await database.write(put("z"))
    assert count(database) == 9


async def test_a_quick_write_is_there_at_once_with_what_waited_for_it(database: Database) -> None:
    waiting_write = database.shortly(put("a"))
    assert database.quickly(put("b")).done()
    assert waiting_write.done()
    assert count(database) == 2


@pytest.fixture
def disk(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Accesses to the disk, in order: `wait` or `later` before a commit, `sync` for those that did not wait."""
    steps: list[str] = []
    wait_for_disk, sync_log = database.file.wait_for_disk, database.file.sync_log

    def before_commit(wait: bool) -> None:
        steps.append("wait" if wait else "later")
        wait_for_disk(wait)
        assert database.file.writer.execute("PRAGMA synchronous").fetchone()[0] == (2 if wait else 1)

    def sync() -> None:
        steps.append("sync")
        sync_log()

    monkeypatch.setattr(database.file, "wait_for_disk", before_commit)
    monkeypatch.setattr(database.file, "sync_log", sync)
    return steps


async def test_many_lazy_writes_share_commits_and_are_on_disk_a_moment_later(
    database: Database, disk: list[str]
) -> None:
    await asyncio.gather(*(database.lazily(put(f"a{number}")) for number in range(50)))
    assert count(database) == 50
    assert disk == ["later"]
    await asyncio.gather(*(database.lazily(put(f"b{number}")) for number in range(50)))
    assert count(database) == 100
    while "sync" not in disk:
        await asyncio.sleep(0.01)
    assert disk == ["later", "later", "sync"], "one sync for both commits"


async def test_a_lazy_write_that_still_waits_goes_to_the_disk_with_the_others(
    database: Database, disk: list[str]
) -> None:
    await database.lazily(put("a"))
    late = database.lazily(put("b"))
    database._sync()
    await late
    await asyncio.wrap_future(database._writer.do(lambda: None))
    assert disk == ["later", "later", "sync"]


async def test_a_lazy_write_queued_with_an_urgent_one_is_on_disk_with_it(
    database: Database, disk: list[str]
) -> None:
    lazy = database.lazily(put("a"))
    await database.write(put("b"))
    assert lazy.done()
    await database.lazily(put("c"))
    await database.write(put("d"))
    assert disk == ["wait", "later", "wait"]


async def test_a_quick_write_takes_no_urgent_one_with_it(database: Database, disk: list[str]) -> None:
    """Its caller would get an answer before it is on disk."""
    urgent = database.write(put("a"))
    quick = database.quickly(put("b"))
    assert not urgent.done()
    await quick
    assert urgent.done()
    assert disk == ["wait"]


async def test_lazy_writes_are_on_disk_after_closing(database: Database, disk: list[str]) -> None:
    await database.lazily(put("a"))
    lazy = database.lazily(put("b"))
    database.close()
    assert disk == ["later", "later", "sync"]
    await lazy


async def test_a_write_that_may_wait_is_committed_with_one_that_may_not(database: Database) -> None:
    patient = database.shortly(put("a"), 3600)
    await database.shortly(put("b"))
    assert patient.done()
    assert count(database) == 2
    await database.shortly(put("c"))
    assert count(database) == 3


async def test_a_quick_write_stays_behind_those_before_it(database: Database) -> None:
    may_continue = threading.Event()
    order: list[str] = []

    def work(name: str, wait: bool = False) -> Any:
        def write(db: sqlite3.Connection) -> None:
            if wait:
                may_continue.wait()
            order.append(name)

        return write

    database.soon(work("first", wait=True))
    second = database.quickly(work("second"))
    assert not second.done()
    may_continue.set()
    await second
    assert order == ["first", "second"]


async def test_a_quick_write_waits_for_another_process_off_the_event_loop(database: Database) -> None:
    connection = sqlite3.connect(database.path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    write = database.quickly(put("a"))
    assert not write.done()
    connection.execute("COMMIT")
    connection.close()
    await write
    assert count(database) == 1


async def test_a_quick_write_that_fails_fails_alone(database: Database) -> None:
    await database.quickly(put("a"))
    waiting_write = database.shortly(put("b"))
    with pytest.raises(sqlite3.IntegrityError):
        await database.quickly(put("a"))
    assert waiting_write.done()
    assert count(database) == 2


async def test_a_quick_write_is_flushed_to_the_disk_soon_after(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    inodes: list[int] = []
    real, has_synced = files._sync, threading.Event()

    def sync(handle: int) -> None:
        inodes.append(os.fstat(handle).st_ino)
        real(handle)
        has_synced.set()

    monkeypatch.setattr(files, "_sync", sync)
    await database.quickly(put("a"))
    assert await asyncio.to_thread(has_synced.wait, 60)
    assert inodes == [database.path.with_name("counsel.db-wal").stat().st_ino]


async def test_quick_writes_reach_the_disk_together_when_the_first_one_is_due(database: Database) -> None:
    await database.quickly(put("a"), 3600)
    patient = database._to_disk
    await database.quickly(put("b"), 7200)
    assert database._to_disk is patient
    await database.quickly(put("c"), 1800)
    assert patient is not None
    assert patient.cancelled()
    assert database._to_disk is not None
    assert database._to_disk.when() < patient.when()


async def test_a_quick_write_after_a_flush_plans_the_next_flush(database: Database) -> None:
    await database.quickly(put("a"), 1800)
    first = database._to_disk
    database._sync()
    await database.quickly(put("b"), 3600)
    assert first is not None
    assert database._to_disk is not None
    assert not database._to_disk.cancelled()
    assert database._to_disk.when() > first.when()


async def test_a_flush_of_quick_writes_leaves_waiting_writes_alone(database: Database) -> None:
    """Otherwise each single call would need two commits: its row with the sync of the call before it, then its end."""
    await database.quickly(put("a"))
    patient = database.shortly(put("b"), 3600)
    database._sync()
    await writer_done(database)
    assert not patient.done()
    assert database.quickly(put("c")).done()
    assert patient.done()


async def test_a_quick_write_need_not_wait_for_the_disk(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_continue = threading.Event()
    monkeypatch.setattr(files, "_sync", lambda _: may_continue.wait())
    await database.quickly(put("a"))
    database._sync()
    assert database.quickly(put("b")).done()
    may_continue.set()


async def test_a_failed_flush_is_logged_and_fails_no_other_write(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files, "_sync", refuse)
    await database.quickly(put("a"))
    database._sync()
    await database.write(put("b"))
    assert count(database) == 2
    assert "could not be written to the disk: Input/output error" in caplog.text


async def test_the_due_time_of_a_finished_write_is_not_that_of_the_next_one(database: Database) -> None:
    database.shortly(put("a"), 0.001)
    assert database.quickly(put("b")).done()
    patient = database.shortly(put("c"), 3600)
    async with asyncio.timeout(60):
        while database._alarm and database._alarm[1] < asyncio.get_running_loop().time() + 1800:
            await asyncio.sleep(0.01)
    await writer_done(database)
    assert not patient.done()
    await database.shortly(put("d"))
    assert patient.done()


async def test_a_held_write_that_is_taken_does_not_happen(database: Database) -> None:
    held = put("a")
    database.hold("row", held, 3600)
    assert database.take("row") is held
    assert database.take("row") is None
    await database.write(put("b"))
    assert count(database) == 1


async def test_a_held_write_is_written_when_it_is_due(database: Database) -> None:
    first = database.hold("first", put("a"), 0.001)
    second = database.hold("second", put("b"), 3600)
    await first
    assert (database.take("first"), second.done()) == (None, False)


@pytest.mark.parametrize("kind", ["write", "soon"])
async def test_a_write_that_may_depend_on_a_held_one_comes_after_it(database: Database, kind: str) -> None:
    held = database.hold("row", put("a"), 3600)
    await getattr(database, kind)(put("b"))
    assert held.done()
    assert [row[0] for row in database.rows("SELECT key FROM answers ORDER BY rowid")] == ["a", "b"]


async def test_ends_of_other_jobs_leave_a_held_write_alone(database: Database) -> None:
    held = database.hold("row", put("a"), 3600)
    await database.lazily(put("b"))
    await database.quickly(put("c"))
    assert not held.done()
    database.close()  # which writes it
    assert held.done()


async def test_quick_writes_alone_do_not_let_the_log_grow(database: Database) -> None:
    for number in range(800):
        await database.quickly(put(f"{number:04}" + "x" * 4000))
        database._sync()
    await writer_done(database)
    assert database.path.with_name("counsel.db-wal").stat().st_size < 8 * 2**20


async def writer_done(database: Database) -> None:
    """Wait until the writer's thread has done everything in its queue."""
    event = threading.Event()
    database._writer.run_unrelated(event.set)
    assert await asyncio.to_thread(event.wait, 60)


def test_file_and_folder_are_private(database: Database) -> None:
    assert stat.S_IMODE(database.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(database.path.parent.stat().st_mode) == 0o700


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "counsel.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version=99")
    before = path.read_bytes()
    with pytest.raises(ConfigInvalid, match="newer counsel"):
        Database(path)
    assert path.read_bytes() == before


async def test_a_database_that_cannot_be_written_works_in_memory_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where the folder should be")
    database = Database(tmp_path / "home" / "counsel.db")
    await database.write(put("a"))
    assert count(database) == 1
    assert "nothing is kept" in (database.problem or "")
    database.close()


async def test_a_full_disk_is_a_clear_error_and_leaves_the_file_whole(database: Database) -> None:
    await database.write(put("a"))
    await database.write(lambda db: db.execute("PRAGMA max_page_count=1"))

    def grow(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO answers VALUES ('big', 1, ?)", ("x" * 1_000_000,))

    with pytest.raises(StoreError, match="full"):
        await database.write(grow)
    assert count(database) == 1
    assert first(database, "PRAGMA integrity_check") == "ok"


SCRIPT = """
import asyncio, sys
from pathlib import Path
from counsel.engine.store.sqlite import files
from counsel.engine.store.sqlite.database import Database
async def main():
    database = Database(Path(sys.argv[1]))
    assert database.problem is None, database.problem
    for n in range(50):
        await database.write(lambda db: db.execute("INSERT INTO answers VALUES (?, 1, 'x')", (f"{sys.argv[2]}-{n}",)))
    database.close()
asyncio.run(main())
"""


def test_eight_first_starts_at_once_on_one_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "counsel.db"
    processes = [
        subprocess.Popen([sys.executable, "-c", SCRIPT, str(path), str(n)], env=os.environ) for n in range(8)
    ]
    assert [process.wait(60) for process in processes] == [0] * 8
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT COUNT(*) FROM answers").fetchone() == (400,)


def test_a_new_file_can_give_freed_pages_back(database: Database) -> None:
    with closing(sqlite3.connect(database.path)) as db:
        assert db.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_writes_of_one_turn_of_the_loop_wake_the_writer_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    queue = database._writer._queue

    class Counted:
        def put(self, entry: tuple[list[object], bool]) -> None:
            batches.append(len(entry[0]))
            queue.put(entry)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(database._writer, "_queue", Counted())
        writes = [database.write(put(name)) for name in "abc"]
        await asyncio.sleep(0)
    await asyncio.gather(*writes)
    assert batches == [3]


async def test_a_write_can_be_awaited_before_and_after_its_end(database: Database) -> None:
    write = database.shortly(put("a"))
    assert not write.done()
    waiter = asyncio.ensure_future(_result(write))
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.gather(write, _result(write))
    assert write.done()
    assert write.exception() is None
    await write

    def failing(_: object) -> None:
        raise KeyError("x")

    failing_write = database.shortly(failing)
    with pytest.raises(KeyError):
        await failing_write
    with pytest.raises(KeyError):
        await failing_write
    assert isinstance(failing_write.exception(), KeyError)


async def _result(write: Awaitable[object]) -> None:
    await write


async def test_a_quick_write_commits_those_of_cancelled_tasks(database: Database) -> None:
    impatient = database.write(put("a"))
    impatient.cancel()
    await database.quickly(put("b"))
    assert count(database) == 2

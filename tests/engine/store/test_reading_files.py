"""What commands read from the database's file: entries by id, its state, and a snapshot for an import."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from counsel.engine.store import open_store
from counsel.engine.store.records import Blob
from counsel.engine.store.sqlite import files, maintenance, snapshot
from counsel.engine.store.sqlite.lookup import SqliteLookup
from counsel.errors import ConfigInvalid, NotFound
from counsel.job_events import Noticed
from support.stored import completed, fence, new_job, reply, stopped, usage

DAY = 86400.0


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """Two conversations of one project, one of another with only a running job, and one whose only job failed."""
    store = open_store(tmp_path)
    now = time.time()
    for number, name in enumerate(("alpha", "beta")):
        job = new_job(name, id=f"job_{name}", project="/p", created=now - 100 + number)
        await store.submit(job)
        store.append(fence(job), [Noticed(1, 1.0, "0", "warning", "careful")])
        store.remember(fence(job), "answer:gpt-5", "0", reply(), usage(job.id))
        await store.finish(fence(job), completed(job, f"answer of {name}"))
    await store.put_blobs([Blob("a" * 64, "image/png", b"png")])
    await store.submit(new_job("gamma", id="job_open", project="/q", created=now - 50))
    bad = new_job("delta", id="job_bad", project="/p", created=now - 40)
    await store.submit(bad)
    await store.finish(fence(bad), stopped(bad))
    await store.submit(new_job("epsilon", id="job_old", project="/old", created=now - 30, expires=now - 1))
    await store.flush()
    await store.close()
    return tmp_path / "counsel.db"


def test_entries_by_the_beginning_of_their_ids(file: Path) -> None:
    with closing(SqliteLookup(file)) as lookup:
        job = lookup.job("job_alpha")
        assert job is not None
        assert (job.id, job.conversation, job.status) == ("job_alpha", "alpha", "completed")
        assert lookup.job("job_alph") is None
        assert [entry.id for entry in lookup.jobs("job_")] == [
            "job_old", "job_bad", "job_open", "job_beta", "job_alpha"
        ]  # fmt: skip
        assert [entry.id for entry in lookup.jobs("", 2)] == ["job_old", "job_bad"]
        assert [entry.id for entry in lookup.jobs("job_b")] == ["job_bad", "job_beta"]
        assert lookup.jobs("jobx") == []
        assert [entry.id for entry in lookup.conversations("al")] == ["alpha"]
        assert {entry.id for entry in lookup.conversations("")} == {"alpha", "beta", "gamma", "delta"}
        assert len(lookup.conversations("", 1)) == 1
        assert lookup.conversation("beta") is not None
        assert lookup.conversation("epsilon") is None, "it has expired"
        assert lookup.jobs("\ud800") == [], "no id has a lone surrogate"
        assert lookup.readable


def test_the_newest_of_a_project(file: Path) -> None:
    def name(entry: object) -> str | None:
        return getattr(entry, "id", None)

    with closing(SqliteLookup(file)) as lookup:
        assert name(lookup.newest_job()) == "job_old"
        assert name(lookup.newest_job("/p")) == "job_bad"
        assert name(lookup.newest_job(running=True)) == "job_old"
        assert name(lookup.newest_job("/q", running=True)) == "job_open"
        assert lookup.newest_job("/p", running=True) is None
        assert name(lookup.newest_conversation("/p")) == "beta", "delta's only call failed"
        assert name(lookup.newest_conversation("/q")) == "gamma", "it waits for an answer"
        assert lookup.newest_conversation("/old") is None
        assert lookup.newest_conversation("/none") is None


def test_a_file_that_cannot_be_read_raises_nothing(tmp_path: Path) -> None:
    missing = SqliteLookup(tmp_path / "none.db")
    assert (missing.jobs(""), missing.readable) == ([], True)
    missing.close()
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "bad.db").write_bytes(b"this is no database" * 100)
    with closing(SqliteLookup(tmp_path / "bad.db")) as bad:
        assert bad.jobs("") == []
        assert not bad.readable


# ── its state ────────────────────────────────────────────────────────────────────────────────────────


def test_whether_a_file_is_intact(file: Path, tmp_path: Path) -> None:
    intact = maintenance.integrity(file, 60.0)
    assert intact.state == "intact"
    assert int(intact.detail) > 0
    assert maintenance.integrity(tmp_path / "none.db", 60.0).state == "unreadable"
    (tmp_path / "empty.db").touch()
    empty = maintenance.integrity(tmp_path / "empty.db", 60.0)
    assert (empty.state, empty.detail) == ("damaged", "it is empty")
    (tmp_path / "bad.db").write_bytes(b"this is no database" * 100)
    assert maintenance.integrity(tmp_path / "bad.db", 60.0).state == "damaged"
    with closing(sqlite3.connect(tmp_path / "other.db")) as foreign:
        foreign.execute("CREATE TABLE theirs (a)")
        foreign.commit()
    assert maintenance.integrity(tmp_path / "other.db", 60.0).state == "damaged"
    with closing(sqlite3.connect(file)) as newer:
        newer.execute("PRAGMA user_version = 9999")
    with pytest.raises(ConfigInvalid):
        maintenance.integrity(file, 60.0)


def test_free_pages_go_back_to_the_file_system(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE large (data BLOB)")
        db.execute("INSERT INTO large VALUES (zeroblob(4000000))")
        db.commit()
        db.execute("DROP TABLE large")
        db.commit()
    byte_count = maintenance.compact(file)
    assert byte_count > 3_000_000
    assert file.stat().st_size < 1_000_000
    assert maintenance.compact(file) == 0
    assert maintenance.integrity(file, 60.0).state == "intact"


# ── a snapshot ───────────────────────────────────────────────────────────────────────────────────────


def test_a_snapshot_has_what_is_imported(file: Path) -> None:
    with snapshot.read(file) as history:
        assert history.problem is None
        assert [row["id"] for row in history.conversations()] == ["alpha", "beta", "gamma", "delta"]
        first, second = history.messages("alpha")
        assert (first["role"], second["role"], second["text"]) == ("user", "assistant", "answer of alpha")
        assert first["images"] == ["sha"], "lists are lists again"
        assert [row["id"] for row in history.jobs()] == ["job_alpha", "job_beta", "job_bad"]
        assert history.open_jobs() == ["job_open", "job_old"]
        assert [row["key"] for row in history.calls("job_alpha")] == ["answer:gpt-5"]
        assert len(list(history.usage())) == 2
        assert history.blob("a" * 64) == ("image/png", b"png")
        assert history.blob("b" * 64) is None


def test_there_is_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no database"), snapshot.read(tmp_path / "none.db"):
        pass


def test_a_damaged_file_gives_what_can_be_read(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    with file.open("r+b") as raw:
        raw.seek((root - 1) * size)
        raw.write(b"\xff" * size)
    with snapshot.read(file) as history:
        assert "is damaged" in str(history.problem)
        assert [row["id"] for row in history.conversations()] == ["alpha", "beta", "gamma", "delta"]


def test_another_programs_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(ConfigInvalid, match="cannot be read"), snapshot.read(tmp_path / "bad.db"):
        pass


def test_a_file_is_open_as_long_as_someone_uses_it(file: Path) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    users = [files.OpenFile(file) for _ in range(3)]
    assert len(list(Path("/dev/fd").iterdir())) == before + 1, "one descriptor for all"
    for user in users:
        assert user.size == file.stat().st_size
        user.close()
        user.close()
    assert len(list(Path("/dev/fd").iterdir())) == before

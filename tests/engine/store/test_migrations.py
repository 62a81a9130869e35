"""A database of an older release is migrated with all its content; a process of that release can still write."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from counsel.engine.store import open_store
from counsel.engine.store.sqlite import schema
from support.stored import completed, fence, new_job, usage

NAMES = ("first", "second")
PROJECTS = 4  # migrations after which usage records have their folder
LEDGER = "INSERT INTO ledger VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"  # as the first release wrote it


def old_database(home: Path, version: int) -> None:
    """A file as a release with `version` migrations left it: an open job, an ended one, and their usage."""
    home.mkdir(mode=0o700)
    with closing(sqlite3.connect(home / "counsel.db", isolation_level=None)) as db:
        for step in schema._STEPS[:version]:
            db.executescript(step)
        db.execute(f"PRAGMA user_version={version}")
        db.execute("PRAGMA journal_mode=WAL")
        for name, status in zip(NAMES, ("processing", "failed"), strict=True):
            db.execute(
                "INSERT INTO conversations (id, created, updated, expires, tool, project, client) "
                "VALUES (?, 1, 1, ?, 'chat', ?, 'test')",
                (f"conv-{name}", time.time() + 86400, f"/{name}"),
            )
            new = new_job(id=name)
            db.execute(
                "INSERT INTO jobs (id, tool, conversation, status, background, created, finished, owner, fingerprint, "
                "caller, task, models, total) VALUES (?, 'chat', ?, ?, 1, 1, ?, 'owner', '', ?, ?, ?, 1)",
                (
                    name,
                    f"conv-{name}",
                    status,
                    None if status == "processing" else time.time(),
                    new.origin.dump(),
                    new.task.dump(),
                    json.dumps(new.task.models),
                ),
            )
            db.execute(LEDGER, _row(name))


def _row(job: str) -> tuple[object, ...]:
    return (time.time(), job, "chat", "openai", "gpt-5", "test", 5, "", 1, 2, 0, 0, 0, 0.5)


@pytest.mark.parametrize("version", range(1, len(schema._STEPS) + 1))
async def test_a_file_of_every_earlier_release_is_read_and_written(tmp_path: Path, version: int) -> None:
    home = tmp_path / "home"
    old_database(home, version)
    store = open_store(home)
    job = await store.job("first")
    assert job is not None
    assert (job.is_open, job.cancelled_members, job.keep_days) == (True, (), 3)
    if version < PROJECTS:  # later records have it themselves
        assert sorted((record.job, record.project) for record in await store.usage(0)) == [
            ("first", "/first"),
            ("second", "/second"),
        ]
    await store.record_usage(usage("third", project="/third"))
    assert ("third", "/third") in {(record.job, record.project) for record in await store.usage(0)}
    new = new_job()
    await store.submit(new)
    assert await store.request_cancel(new.id, "0")
    await store.finish(fence(new), completed(new))
    await store.close()


async def test_a_process_of_an_earlier_release_can_still_write(tmp_path: Path) -> None:
    home = tmp_path / "home"
    old_database(home, 2)
    with closing(sqlite3.connect(home / "counsel.db", isolation_level=None)) as old:
        store = open_store(home)  # migrates while the other process has the file open
        old.execute(LEDGER, _row("old"))
        old.execute("UPDATE jobs SET status = 'completed' WHERE id = 'first'")
    assert "old" in {record.job for record in await store.usage(0)}
    await store.close()

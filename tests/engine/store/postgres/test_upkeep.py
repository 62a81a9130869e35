"""What a team's database deletes and when. What every store deletes is in `conformance/test_upkeep.py`."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace

import pytest

from counsel.engine.store.postgres import mcp_sessions, upkeep, uploads
from counsel.engine.store.postgres.store import PostgresStore
from counsel.engine.store.postgres.upkeep import size
from counsel.engine.store.records import Blob
from engine.store.postgres.conftest import Open
from support.stored import DAY, completed, fence, new_job, reply, turn, usage


async def names(store: PostgresStore, table: str, column: str = "id") -> list[str]:
    rows = await store.database.rows(f"SELECT {column} FROM counsel.{table}")
    return sorted(row[0] for row in rows)


async def test_sessions_that_nobody_uses_and_old_uploads_are_deleted(open_store: Open) -> None:
    store = open_store()
    for name, seconds in (("old", 60), ("new", -60)):
        await store.mcp_sessions.open(name, "p_ada", "state")
        await store.uploads.add(name, "p_ada", "notes.txt", b"text")
        for table, column, limit in (
            ("mcp_sessions", "seen", mcp_sessions.IDLE_SECONDS),
            ("uploads", "created", uploads.KEEP),
        ):
            await store.database.rows(
                f"UPDATE counsel.{table} SET {column} = {column} - make_interval(secs => %s) "
                "WHERE id = %s RETURNING 1",
                limit + seconds,
                name,
            )
    await store.sweep()
    assert await names(store, "mcp_sessions") == ["new"]
    assert await names(store, "uploads") == ["new"]


async def test_usage_and_settled_reservations_are_kept_for_400_days(open_store: Open) -> None:
    store, now = open_store(), time.time()
    for name, at in (("old", now - 401 * DAY), ("new", now - 399 * DAY)):
        await store.record_usage(usage(name, at=at))
        for reservation, is_open in ((name, False), (f"{name} and open", True)):
            await store.database.rows(
                "INSERT INTO counsel.reservations (id, owner, job, provider, model, at, usd, open) "
                "VALUES (%s, 'owner', 'job', 'openai', 'gpt-5', %s, 1, %s) RETURNING 1",
                reservation,
                at,
                is_open,
            )
    await store.sweep()
    assert [record.job for record in await store.usage(0)] == ["new"]
    assert await names(store, "reservations") == ["new", "new and open", "old and open"]


async def test_records_of_the_audit_log_are_deleted_when_they_expire_if_ever(open_store: Open) -> None:
    store, now = open_store(), time.time()
    for name, expires in (("old", now - 60), ("new", now + 60), ("kept for ever", None)):
        await store.database.rows(
            "INSERT INTO counsel.audit (at, person, name, token, address, action, object, detail, expires) "
            "VALUES (0, '', %s, '', '', '', '', '', %s) RETURNING 1",
            name,
            expires,
        )
    await store.sweep()
    assert await names(store, "audit", "name") == ["kept for ever", "new"]


async def test_a_process_that_was_not_seen_for_a_day_is_forgotten_unless_it_has_an_open_job(
    open_store: Open,
) -> None:
    store = open_store()
    await store.submit(new_job(owner="busy"))
    for name, seconds in (("old", DAY + 60), ("new", DAY - 60), ("busy", 2 * DAY)):
        await store.database.rows(
            "INSERT INTO counsel.owners (name, seen) VALUES (%s, clock_timestamp() - make_interval(secs => %s)) "
            "ON CONFLICT (name) DO UPDATE SET seen = excluded.seen RETURNING 1",
            name,
            seconds,
        )
    await store.sweep()
    remaining = await names(store, "owners", "name")
    assert "old" not in remaining
    assert {"new", "busy"} <= set(remaining)


@pytest.mark.parametrize(("took", "pause"), [(0.25, 0.25), (5.0, 1.0)])
async def test_after_each_step_the_server_is_left_to_others_for_as_long_but_not_for_more_than_a_second(
    open_store: Open, monkeypatch: pytest.MonkeyPatch, took: float, pause: float
) -> None:
    store, pauses, clock = open_store(), list[float](), itertools.count(1_000.0, took)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    for number in range(150):
        await store.cache_answer(f"key-{number}", reply(), expires=time.time() - 60)
    monkeypatch.setattr(upkeep, "time", SimpleNamespace(time=time.time, monotonic=lambda: next(clock)))
    monkeypatch.setattr(upkeep, "asyncio", SimpleNamespace(sleep=sleep))
    await store.sweep()
    assert await names(store, "answers", "key") == []
    assert pauses == [pause, pause], "the answers are deleted in two steps"


async def test_past_the_limit_a_few_of_the_oldest_answers_go_and_at_the_limit_none(open_store: Open) -> None:
    store, now = open_store(), time.time()
    for number in range(60):
        await store.cache_answer(f"key-{number:02}", reply("x" * 1_000), expires=now + DAY + number)
    limit = await size(store.database)
    assert await store.sweep(limit) == 0
    assert len(await names(store, "answers", "key")) == 60
    assert await store.sweep(limit - 1) == 0, "no job was deleted"
    assert await names(store, "answers", "key") == [f"key-{number}" for number in range(25, 60)]
    assert await size(store.database) < 0.9 * limit


async def test_the_jobs_that_a_limit_deletes_are_counted(open_store: Open) -> None:
    store = open_store()
    for name in ("first", "second"):
        job = new_job(name)
        await store.submit(job)
        await store.finish(fence(job), completed(job))
    assert await store.sweep(1) == 2


async def test_an_image_goes_with_the_job_that_a_limit_deletes(open_store: Open) -> None:
    store, job = open_store(), new_job()
    await store.put_blobs([Blob("sha", "image/png", b"picture")])
    await store.database.rows("UPDATE counsel.blobs SET at = at - %s RETURNING 1", 2 * 3600)
    await store.submit(job)
    await store.finish(fence(job), completed(job, turn=turn(job)))  # whose first message has the image `sha`
    await store.sweep()
    assert await store.blobs(["sha"])
    await store.sweep(1)
    assert not await store.blobs(["sha"])


async def test_a_row_without_long_columns_takes_space_too(open_store: Open) -> None:
    store = open_store()
    assert await size(store.database) == 0
    await store.record_usage(usage())
    assert await size(store.database) > 0
    await store.sweep(100)
    assert await store.usage(0) == []

"""Two servers at the same moment: the order of turns, fences, and locks taken in opposite orders."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from counsel.engine.store.postgres import fencing, submission
from counsel.engine.store.postgres.commits import Transaction, Work
from counsel.engine.store.protocol import Pending
from counsel.engine.store.records import LostJob, NewJob
from counsel.errors import Conflict
from counsel.job_events import Noticed
from engine.store.postgres.conftest import Open
from support.stored import completed, fence, new_job, reply


class PausedWrite:
    """A write that has run and delays its commit."""

    def __init__(self, work: Work[Any]) -> None:
        self._work = work
        self.has_run = asyncio.Event()
        self.may_commit = asyncio.Event()

    async def __call__(self, db: Transaction) -> Any:
        value = await self._work(db)
        self.has_run.set()
        await self.may_commit.wait()
        return value


async def waits_for_a_lock(store: Any, pending: Pending[Any]) -> None:
    """Wait until the server reports that a session waits for a lock."""
    sql = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(30):
        while not await store.database.rows(sql):
            assert not pending.done()
            await asyncio.sleep(0.01)


async def order(store: Any) -> list[str]:
    return [job.id for job in await store.open_jobs("conversation")]


@pytest.mark.parametrize("exists", [True, False], ids=["old conversation", "new conversation"])
async def test_a_later_turn_waits_for_the_commit_of_an_earlier_one(open_store: Open, exists: bool) -> None:
    """With numbers from a sequence the second turn would be visible first, and run first."""
    ours, theirs = open_store(), open_store()
    if exists:
        old_job = new_job()
        await ours.submit(old_job)
        await ours.finish(fence(old_job), completed(old_job))
    first, second = new_job(), new_job()
    paused_write = PausedWrite(submission.insert(first))
    early = ours.database.write(paused_write)
    await paused_write.has_run.wait()
    late = theirs.submit(second)
    await waits_for_a_lock(theirs, late)
    assert await order(theirs) == []
    paused_write.may_commit.set()
    await asyncio.gather(early, late)
    assert await order(theirs) == [first.id, second.id]
    assert [job.id for job in await theirs.earlier_jobs(second.id)] == [first.id]


async def test_a_turn_after_its_conversation_was_deleted_is_still_behind_the_open_ones(
    open_store: Open,
) -> None:
    store = open_store()
    jobs = [new_job() for _ in range(3)]
    for job in jobs[:2]:
        await store.submit(job)
    await store.delete_conversation("conversation")
    await store.submit(jobs[2])
    assert await order(store) == [job.id for job in jobs]


async def _append(store: Any, job: NewJob) -> PausedWrite:
    """A write of events that delays its commit."""
    works: list[Work[Any]] = []
    write = store.database.write
    store.database.write = lambda work, **_: works.append(work)
    store.append(fence(job), [Noticed(1, 1.0, "", "info", "note")])
    store.database.write = write
    return PausedWrite(works[0])


async def test_a_job_is_adopted_before_or_after_its_owners_write_never_within(open_store: Open) -> None:
    ours, theirs = open_store(), open_store()
    new = new_job()
    await ours.submit(new)
    paused_write = await _append(ours, new)
    early = ours.database.write(paused_write)
    await paused_write.has_run.wait()
    adopting = theirs.adopt(new.id, "owner", "heir")
    await waits_for_a_lock(theirs, adopting)
    paused_write.may_commit.set()
    await early
    assert await adopting is not None
    assert await theirs.last_seq(new.id) == 1, "the new owner continues behind it"
    await ours.append(fence(new), [Noticed(2, 1.0, "", "info", "late")])
    with pytest.raises(LostJob):
        await ours.finish(fence(new), completed(new))
    assert await theirs.last_seq(new.id) == 1


async def test_writes_that_lock_in_opposite_orders_all_take_effect(open_store: Open) -> None:
    """PostgreSQL ends one of two deadlocked transactions; its writes run again, one by one."""
    ours, theirs = open_store(), open_store()
    for name in ("a", "b", "c"):
        await ours.cache_answer(name, reply("old"), expires=9e9)
    meeting = [asyncio.Event(), asyncio.Event()]

    def both(own: int, names: str) -> Work[None]:
        """Lock the first, wait until the other server has its first, then lock the second."""

        async def work(db: Transaction) -> None:
            for position, name in enumerate(names):
                if position:
                    meeting[own].set()
                    await meeting[1 - own].wait()
                await db.execute("UPDATE counsel.answers SET expires = expires + 1 WHERE key = %s", name)

        return work

    async def beside(db: Transaction) -> str:
        await db.execute("UPDATE counsel.answers SET expires = expires + 1 WHERE key = 'c'")
        return "beside"

    async with asyncio.timeout(60):
        outcomes = await asyncio.gather(
            ours.database.write(both(0, "ab")),
            ours.database.write(beside),
            theirs.database.write(both(1, "ba")),
            theirs.database.write(beside),
        )
    assert list(outcomes) == [None, "beside", None, "beside"]
    rows = await ours.database.rows("SELECT expires FROM counsel.answers")
    assert [row[0] for row in rows] == [9e9 + 2] * 3


async def test_a_server_that_is_suspended_inside_a_transaction_keeps_its_locks_for_seconds_only(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.engine.store.postgres.writer.STALLED_MS", 300)
    ours, theirs = open_store(), open_store()
    job = new_job()
    await ours.submit(job)

    async def lock(db: Transaction) -> bool:
        return await fencing.holds(fence(job), db)

    paused_write = PausedWrite(lock)
    pending = ours.database.write(paused_write)
    await paused_write.has_run.wait()
    async with asyncio.timeout(30):
        adopted_job = await theirs.adopt(job.id, job.owner, "theirs")
    assert adopted_job
    paused_write.may_commit.set()  # it resumes
    assert not await pending  # the write runs again, and finds that it lost the job


async def test_a_clients_key_is_for_one_question_even_at_two_servers_at_once(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.engine.store.postgres.writer.STALLED_MS", 60_000)
    ours, theirs = open_store(), open_store()
    prefix, questions = f"http-{'a' * 32}-", ("b" * 32, "c" * 32)
    first, second = (new_job(key=f"{prefix}{question}") for question in questions)
    paused_write = PausedWrite(submission.insert(first))
    writing = ours.database.write(paused_write)
    await paused_write.has_run.wait()
    late = theirs.submit(second)
    await waits_for_a_lock(ours, late)
    paused_write.may_commit.set()
    assert (await writing).is_new
    with pytest.raises(Conflict):
        await late
    assert await theirs.job(second.id) is None
    again = await theirs.submit(first)
    assert not again.is_new

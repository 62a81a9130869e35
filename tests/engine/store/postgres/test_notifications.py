"""Notifications wake followers, not their timeouts; forgotten changes wake them, too."""

from __future__ import annotations

import asyncio

from counsel.engine.store.postgres import notifications
from counsel.engine.store.postgres.notifications import Changes
from counsel.job_events import Noticed
from engine.store.postgres.conftest import Open
from support.stored import completed, fence, new_job


async def test_every_change_of_another_server_wakes_the_follower(open_store: Open) -> None:
    ours, theirs = open_store(), open_store()
    new = new_job()
    await ours.submit(new)
    for number in range(1, 6):  # the first wake may be that of the connection itself
        for job in (new.id, ""):
            mark = theirs.mark(job)
            await ours.append(fence(new), [Noticed(number, 1.0, "", "info", "note")])
            await asyncio.wait_for(theirs.wait_for_change(job, mark, 600), 30)
    mark = theirs.mark(new.id)
    await ours.finish(fence(new), completed(new))
    await asyncio.wait_for(theirs.wait_for_change(new.id, mark, 600), 30)


async def test_a_change_of_another_job_does_not_wake(open_store: Open) -> None:
    ours, theirs = open_store(), open_store()
    new, second = new_job(), new_job()
    for job in (new, second):
        mark = theirs.mark(job.id)
        await ours.submit(job)
        await asyncio.wait_for(theirs.wait_for_change(job.id, mark, 600), 30)
    mark = theirs.mark(new.id)
    await ours.describe(second.id, title="title")
    await asyncio.wait_for(theirs.wait_for_change(second.id, mark, 600), 30)
    assert not theirs.database.changes.has_changed(new.id, mark)


def test_the_changes_of_many_jobs_take_bounded_memory_and_none_is_missed() -> None:
    changes = Changes()
    mark = changes.mark()
    most = notifications._MOST
    changes.report(f"job-{number}" for number in range(most + 100))
    assert len(changes._last) == most
    assert changes.has_changed("job-0", mark), "forgotten, so that it may have changed"
    assert not changes.has_changed(f"job-{most + 99}", changes.mark())


async def test_followers_that_are_gone_take_no_memory() -> None:
    changes = Changes()
    for number in range(10):
        await changes.wait(f"job-{number}", changes.mark(), 0.0)
    waiting = asyncio.ensure_future(changes.wait("job-x", changes.mark(), 60.0))
    await asyncio.sleep(0)
    assert list(changes._waiting) == ["job-x"]
    changes.report(["job-x"])
    await asyncio.wait_for(waiting, 60)
    assert changes._waiting == {}

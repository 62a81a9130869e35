"""Sweeping: what has expired is deleted, what is open never is."""

from __future__ import annotations

import time
from collections.abc import Callable

from counsel.engine.store.protocol import Store
from counsel.engine.store.records import Blob
from support.stored import DAY, completed, fence, new_job, reply, turn, usage


async def test_jobs_are_deleted_some_days_after_their_end(
    store: Store, later: Callable[[float], None]
) -> None:
    short, long, running = new_job(keep_days=3), new_job(keep_days=10), new_job()
    for job in (short, long, running):
        await store.submit(job)
    for job in (short, long):
        await store.finish(fence(job), completed(job))
    later(2 * DAY)
    assert await store.sweep() == 0
    later(2 * DAY)
    assert await store.sweep() == 1
    assert await store.existing_jobs([short.id, long.id, running.id]) == {long.id, running.id}
    later(100 * DAY)
    await store.sweep()
    assert await store.existing_jobs([short.id, long.id, running.id]) == {running.id}


async def test_events_and_replies_go_with_their_job(store: Store, later: Callable[[float], None]) -> None:
    new = new_job()
    await store.submit(new)
    await store.remember(fence(new), "answer:gpt-5", "0", reply(), usage())
    await store.finish(fence(new), completed(new))
    later(4 * DAY)
    await store.sweep()
    assert await store.replies(new.id) == {}


async def test_a_conversation_with_an_open_job_does_not_expire(
    store: Store, later: Callable[[float], None]
) -> None:
    over = new_job()
    await store.submit(over)
    await store.finish(fence(over), completed(over))
    running = new_job(expires=time.time() + DAY)
    await store.submit(running)
    later(40 * DAY)
    await store.sweep()
    await store.finish(fence(running), completed(running))
    assert len(await store.messages("conversation")) == 4


async def test_expired_conversations_and_cached_answers_are_deleted(
    store: Store, later: Callable[[float], None]
) -> None:
    new = new_job()
    await store.submit(new)
    await store.finish(fence(new), completed(new))
    await store.cache_answer("key", reply(), expires=time.time() + DAY)
    later(31 * DAY)
    await store.sweep()
    later(-31 * DAY)
    assert await store.conversation("conversation") is None
    assert await store.messages("conversation") == []
    assert await store.cached_answer("key") is None


async def test_images_are_deleted_when_nothing_refers_to_them(
    store: Store, later: Callable[[float], None]
) -> None:
    new = new_job()
    await store.put_blobs([Blob("sha", "image/png", b"used"), Blob("unused", "image/png", b"unused")])
    await store.submit(new)
    await store.finish(fence(new), completed(new, turn=turn(new)))  # whose first message has the image `sha`
    await store.sweep()
    assert (await store.blobs(["sha", "unused"])).keys() == {"sha", "unused"}, "its job may not be stored yet"
    later(2 * 3600)
    await store.sweep()
    assert (await store.blobs(["sha", "unused"])).keys() == {"sha"}


async def test_past_the_limit_the_cheapest_goes_first_and_open_jobs_never(store: Store) -> None:
    running = new_job("running")
    await store.submit(running)
    over = new_job("over")
    await store.submit(over)
    await store.finish(fence(over), completed(over))
    for number in range(60):
        await store.cache_answer(f"key-{number}", reply("x" * 50_000), expires=time.time() + DAY)
    await store.sweep(max_bytes=1_000_000)
    answers = [await store.cached_answer(f"key-{number}") for number in range(60)]
    assert answers.count(None) > 30
    assert await store.existing_jobs([running.id, over.id]) == {running.id, over.id}
    await store.sweep(max_bytes=1)
    assert await store.existing_jobs([running.id, over.id]) == {running.id}
    assert await store.conversation("running") is not None


async def test_upkeep_of_a_store_that_works_changes_nothing(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    store.look()
    await store.check()
    await store.back_up()
    await store.flush()
    assert await store.job(new.id)
    assert store.is_home()
    assert store.is_current()

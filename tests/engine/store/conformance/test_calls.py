"""A job's calls: replies, events that followers read by a cursor, and images."""

from __future__ import annotations

import asyncio

from counsel.engine.store.protocol import Store
from counsel.engine.store.records import Blob
from counsel.errors import Internal
from counsel.job_events import ModelFailed, Noticed, TextAdded, Wait, Waiting
from support.stored import completed, fence, new_job, reply, usage

# ── replies ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_reply_is_read_as_it_was_remembered(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    assert await store.reply(new.id, "answer:gpt-5") is None
    assert not await store.has_replies(new.id)
    await store.remember(fence(new), "answer:gpt-5", "0", reply(), usage(new.id))
    assert await store.reply(new.id, "answer:gpt-5") == reply()
    assert await store.reply(new.id, "answer:other") is None
    assert await store.has_replies(new.id)
    assert [record.job for record in await store.usage(0)] == [new.id]


async def test_replies_are_sorted_by_their_keys(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    for key in ("refined:0", "initial:1", "initial:0"):
        store.remember(fence(new), key, "0", reply(key), usage())
    await store.flush()
    assert list(await store.replies(new.id)) == ["initial:0", "initial:1", "refined:0"]


async def test_of_two_replies_to_one_call_the_first_is_kept_and_both_are_counted(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    for text in ("first", "second"):
        await store.remember(fence(new), "answer:gpt-5", "0", reply(text), usage(new.id))
    assert (await store.replies(new.id))["answer:gpt-5"].text == "first"
    assert len(await store.usage(0)) == 2


async def test_a_reply_is_kept_although_its_job_was_lost(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    await store.append(fence(new), [TextAdded(1, 1.0, "0", "ans", 0, "answer")])
    await store.adopt(new.id, "owner", "heir")
    await store.mark_attempt(fence(new, owner="heir", attempt=2))
    await store.remember(fence(new), "answer:gpt-5", "0", reply(), usage(new.id))
    assert await store.reply(new.id, "answer:gpt-5") == reply()
    assert len(await store.usage(0)) == 1
    job = await store.job(new.id)
    assert job is not None
    assert job.stuck == 1, "only a reply of this attempt shows that the job makes progress"
    assert await store.slots_with_text(new.id) == ["0"], "the events belong to the new owner"


async def test_a_reply_of_a_job_that_is_gone_is_counted_and_dropped(store: Store) -> None:
    await store.remember(fence(new_job()), "answer:gpt-5", "0", reply(), usage())
    assert len(await store.usage(0)) == 1


async def test_attempts_count_until_a_reply_is_remembered(store: Store) -> None:
    new = new_job()
    await store.submit(new)

    async def stuck() -> int:
        job = await store.job(new.id)
        assert job is not None
        return job.stuck

    await store.mark_attempt(fence(new))
    await store.mark_attempt(fence(new))
    assert await stuck() == 2
    await store.remember(fence(new), "answer:gpt-5", "0", reply(), usage())
    assert await stuck() == 0


# ── events ───────────────────────────────────────────────────────────────────────────────────────────


async def test_events_are_read_by_a_cursor_in_their_order(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    events = [Noticed(seq, float(seq), "0", "info", f"note {seq}") for seq in range(1, 6)]
    store.append(fence(new), events[:2])
    store.append(fence(new), events[2:])
    await store.flush()
    assert await store.events(new.id, 0) == events
    assert await store.events(new.id, 3) == events[3:]
    assert await store.events(new.id, 5) == []
    assert await store.last_seq(new.id) == 5
    assert await store.last_seq("unknown") == 0


async def test_events_come_back_as_they_were(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    wait = Wait("turn", "its turn", job_id="another")
    await store.append(fence(new), [TextAdded(1, 1.5, "0", "é𝄞", 7, "answer"), Waiting(2, 2.5, "", wait)])
    await store.append(fence(new), [ModelFailed(3, 3.5, "1", "gpt-5", "answer", Internal("It broke."))])
    first, second, third = await store.events(new.id, 0)
    assert first == TextAdded(1, 1.5, "0", "é𝄞", 7, "answer")
    assert second == Waiting(2, 2.5, "", wait)
    assert isinstance(third, ModelFailed)
    assert (third.model, third.error.message) == ("gpt-5", "It broke.")


async def test_a_finished_answer_replaces_its_models_partial_text(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    texts = [TextAdded(1, 1.0, "0", "a", 0, "initial"), TextAdded(2, 1.0, "1", "b", 0, "initial")]
    await store.append(fence(new), texts)
    assert await store.slots_with_text(new.id) == ["0", "1"]
    await store.remember(fence(new), "initial:0", "0", reply(), usage())
    assert await store.slots_with_text(new.id) == ["1"]
    assert await store.events(new.id, 0) == texts[1:]


async def test_events_end_with_the_job(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    await store.finish(fence(new), completed(new))
    await store.append(fence(new), [Noticed(1, 1.0, "", "info", "late")])
    assert await store.events(new.id, 0) == []


async def test_what_a_job_waits_for_is_its_last_event(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    assert await store.waiting(new.id) is None
    wait = Wait("slot", "a free slot")
    await store.append(fence(new), [Waiting(1, 1.0, "0", wait)])
    assert await store.waiting(new.id) == wait
    await store.append(fence(new), [Noticed(2, 1.0, "1", "info", "of another model")])
    assert await store.waiting(new.id) == wait
    await store.append(fence(new), [Waiting(3, 1.0, "0", None)])
    assert await store.waiting(new.id) is None


# ── waking followers ─────────────────────────────────────────────────────────────────────────────────


async def test_a_follower_wakes_when_its_job_changes(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    mark = store.mark(new.id)
    waiting = asyncio.create_task(store.wait_for_change(new.id, mark, 60))
    await asyncio.sleep(0)
    await store.append(fence(new), [Noticed(1, 1.0, "", "info", "note")])
    await asyncio.wait_for(waiting, 20)


async def test_a_change_between_the_mark_and_the_wait_is_not_missed(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    mark = store.mark(new.id)
    await store.append(fence(new), [Noticed(1, 1.0, "", "info", "note")])
    await asyncio.wait_for(store.wait_for_change(new.id, mark, 60), 20)


async def test_a_follower_whose_job_does_not_change_wakes_after_a_while(store: Store) -> None:
    await asyncio.wait_for(store.wait_for_change("job", store.mark("job"), 0.1), 20)


# ── images ─────────────────────────────────────────────────────────────────────────────────────────


async def test_images_are_read_by_their_hash(store: Store) -> None:
    png = Blob("sha", "image/png", b"\x00\xff")
    await store.put_blobs([png, Blob("other", "image/jpeg", b"")])
    await store.put_blobs([png])
    assert await store.blobs(["sha", "unknown"]) == {"sha": png}
    assert await store.blobs([]) == {}

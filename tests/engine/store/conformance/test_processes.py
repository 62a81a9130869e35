"""Two stores on the same data, as in two processes. Each has its own writer, so they really race."""

from __future__ import annotations

import asyncio

import pytest

from counsel.engine.store.records import LostJob
from counsel.job_events import JobEvent, Noticed
from engine.store.conformance.conftest import Stores
from support.stored import answer, completed, fence, new_job, reply, usage

pytestmark = pytest.mark.thorough  # left out of `make check`

ROUNDS = 15


async def test_each_sees_what_the_other_has_written(stores: Stores) -> None:
    ours, theirs = stores.open(), stores.open()
    new = new_job()
    await ours.submit(new)
    assert await theirs.job(new.id)
    assert await theirs.request_cancel(new.id)
    (standing,) = await ours.standing([new.id])
    assert standing.cancel
    await ours.finish(fence(new), completed(new), alone=True)
    assert answer(await theirs.job(new.id)) == "answer"


async def test_stored_data_outlives_the_process(stores: Stores) -> None:
    ours = stores.open()
    new = new_job()
    ours.submit(new, may_wait=True)
    ours.finish(fence(new), completed(new), alone=True)
    await ours.flush()
    await ours.close()
    assert answer(await stores.open().job(new.id)) == "answer"


async def test_one_job_is_adopted_by_one_of_two(stores: Stores) -> None:
    ours, theirs = stores.open(), stores.open()
    for _ in range(ROUNDS):
        new = new_job()
        await ours.submit(new)
        adoptions = await asyncio.gather(
            ours.adopt(new.id, "owner", "heir"), theirs.adopt(new.id, "owner", "other heir")
        )
        (winner,) = [job for job in adoptions if job]
        job = await theirs.job(new.id)
        assert job is not None
        assert (job.owner, job.attempt) == (winner.record.owner, 2)


async def test_one_call_sent_to_two_is_one_job(stores: Stores) -> None:
    ours, theirs = stores.open(), stores.open()
    for number in range(ROUNDS):
        new = new_job(key=f"key-{number}")
        submissions = await asyncio.gather(ours.submit(new), theirs.submit(new))
        assert sorted(submission.is_new for submission in submissions) == [False, True]


async def test_one_tag_names_one_conversation(stores: Stores) -> None:
    ours, theirs = stores.open(), stores.open()
    for number in range(ROUNDS):
        jobs = [new_job(f"{name}-{number}", tag=f"tag-{number}") for name in "ab"]
        submissions = await asyncio.gather(ours.submit(jobs[0]), theirs.submit(jobs[1]))
        assert len({submission.conversation for submission in submissions}) == 1


async def test_a_job_ends_once_in_whatever_process(stores: Stores) -> None:
    ours, theirs = stores.open(), stores.open()
    for _ in range(ROUNDS):
        new = new_job()
        await ours.submit(new)
        ends = await asyncio.gather(
            ours.finish(fence(new), completed(new, "ours")),
            theirs.finish(fence(new), completed(new, "theirs")),
            return_exceptions=True,
        )
        assert sorted(isinstance(end, LostJob) for end in ends) == [False, True]
        assert answer(await ours.job(new.id)) == ("theirs" if isinstance(ends[0], LostJob) else "ours")


async def test_the_first_reply_to_a_call_is_kept(stores: Stores) -> None:
    ours, theirs = stores.open(), stores.open()
    for _ in range(ROUNDS):
        new = new_job()
        await ours.submit(new)
        await asyncio.gather(
            ours.remember(fence(new), "key", "0", reply("ours"), usage()),
            theirs.remember(fence(new, owner="stranger"), "key", "0", reply("theirs"), usage()),
        )
        replies = [await store.reply(new.id, "key") for store in (ours, theirs)]
        assert replies[0] == replies[1] is not None
    assert len(await ours.usage(0)) == 2 * ROUNDS


async def test_all_processes_agree_on_the_order_of_turns(stores: Stores) -> None:
    ours, theirs = stores.open(), stores.open()
    jobs = [new_job(created=1000.0 - number) for number in range(2 * ROUNDS)]
    await asyncio.gather(*((ours, theirs)[number % 2].submit(job) for number, job in enumerate(jobs)))
    order = [job.id for job in await ours.open_jobs("conversation")]
    assert order == [job.id for job in await theirs.open_jobs("conversation")]
    for place, job in enumerate(order):
        assert [row.id for row in await theirs.earlier_jobs(job)] == order[:place]


async def test_each_turn_gets_its_own_place(stores: Stores) -> None:
    ours, theirs = stores.open(), stores.open()
    jobs = [new_job() for _ in range(2 * ROUNDS)]
    for job in jobs:
        await ours.submit(job)
    await asyncio.gather(
        *(
            (ours, theirs)[number % 2].finish(fence(job), completed(job, job.id))
            for number, job in enumerate(jobs)
        )
    )
    messages = await ours.messages("conversation")
    assert len(messages) == 4 * ROUNDS
    assert [message.role for message in messages] == ["user", "assistant"] * 2 * ROUNDS
    assert all(
        question.job == reply_message.job
        for question, reply_message in zip(messages[::2], messages[1::2], strict=True)
    )


@pytest.mark.parametrize("batch", [1, 7])
async def test_a_follower_in_another_process_misses_no_event_and_sees_none_twice(
    stores: Stores, batch: int
) -> None:
    """With two writers: ids that commit out of order lose events for a cursor over all jobs."""
    ours, theirs, follower = stores.open(), stores.open(), stores.open()
    jobs = [new_job(owner="ours"), new_job(owner="theirs")]
    for job in jobs:
        await ours.submit(job)
    events = [Noticed(seq, float(seq), "", "info", str(seq)) for seq in range(1, 106)]

    async def write(number: int) -> None:
        store = (ours, theirs)[number]
        for start in range(0, len(events), batch):
            await store.append(fence(jobs[number]), events[start : start + batch])
        await store.finish(fence(jobs[number]), completed(jobs[number]))

    async def follow(job_id: str) -> list[JobEvent]:
        received: list[JobEvent] = []
        while True:
            mark = follower.mark(job_id)
            job = await follower.job(job_id)
            received += await follower.events(job_id, received[-1].seq if received else 0)
            if job and not job.is_open:
                return received
            await follower.wait_for_change(job_id, mark, 1)

    async with asyncio.timeout(60):
        first, second, *_ = await asyncio.gather(*(follow(job.id) for job in jobs), write(0), write(1))
    assert first == second == events


async def test_a_follower_wakes_when_another_process_writes(stores: Stores) -> None:
    ours, theirs = stores.open(), stores.open()
    new = new_job()
    await ours.submit(new)
    waiting = asyncio.create_task(theirs.wait_for_change(new.id, theirs.mark(new.id), 60))
    await asyncio.sleep(0)
    await ours.append(fence(new), [Noticed(1, 1.0, "", "info", "note")])
    await asyncio.wait_for(waiting, 20)
    assert len(await theirs.events(new.id, 0)) == 1

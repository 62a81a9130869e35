"""Jobs are stored once, owned by one attempt of one process, ended once, and in the order of turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from counsel.engine.store.protocol import Store
from counsel.engine.store.records import Fence, JobDetail, JobOutcome, LostJob
from counsel.job_events import Noticed, TextAdded
from counsel.results import ChatResult, ConsensusResult
from support.stored import DAY, answer, completed, fence, messages_then, new_job, reply, stopped, turn, usage


async def read(store: Store, job: str) -> JobDetail:
    detail = await store.job(job)
    assert detail is not None
    return detail


# ── submit ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_submitted_job_is_read_as_it_was_written(store: Store) -> None:
    new = new_job(key="key", background=True)
    submission = await store.submit(new)
    assert (submission.is_new, submission.conversation) == (True, "conversation")
    job = await read(store, new.id)
    assert (job.id, job.key, job.tool, job.conversation) == (new.id, "key", "chat", "conversation")
    assert (job.status, job.is_open, job.background, job.cancel) == ("processing", True, True, False)
    assert (job.owner, job.attempt, job.stuck, job.fingerprint) == ("owner", 1, 0, "fingerprint")
    assert (job.models, job.total, job.completed) == (("gpt-5",), 1, 0)
    assert (job.title, job.summary, job.keep_days) == (new.title, None, 3)
    assert job.created == pytest.approx(new.created)
    assert (job.finished, job.result, job.error) == (None, None, None)
    assert await store.task(new.id) == new.task


async def test_an_unknown_job_is_not_found(store: Store) -> None:
    assert await store.job("nothing") is None
    assert await store.task("nothing") is None
    assert await store.job_with_key("nothing") is None
    assert await store.newest_job("nothing") is None
    assert await store.earlier_jobs("nothing") == []


async def test_a_job_submitted_twice_is_written_once(store: Store) -> None:
    new = new_job(key="key")
    await store.submit(new)
    assert not (await store.submit(replace(new, owner="another"))).is_new
    assert (await read(store, new.id)).owner == "owner"
    assert await store.job_with_key("key") == new.id


async def test_a_job_that_may_wait_is_there_after_a_flush(store: Store) -> None:
    new = new_job()
    pending = store.submit(new, may_wait=True)
    await store.flush()
    assert await store.job(new.id)
    assert (await pending).is_new
    assert pending.done()
    assert pending.exception() is None


async def test_a_job_that_may_wait_reads_like_others_after_its_end(store: Store) -> None:
    """Its row, its conversation and its end may be one write."""

    async def records(conversation: str, *, may_wait: bool) -> list[object]:
        new = new_job(conversation, created=1.0, title="title")
        submission = store.submit(new, may_wait=may_wait)
        if not may_wait:
            await submission
        end = completed(new, turn=turn(new, session=("claude", "session")), usage=(usage(new.id),))
        await store.finish(fence(new), end, foreground=True)
        job, stored = await read(store, new.id), await store.conversation(conversation)
        assert stored is not None
        assert job.finished is not None
        messages = await store.messages(conversation)
        return [
            replace(job, id="", conversation="", finished=None, result=None),
            answer(job),
            replace(stored, id="", updated=0.0, expires=0.0),
            [(message.role, message.details, message.job == new.id) for message in messages],
            await store.agent_session(conversation, "claude"),
            [(record.cost, record.project) for record in await store.usage(0.0) if record.job == new.id],
        ]

    assert await records("one", may_wait=False) == await records("another", may_wait=True)


async def test_a_tag_joins_the_conversation_that_it_names(store: Store) -> None:
    await store.submit(new_job("first", tag="tag"))
    assert (await store.submit(new_job("second", tag="tag"))).conversation == "first"
    assert (await store.submit(new_job("third", tag="tag", project="/other"))).conversation == "third"
    assert (await store.submit(new_job("fourth"))).conversation == "fourth"


async def test_a_tag_of_an_expired_conversation_begins_another(
    store: Store, later: Callable[[float], None]
) -> None:
    await store.submit(new_job("first", tag="tag"))
    later(31 * DAY)
    assert (await store.submit(new_job("second", tag="tag"))).conversation == "second"


async def test_a_job_on_an_expired_conversation_starts_afresh(
    store: Store, later: Callable[[float], None]
) -> None:
    old = new_job()
    await store.submit(old)
    await store.finish(fence(old), completed(old))
    later(31 * DAY)
    await store.submit(new_job())
    assert await store.messages("conversation") == []


async def test_a_stateless_job_begins_no_conversation(store: Store) -> None:
    new = new_job()
    new = replace(new, task=replace(new.task, stateless=True))
    assert (await store.submit(new)).is_new
    assert not (await store.submit(new)).is_new
    assert await store.conversation("conversation") is None
    await store.finish(fence(new), completed(new))
    assert answer(await read(store, new.id)) == "answer"
    assert await store.messages("conversation") == []


# ── ownership ────────────────────────────────────────────────────────────────────────────────────────


async def test_an_adopted_job_is_the_next_attempt_with_its_question(store: Store) -> None:
    new = new_job(key="key")
    await store.submit(new)
    adopted_job = await store.adopt(new.id, "owner", "heir")
    assert adopted_job is not None
    assert (adopted_job.record.owner, adopted_job.record.attempt, adopted_job.record.key) == (
        "heir",
        2,
        "key",
    )
    assert (adopted_job.task, adopted_job.origin) == (new.task, new.origin)
    assert (await read(store, new.id)).attempt == 2


async def test_a_job_is_adopted_by_one_only_and_only_from_its_owner(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    assert await store.adopt(new.id, "stranger", "heir") is None
    assert await store.adopt(new.id, "owner", "heir")
    assert await store.adopt(new.id, "owner", "second heir") is None
    assert (await read(store, new.id)).owner == "heir"


async def test_a_finished_job_is_not_adopted(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    await store.finish(fence(new), completed(new))
    assert await store.adopt(new.id, "owner", "heir") is None


async def test_a_process_that_lost_a_job_changes_nothing_more(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    old_fence = fence(new)
    await store.adopt(new.id, "owner", "heir")
    await store.append(old_fence, [Noticed(1, 1.0, "", "info", "late")])
    await store.progress(old_fence, 1)
    await store.mark_attempt(old_fence)
    for end in (completed(new), stopped(new)):
        with pytest.raises(LostJob):
            await store.finish(old_fence, end)
    job = await read(store, new.id)
    assert (job.is_open, job.completed, job.stuck) == (True, 0, 0)
    assert await store.events(new.id, 0) == []
    assert await store.messages("conversation") == []


@pytest.mark.parametrize("wrong", ["owner", "attempt"])
async def test_owner_and_attempt_are_both_checked(store: Store, wrong: str) -> None:
    new = new_job()
    await store.submit(new)
    stale = Fence(new.id, "stranger", 1) if wrong == "owner" else Fence(new.id, "owner", 2)
    with pytest.raises(LostJob):
        await store.finish(stale, completed(new))
    await store.finish(fence(new), completed(new))


async def test_released_jobs_have_no_owner(store: Store) -> None:
    mine, theirs, over = new_job(), new_job(owner="another"), new_job()
    for job in (mine, theirs, over):
        await store.submit(job)
    await store.finish(fence(over), completed(over))
    await store.release("owner", keep=False)
    assert [(await read(store, job.id)).owner for job in (mine, theirs)] == ["", "another"]
    assert not (await read(store, mine.id)).background
    assert await store.adopt(mine.id, "", "heir")


async def test_released_jobs_that_are_kept_continue_without_their_callers(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    await store.release("owner", keep=True)
    assert (await read(store, new.id)).background


async def test_a_detached_job_is_a_background_job(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    await store.detach(new.id)
    assert (await read(store, new.id)).background


async def test_owners_are_those_of_open_jobs(store: Store) -> None:
    mine, theirs = new_job(), new_job(owner="another")
    await store.submit(mine)
    await store.submit(theirs)
    assert await store.owners() == {"owner", "another"}
    await store.finish(fence(theirs), completed(theirs))
    assert await store.owners() == {"owner"}


async def test_standing_names_the_current_owner(store: Store) -> None:
    first, second, unseen = new_job(), new_job(), new_job()
    for job in (first, second, unseen):
        await store.submit(job)
    await store.adopt(first.id, "owner", "heir")
    await store.request_cancel(second.id)
    standings = {standing.id: standing for standing in await store.standing([first.id, second.id, "unknown"])}
    assert standings.keys() == {first.id, second.id}
    assert (standings[first.id].owner, standings[first.id].attempt, standings[first.id].cancel) == (
        "heir",
        2,
        False,
    )
    assert (standings[second.id].owner, standings[second.id].status, standings[second.id].cancel) == (
        "owner",
        "processing",
        True,
    )


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("alone", [True, False])
async def test_an_end_writes_result_and_turn_together(store: Store, alone: bool) -> None:
    new = new_job()
    await store.submit(new)
    end = completed(new, turn=turn(new, session=("codex", "session")), usage=(usage(new.id),))
    await store.finish(fence(new), end, alone=alone)
    job = await read(store, new.id)
    assert (job.status, job.completed, job.error) == ("completed", 1, None)
    assert job.finished is not None
    assert (answer(job), messages_then(job)) == ("answer", 2)
    assert [(message.role, message.text) for message in await store.messages("conversation")] == [
        ("user", new.task.text),
        ("assistant", "answer"),
    ]
    session = await store.agent_session("conversation", "codex")
    assert session is not None
    assert (session.id, session.messages) == ("session", 2)
    assert [record.job for record in await store.usage(0)] == [new.id]


async def test_a_job_ends_once(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    await store.finish(fence(new), completed(new, "first"))
    for end in (completed(new, "second"), stopped(new)):
        with pytest.raises(LostJob):
            await store.finish(fence(new), end)
    assert answer(await read(store, new.id)) == "first"
    assert len(await store.messages("conversation")) == 2


async def test_each_turn_goes_to_the_end_of_its_conversation(store: Store) -> None:
    for number in range(1, 4):
        new = new_job()
        await store.submit(new)
        await store.finish(fence(new), completed(new, f"answer {number}"))
        assert messages_then(await read(store, new.id)) == 2 * number
    texts = [message.text for message in await store.messages("conversation") if message.role == "assistant"]
    assert texts == ["answer 1", "answer 2", "answer 3"]


async def test_the_answer_of_a_deleted_conversation_stays_in_its_job(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    assert await store.delete_conversation("conversation")
    await store.finish(fence(new), completed(new))
    assert messages_then(await read(store, new.id)) == 0
    assert await store.messages("conversation") == []


async def test_a_stopped_job_has_an_error_and_no_turn(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    await store.finish(fence(new), stopped(new, "failed"))
    job = await read(store, new.id)
    assert (job.status, job.result) == ("failed", None)
    assert job.error is not None
    assert await store.messages("conversation") == []
    assert [
        (ending.id, ending.status, ending.title) for ending in await store.jobs_without_turn("conversation")
    ] == [(new.id, "failed", new.title)]


async def test_remembered_replies_of_a_stopped_job_become_a_turn(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    store.remember(fence(new), "initial:0", "0", reply("a"), usage())
    store.remember(fence(new), "initial:1", "1", reply("b"), usage())
    await store.finish(fence(new), stopped(new, "cancelled", keep_replies=True))
    assert [message.text for message in await store.messages("conversation")] == [new.task.text, "a+b"]
    assert await store.jobs_without_turn("conversation") == []


async def test_the_text_of_a_completed_job_leaves_its_events(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    await store.append(
        fence(new), [Noticed(1, 1.0, "", "info", "note"), TextAdded(2, 1.0, "0", "ans", 0, "answer")]
    )
    await store.finish(fence(new), completed(new))
    assert [event.kind for event in await store.events(new.id, 0)] == ["notice"]


@pytest.mark.parametrize(("error", "kinds"), [({}, ["text"]), ({"partial": "ans"}, [])])
async def test_the_text_of_a_stopped_job_stays_unless_its_error_has_it(
    store: Store, error: dict[str, Any], kinds: list[str]
) -> None:
    new = new_job()
    await store.submit(new)
    await store.append(fence(new), [TextAdded(1, 1.0, "0", "ans", 0, "answer")])
    await store.finish(fence(new), stopped(new, **error))
    assert [event.kind for event in await store.events(new.id, 0)] == kinds


async def test_progress_title_and_summary(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    await store.progress(fence(new), 1)
    await store.describe(new.id, title="title")
    await store.describe(new.id, summary="summary")
    job = await read(store, new.id)
    assert (job.completed, job.title, job.summary) == (1, "title", "summary")


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────────


async def test_an_open_job_can_be_asked_to_stop(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    assert await store.request_cancel(new.id)
    assert (await read(store, new.id)).cancel


async def test_the_request_to_cancel_reaches_the_next_owner(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    await store.request_cancel(new.id)
    adopted_job = await store.adopt(new.id, "owner", "heir")
    assert adopted_job is not None
    assert adopted_job.record.cancel


async def test_single_models_can_be_asked_to_stop_and_the_next_owner_knows(store: Store) -> None:
    new = new_job()
    await store.submit(new)
    assert (await read(store, new.id)).cancelled_members == ()
    for member in ("1", "0", "1"):
        assert await store.request_cancel(new.id, member)
    job = await read(store, new.id)
    assert (job.cancel, job.cancelled_members) == (False, ("1", "0"))
    (standing,) = await store.standing([new.id])
    assert (standing.cancel, standing.cancelled_members) == (False, ("1", "0"))
    adopted_job = await store.adopt(new.id, "owner", "heir")
    assert adopted_job is not None
    assert adopted_job.record.cancelled_members == ("1", "0")


@pytest.mark.parametrize("end", [completed, stopped])
async def test_a_job_that_is_over_cannot_be_asked_to_stop(store: Store, end: Callable[..., object]) -> None:
    new = new_job()
    await store.submit(new)
    await store.finish(fence(new), end(new))  # type: ignore[arg-type]
    assert not await store.request_cancel(new.id)
    assert not await store.request_cancel(new.id, "0")
    assert not await store.request_cancel("unknown")


# ── the order of turns ───────────────────────────────────────────────────────────────────────────────


async def test_turns_are_in_the_order_of_submission_whatever_the_clocks_say(store: Store) -> None:
    first, second, third = (new_job(created=at, owner=f"owner {at}") for at in (300.0, 200.0, 100.0))
    unrelated = new_job("another")
    for job in (first, second, unrelated, third):
        await store.submit(job)
    assert [job.id for job in await store.earlier_jobs(third.id)] == [first.id, second.id]
    assert [job.id for job in await store.earlier_jobs(first.id)] == []
    assert [job.id for job in await store.open_jobs("conversation")] == [first.id, second.id, third.id]


async def test_a_turn_no_longer_waits_for_a_job_that_is_over(store: Store) -> None:
    first, second, third = (new_job() for _ in range(3))
    for job in (first, second, third):
        await store.submit(job)
    await store.finish(fence(first), completed(first))
    assert [job.id for job in await store.earlier_jobs(third.id)] == [second.id]
    await store.finish(fence(second), stopped(second))
    assert await store.earlier_jobs(third.id) == []


async def test_an_adopted_job_keeps_its_place(store: Store) -> None:
    first, second = new_job(), new_job()
    await store.submit(first)
    await store.submit(second)
    await store.adopt(first.id, "owner", "heir")
    assert [job.id for job in await store.earlier_jobs(second.id)] == [first.id]
    assert await store.earlier_jobs(first.id) == []


# ── lists ────────────────────────────────────────────────────────────────────────────────────────────


async def test_recent_jobs_are_newest_first(store: Store) -> None:
    jobs = [new_job(created=float(at)) for at in (1, 3, 2)]
    for job in jobs:
        await store.submit(job)
    await store.finish(fence(jobs[1]), completed(jobs[1]))
    assert [job.id for job in await store.recent_jobs(2)] == [jobs[1].id, jobs[2].id]
    assert [job.id for job in await store.open_jobs()] == [jobs[0].id, jobs[2].id]


async def test_outcomes_say_who_answered_and_what_it_cost(store: Store) -> None:
    chat_job, consensus_job, failed_job, running = (new_job() for _ in range(4))
    for job in (chat_job, consensus_job, failed_job, running):
        await store.submit(job)
    about = {"model": "gpt-5", "provider": "openai", "cost_usd": 0.5, "usage": {"total_tokens": 7}}
    totals = {"cost_usd": 0.25, "cost_complete": False, "usage": {"input_tokens": 9}}
    chat = ChatResult.from_json({"content": "yes", "metadata": about})
    consensus = ConsensusResult.from_json({"phases": {}, "metadata": totals})
    await store.finish(fence(chat_job), completed(chat_job, result=lambda _: chat))
    await store.finish(fence(consensus_job), completed(consensus_job, result=lambda _: consensus))
    await store.finish(fence(failed_job), stopped(failed_job, cost_usd=0.125, usage={"total_tokens": 3}))
    assert await store.outcomes([chat_job.id, consensus_job.id, failed_job.id, running.id, "nothing"]) == {
        chat_job.id: JobOutcome("gpt-5", "openai", 0.5, True, 7),
        consensus_job.id: JobOutcome(None, None, 0.25, False, 9),
        failed_job.id: JobOutcome(None, None, 0.125, True, 3),
    }
    assert await store.outcomes([]) == {}


async def test_the_newest_job_of_a_conversation(store: Store) -> None:
    first, second, unrelated = new_job(created=1.0), new_job(created=2.0), new_job("another", created=3.0)
    for job in (first, second, unrelated):
        await store.submit(job)
    newest = await store.newest_job("conversation")
    assert newest is not None
    assert newest.id == second.id


async def test_which_ids_are_jobs(store: Store) -> None:
    jobs = [new_job() for _ in range(3)]
    for job in jobs:
        await store.submit(job)
    ids = [job.id for job in jobs[:2]] + [f"unknown-{number}" for number in range(2_000)]
    assert await store.existing_jobs(ids) == {jobs[0].id, jobs[1].id}
    assert await store.existing_jobs([]) == set()


# ── writes ───────────────────────────────────────────────────────────────────────────────────────────


async def test_writes_take_effect_in_the_order_of_the_calls(store: Store) -> None:
    new = new_job()
    store.submit(new, may_wait=True)
    store.append(fence(new), [Noticed(1, 1.0, "", "info", "a")])
    store.describe(new.id, title="first")
    store.describe(new.id, title="second")
    store.finish(fence(new), completed(new))
    store.append(fence(new), [Noticed(2, 1.0, "", "info", "too late")])
    await store.flush()
    job = await read(store, new.id)
    assert (job.status, job.title) == ("completed", "second")
    assert [event.seq for event in await store.events(new.id, 0)] == [1]


async def test_a_write_happens_although_its_waiter_is_cancelled(store: Store) -> None:
    jobs = [new_job() for _ in range(3)]

    async def write(number: int) -> None:
        await store.submit(jobs[number], may_wait=number == 1)

    tasks = [asyncio.create_task(write(number)) for number in range(3)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await store.flush()
    assert await store.existing_jobs([job.id for job in jobs]) == {job.id for job in jobs}
    await store.describe(jobs[0].id, title="it still works")


async def test_a_failed_write_affects_no_other(store: Store) -> None:
    new, second = new_job(), new_job("another")
    await store.submit(new)
    await store.submit(second)
    failing_write = store.finish(Fence(new.id, "stranger", 9), completed(new))
    good_write = store.finish(fence(second), completed(second))
    await good_write
    with pytest.raises(LostJob):
        await failing_write
    assert answer(await read(store, second.id)) == "answer"

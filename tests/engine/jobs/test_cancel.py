"""Cancelling by job and by conversation: a call in progress, a job whose process died."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.errors import Cancelled, Conflict, CounselError, NotFound
from counsel.requests import ChatRequest, ConsensusRequest
from fake import FakeAPI
from support.database import change

FIRST = ChatRequest(prompt="first", model="gpt-5", continuation_id="mine")


async def status(engine: Engine, job: str) -> str:
    return str((await engine.status(job)).to_json()["content"]["status"])


async def two_jobs_of_one_conversation(engine: Engine, caller: Caller, fake_api: FakeAPI) -> tuple[str, str]:
    fake_api.script(contains="first", hang_after=1)
    first = await engine.submit(FIRST, caller, background=True)
    second = await engine.submit(replace(FIRST, prompt="second"), caller, background=True)
    await fake_api.wait_for(deltas=1)
    return first, second


async def test_a_conversation_with_two_jobs_does_not_say_which_one_to_cancel(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    first, second = await two_jobs_of_one_conversation(engine, caller(), fake_api)
    with pytest.raises(Conflict) as error:
        await engine.cancel("mine")
    assert str(error.value).startswith("2 jobs are running in mine:")
    assert first in str(error.value)
    assert second in str(error.value)
    assert [await status(engine, job) for job in (first, second)] == ["processing", "processing"]
    # a status shows the newest job
    assert (await engine.status("mine")).to_json()["content"]["job_id"] == second
    assert (await engine.cancel(first)).to_json()["content"]["job_id"] == first
    assert (await engine.wait(second)).to_json()["content"] == "gpt-5 says: second"
    assert await status(engine, first) == "cancelled"


async def test_the_one_job_of_a_conversation_is_cancelled_by_its_name(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    first, second = await two_jobs_of_one_conversation(engine, caller(), fake_api)
    await engine.cancel(first)
    await engine.wait(second)
    fake_api.script(contains="third", hang_after=1)
    third = await engine.submit(replace(FIRST, prompt="third"), caller(), background=True)
    await fake_api.wait_for(contains="third", deltas=1)
    content = (await engine.cancel("mine")).to_json()["content"]
    assert content["job_id"] == third
    assert content["message"] == "Job mine cancelled successfully"
    assert content["elapsed_seconds"] >= 0
    assert content["cancelled_at"].endswith("Z")
    again = (await engine.cancel("mine")).to_json()["content"]
    assert again == {"status": "cancelled", "message": "Job mine has already been cancelled", "job_id": third}


async def test_an_unknown_name_is_not_found_and_not_repeated_at_length(engine: Engine) -> None:
    with pytest.raises(NotFound) as error:
        await engine.cancel("x" * 500)
    assert str(error.value).startswith(f"There is no job {'x' * 80}.")


async def test_a_cancelled_call_says_so_and_keeps_its_partial_text(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="one two three four", deltas=4, hang_after=2)
    job = await engine.submit(FIRST, caller(), background=True)
    waiting = asyncio.create_task(engine.wait(job))
    await fake_api.wait_for(deltas=2)
    async with asyncio.timeout(20):
        await anext(event async for event in engine.follow(job) if event.kind == "text")
    await engine.cancel(job)
    with pytest.raises(Cancelled):
        await waiting
    content = (await engine.status(job)).to_json()["content"]
    assert content["status"] == "cancelled"
    assert content["error"]["code"] == "CANCELLED"
    (model,) = content["models_status"]
    assert model["status"] == "cancelled" or model["error"]["code"] == "CANCELLED"
    assert "one" in content["partial"]
    events = [event async for event in engine.follow(job)]
    assert events[-1].kind == "cancelled"
    failures = [event for event in events if event.kind == "model_failed"]
    assert failures[0].data["error"]["code"] == "CANCELLED"
    assert failures[0].data["error"]["provider"] == "openai"
    report = await engine.usage(0, "provider")
    assert report["groups"][0]["errors"] == {"CANCELLED": 1}
    assert report["groups"][0]["output_tokens"] > 0


async def test_a_follower_sees_the_cancellation_as_the_last_event(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    """The follower is there before: a later one reads the end from the database."""
    fake_api.script(text="one two", deltas=2, hang_after=1)
    job = await engine.submit(FIRST, caller(), background=True)
    events = engine.follow(job)
    async with asyncio.timeout(20):
        await anext(event async for event in events if event.kind == "text")
        await engine.cancel(job)
        kinds = [event.kind async for event in events]
    assert kinds[-1] == "cancelled"


async def test_a_cancelled_consensus_ends_every_call_as_cancelled(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1, times=None)
    job = await engine.submit(
        ConsensusRequest(prompt="q", models=("gpt-5", "sonnet")), caller(), background=True
    )
    await fake_api.wait_for(deltas=1, count=2)
    await engine.cancel(job)
    await engine.store.flush()
    report = await engine.usage(0, "provider")
    assert [group["errors"] for group in report["groups"]] == [{"CANCELLED": 1}, {"CANCELLED": 1}]


async def orphan(home: Path, caller: Callable[..., Caller], fake_api: FakeAPI, **fields: Any) -> str:
    """A job whose process ended, submitted with keys that are not here."""
    fake_api.script(hang_after=1, times=1)
    engine = await open_engine(home)
    job = await engine.submit(FIRST, caller(OPENAI_API_KEY="sk-another-00000000000000"), **fields)
    await fake_api.wait_for(deltas=1)
    await engine.close()
    return job


async def wait_for_end(engine: Engine, job: str) -> None:
    """Wait until the job is given up, by this search for orphans or by the engine's own."""
    await engine.runner.look_for_orphans()
    async with asyncio.timeout(20):
        with pytest.raises(CounselError):
            await engine.wait(job)


async def test_a_cancelled_orphan_is_given_up_although_its_keys_are_gone(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    job = await orphan(home, caller, fake_api, background=True)
    engine = await open_engine(home)
    assert await status(engine, job) == "processing"
    await change(engine, "UPDATE jobs SET cancel = TRUE WHERE id = ?", job)
    await wait_for_end(engine, job)
    assert await status(engine, job) == "cancelled"
    error = (await engine.status(job)).to_json()["content"]["error"]
    assert error["code"] == "CANCELLED"
    assert error["error"] == f"Job {job} was cancelled."
    assert len(fake_api.calls) == 1
    await engine.close()


async def test_an_orphan_is_cancelled_by_any_process(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    job = await orphan(home, caller, fake_api, background=True)
    engine = await open_engine(home)
    assert (await engine.cancel(job)).to_json()["content"]["status"] == "cancelled"
    assert await status(engine, job) == "cancelled"
    await engine.close()


async def test_a_job_that_makes_no_progress_is_given_up(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    job = await orphan(home, caller, fake_api, background=True)
    engine = await open_engine(home)
    await change(engine, "UPDATE jobs SET stuck = 24 WHERE id = ?", job)
    await engine.runner.look_for_orphans()
    assert await status(engine, job) == "processing"
    await change(engine, "UPDATE jobs SET stuck = 25 WHERE id = ?", job)
    if engine.store.team is not None:  # whoever takes a job from the queue has its keys
        engine.register_caller(caller(OPENAI_API_KEY="sk-another-00000000000000"))
    await wait_for_end(engine, job)
    error = (await engine.status(job)).to_json()["content"]["error"]
    assert error["error"] == f"Job {job} was interrupted 25 times without making progress."
    assert await status(engine, job) == "failed"
    await engine.close()


async def test_a_job_that_looks_lost_for_a_moment_is_not_stopped(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    """A database that is being rebuilt may show an older state: only two consecutive checks count."""
    for loop in engine.runner.periodic.tasks:
        loop.cancel()
    fake_api.script(gate="g", gate_after=1)
    job = await engine.submit(FIRST, caller(), background=True)
    await fake_api.wait_for(deltas=1)

    async def owner(name: str) -> None:
        await change(engine, "UPDATE jobs SET owner = ? WHERE id = ?", name, job)
        await engine.runner.periodic.tick()

    ours = engine.runner.ownership.name
    for name in ("other", ours, "other", ours):
        await owner(name)
        assert not engine.runner.running[job].task.done()
    fake_api.open_gate("g")
    assert (await engine.wait(job)).to_json()["content"] == "gpt-5 says: first"


async def test_a_job_that_two_checks_find_lost_is_stopped(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    for loop in engine.runner.periodic.tasks:
        loop.cancel()
    fake_api.script(hang_after=1)
    job = await engine.submit(FIRST, caller(), background=True)
    await fake_api.wait_for(deltas=1)
    await change(engine, "UPDATE jobs SET attempt = 2 WHERE id = ?", job)
    await engine.runner.periodic.tick()
    await engine.runner.periodic.tick()
    await fake_api.wait_for(state="disconnected")
    assert await status(engine, job) == "processing"  # another process must end it


async def test_a_job_cancelled_through_the_database_stops(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    for loop in engine.runner.periodic.tasks:
        loop.cancel()
    fake_api.script(hang_after=1)
    job = await engine.submit(FIRST, caller(), background=True)
    await fake_api.wait_for(deltas=1)
    await engine.runner.periodic.tick()
    assert await status(engine, job) == "processing"
    await change(engine, "UPDATE jobs SET cancel = TRUE WHERE id = ?", job)
    await engine.runner.periodic.tick()
    assert await status(engine, job) == "cancelled"

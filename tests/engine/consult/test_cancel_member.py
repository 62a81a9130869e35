"""Stopping one model of a consensus: the others continue, even after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.errors import Cancelled, InvalidArgument, UpstreamError
from counsel.requests import ChatRequest, ConsensusRequest
from fake import FakeAPI

MODELS = ("gpt-5", "sonnet", "gemini-2.5-flash")
QUESTION = ConsensusRequest(prompt="which?", models=MODELS)


async def text_of(engine: Engine, job: str, slot: str) -> None:
    """Wait until this model has begun to answer."""
    async with asyncio.timeout(60):
        await anext(
            event async for event in engine.follow(job) if event.kind == "text" and event.slot == slot
        )


async def failures(engine: Engine, job: str) -> list[tuple[str, str]]:
    """Each model that failed, with the reason, as a follower sees it."""
    events = [event async for event in engine.follow(job) if event.kind == "model_failed"]
    return [(event.slot, event.data["error"]["code"]) for event in events]


async def states(engine: Engine, job: str) -> list[Any]:
    content: Any = (await engine.status(job)).content
    return list(content["models_status"])


@pytest.mark.parametrize("member", ["1", "sonnet"])
async def test_the_others_refine_their_answers_without_it(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, member: str
) -> None:
    fake_api.script(vendor="anthropic", text="one two three four", deltas=4, hang_after=2)
    job = await engine.submit(QUESTION, caller(), background=True)
    following = asyncio.create_task(failures(engine, job))
    await text_of(engine, job, "1")
    outcome = (await engine.cancel(job, member)).content
    assert (outcome["status"], outcome["member"], outcome["job_id"]) == ("processing", "1", job)
    assert outcome["message"].startswith("sonnet of job ")
    result = (await engine.wait(job)).to_json()
    assert result["status"] == "consensus_partial"
    assert [answer["model"] for answer in result["phases"]["refined"]] == ["gpt-5", "gemini-2.5-flash"]
    (failure,) = result["phases"]["failed"]
    assert (failure["model"], failure["phase"], failure["code"]) == ("sonnet", "initial", "CANCELLED")
    assert failure["partial"].startswith("one")
    assert failure["error"] == "sonnet was cancelled."
    assert failure["usage"]["output_tokens"] > 0
    await fake_api.wait_for(vendor="anthropic", state="disconnected")
    assert len([call for call in fake_api.calls if call.vendor == "anthropic"]) == 1
    assert await following == [("1", "CANCELLED")]
    assert (await engine.cancel(job, member)).content["status"] == "completed_with_errors"


async def test_a_member_that_has_answered_does_not_refine(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(vendor="gemini", gate="g")
    job = await engine.submit(QUESTION, caller(), background=True)
    async with asyncio.timeout(60):
        await anext(e async for e in engine.follow(job) if e.kind == "model_finished" and e.slot == "0")
    await engine.cancel(job, "0")
    fake_api.open_gate("g")
    result = (await engine.wait(job)).to_json()
    assert [answer["model"] for answer in result["phases"]["initial"]] == list(MODELS)
    first = result["phases"]["refined"][0]
    assert (first["model"], first["refined_response"], first["error"]["code"]) == ("gpt-5", None, "CANCELLED")
    assert [(row["model"], row["phase"]) for row in result["phases"]["failed"]] == [("gpt-5", "refined")]


async def test_the_last_member_ends_the_job(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1, times=None)
    job = await engine.submit(QUESTION, caller(), background=True)
    for slot in "012":
        await text_of(engine, job, slot)
    for slot in "01":
        assert (await engine.cancel(job, slot)).content["status"] == "processing"
    assert [state["status"] for state in await states(engine, job)] == ["failed", "failed", "processing"]
    outcome = (await engine.cancel(job, "2")).content
    assert (outcome["status"], "member" in outcome) == ("cancelled", False)
    with pytest.raises(Cancelled):
        await engine.wait(job)


async def test_a_job_whose_other_models_failed_says_which_one_was_cancelled(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(model="gpt-5", status=401)
    fake_api.script(vendor="anthropic", text="one two three", deltas=3, hang_after=1)
    question = ConsensusRequest(prompt="which?", models=("gpt-5", "sonnet"))
    job = await engine.submit(question, caller(), background=True)
    await text_of(engine, job, "1")
    await engine.cancel(job, "1")
    with pytest.raises(UpstreamError, match="sonnet was cancelled"):
        await engine.wait(job)
    first, second = await states(engine, job)
    assert (first["status"], second["status"], second["partial"][:3]) == ("failed", "cancelled", "one")


async def test_the_only_model_of_a_chat_is_the_whole_job(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1)
    job = await engine.submit(ChatRequest(prompt="q", model="gpt-5"), caller(), background=True)
    await text_of(engine, job, "0")
    assert (await engine.cancel(job, "0")).content["status"] == "cancelled"


async def test_a_model_that_the_job_does_not_have_is_named(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1, times=None)
    job = await engine.submit(QUESTION, caller(), background=True)
    for member in ("3", "-1", "gpt-6", ""):
        with pytest.raises(InvalidArgument) as excinfo:
            await engine.cancel(job, member)
        assert excinfo.value.hint == "Its models: 0 (gpt-5), 1 (sonnet), 2 (gemini-2.5-flash)."
    await engine.cancel(job)


async def test_a_job_that_continues_in_another_process_does_not_ask_it_again(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(vendor="anthropic", text="one two three four", deltas=4, hang_after=2)
    fake_api.script(vendor="gemini", hang_after=1, times=1)
    first_engine = await open_engine(home)
    job = await first_engine.submit(QUESTION, caller(), background=True)
    await text_of(first_engine, job, "1")
    await text_of(first_engine, job, "2")
    await first_engine.cancel(job, "sonnet")
    async with asyncio.timeout(60):
        await anext(event async for event in first_engine.follow(job) if event.kind == "model_failed")
    await first_engine.close()
    engine = await open_engine(home)
    engine.register_caller(caller())
    result = (await engine.wait(job)).to_json()
    (failure,) = result["phases"]["failed"]
    assert (failure["model"], failure["code"], failure["partial"][:3]) == ("sonnet", "CANCELLED", "one")
    assert len(result["phases"]["refined"]) == 2
    assert len([call for call in fake_api.calls if call.vendor == "anthropic"]) == 1
    await engine.close()


async def test_another_process_can_stop_one_of_our_models(
    home: Path, engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(vendor="anthropic", hang_after=1)
    job = await engine.submit(QUESTION, caller(), background=True)
    await text_of(engine, job, "1")
    second_engine = await open_engine(home)
    assert (await second_engine.cancel(job, "sonnet")).content["member"] == "1"
    async with asyncio.timeout(60):
        result = (await engine.wait(job)).to_json()
    assert [failure["code"] for failure in result["phases"]["failed"]] == ["CANCELLED"]
    await second_engine.close()

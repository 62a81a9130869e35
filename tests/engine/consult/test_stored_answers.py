"""Answers after their job: cache, titles, summaries, a full disk, expiry."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.errors import AuthenticationFailed, NotFound
from counsel.requests import ChatRequest
from fake import FakeAPI
from support.asking import ask, until_text
from support.database import change, full_disk, value


async def until_summary(engine: Engine, job: str, words: str) -> None:
    while True:
        if (await engine.status(job)).to_json()["content"]["summary"] == words:
            return
        await asyncio.sleep(0)


async def test_cached_answers_say_so_and_send_nothing(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    sender = caller(COUNSEL_CACHE_SECONDS="60")
    await ask(engine, sender)
    again = await ask(engine, sender)
    assert again["metadata"]["cached"] is True
    assert len(fake_api.log.requests) == 1


async def test_a_cached_answer_needs_its_key(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    await ask(engine, caller(COUNSEL_CACHE_SECONDS="60"))
    again = await ask(
        engine, caller(COUNSEL_CACHE_SECONDS="60", OPENAI_API_KEY="sk-another-0000000000000000")
    )
    assert "cached" not in again["metadata"]
    assert len(fake_api.log.requests) == 2


async def test_titles_and_summaries_by_a_model(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="A fine title", contains="Give a title", times=None)
    fake_api.script(text="It says hello.", contains="Summarise", times=None)
    result = await ask(engine, caller(ENABLE_RESPONSE_SUMMARIZATION="true"), "please say hello")
    assert result["title"] == "A fine title"
    assert result["final_summary"] == "It says hello."
    await engine.store.flush()
    conversation = await engine.store.conversation(result["continuation"]["id"])
    assert conversation is not None
    assert conversation.title == "A fine title"
    usage = {group["model"]: group for group in (await engine.usage(0, "model"))["groups"]}
    assert (usage["openai/gpt-5"]["calls"], usage["openai/gpt-5-nano"]["calls"]) == (1, 2)
    assert usage["openai/gpt-5-nano"]["cost_usd"] > 0


async def test_a_job_that_is_continued_keeps_the_title_that_was_paid_for(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="A fine title", contains="Give a title", times=None)
    fake_api.script(hang_after=1, contains="please say hello", times=1)
    sender = caller(ENABLE_RESPONSE_SUMMARIZATION="true")
    first_engine = await open_engine(home)
    job = await first_engine.submit(
        ChatRequest(prompt="please say hello", model="gpt-5"), sender, background=True
    )
    async with asyncio.timeout(60):
        while (await first_engine.status(job)).to_json()["content"]["title"] != "A fine title":
            await asyncio.sleep(0.02)
    await fake_api.wait_for(contains="please say hello", deltas=1)
    await first_engine.close()
    engine = await open_engine(home)
    engine.register_caller(sender)
    assert (await engine.wait(job)).to_json()["content"] == "gpt-5 says: please say hello"
    assert (await engine.status(job)).to_json()["content"]["title"] == "A fine title"
    assert len([call for call in fake_api.calls if "Give a title" in call.text]) == 1
    await engine.close()


async def test_a_failing_summary_falls_back_to_a_snippet(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=400, contains="Give a title", times=None)
    fake_api.script(status=400, contains="Summarise", times=None)
    result = await ask(engine, caller(ENABLE_RESPONSE_SUMMARIZATION="true"), "please say hello")
    assert result["title"] == "please say hello"
    assert result["final_summary"] == "gpt-5 says: please say hello"


async def test_an_answer_that_cannot_be_stored_is_still_returned(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    async with full_disk(engine):
        result = await ask(engine, caller(), "x" * 200_000)
    assert result["content"].startswith("gpt-5 says: xxx")
    assert "could not be stored" in result["metadata"]["warnings"][0]


async def ended(engine: Engine, caller: Caller, **request: Any) -> str:
    """A job that ended before anyone waited for it, as with `counsel ask`, which follows it first."""
    job = await engine.submit(ChatRequest(**{"prompt": "hello", "model": "gpt-5", **request}), caller)
    await asyncio.wait({engine.runner.running[job].task})
    await asyncio.sleep(0)  # its last callback
    assert job not in engine.runner.running
    return job


async def test_a_wait_after_the_end_returns_what_the_disk_does_not_have(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    sender = caller()
    export = (await engine.wait(await ended(engine, sender, export=str(sender.cwd / "out")))).to_json()
    assert export["export"].startswith(str(sender.cwd / "out"))
    async with full_disk(engine):
        unstored_reply = (await engine.wait(await ended(engine, sender, prompt="x" * 200_000))).to_json()
        assert "could not be stored" in unstored_reply["metadata"]["warnings"][0]
        fake_api.script(status=401)
        failed_job = await ended(engine, sender, prompt="x" * 200_000)
        with pytest.raises(AuthenticationFailed):
            await asyncio.wait_for(engine.wait(failed_job), 10)


async def sweep(engine: Engine) -> None:
    if engine.store.team is not None:  # one server of the team does this for all
        await engine.runner.periodic.sweep_store()
    await engine.runner.periodic.sweep()


async def test_expired_conversations_and_old_jobs_are_swept(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    result = await ask(engine, caller())
    await change(engine, "UPDATE jobs SET finished = 1")
    await change(engine, "UPDATE conversations SET expires = 1")
    await sweep(engine)
    with pytest.raises(NotFound):
        await engine.status(result["job_id"])
    assert await value(engine, "SELECT COUNT(*) FROM messages") == 0


async def test_each_job_is_stored_as_long_as_its_caller_set(
    engine: Engine, caller: Callable[..., Caller], home: Path
) -> None:
    short, long = caller(COUNSEL_JOB_DAYS="1"), caller(COUNSEL_JOB_DAYS="9")
    expired_job, remaining = [(await ask(engine, sender))["job_id"] for sender in (short, long)]
    texts = home / "outputs"
    texts.mkdir(parents=True)
    for job in (expired_job, remaining):
        (texts / f"{job}.txt").write_text("the whole text")
        os.utime(texts / f"{job}.txt", (0, 0))
    await change(engine, "UPDATE jobs SET finished = finished - 2 * 86400")
    await sweep(engine)
    assert [job["job_id"] for job in (await engine.recent()).to_json()["content"]["jobs"]] == [remaining]
    assert [path.stem for path in texts.iterdir()] == [remaining]


async def test_the_name_of_an_expired_conversation_starts_a_new_one(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    await ask(engine, caller(), "old", continuation_id="mine")
    await change(engine, "UPDATE conversations SET expires = 1")
    again = await ask(engine, caller(), "new", continuation_id="mine")
    assert again["continuation"]["messageCount"] == 2


async def test_status_sums_up_the_text_so_far(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="It has begun.", contains="still being written", times=None)
    fake_api.script(gate="g", gate_after=1, contains="please write")
    sender = caller(ENABLE_RESPONSE_SUMMARIZATION="true")
    job = await engine.submit(ChatRequest(prompt="please write", model="sonnet"), sender, background=True)
    await until_text(engine, job)
    await fake_api.wait_for(contains="still being written", state="finished")
    await until_summary(engine, job, "It has begun.")
    fake_api.open_gate("g")
    await engine.wait(job)


async def test_a_call_keeps_its_id_when_the_crash_came_before_the_write(
    engine: Engine, caller: Callable[..., Caller], home: Path
) -> None:
    """A job's id that a client has must be valid in the next engine to which it sends its key."""
    request = ChatRequest(prompt="x", model="gpt-5")
    first = await engine.submit(request, caller(), key="a-key")
    await engine.wait(first)
    await change(engine, "DELETE FROM jobs")
    again = await open_engine(home)
    assert await again.submit(request, caller(), key="a-key") == first
    assert (await again.wait(first)).to_json()["content"] == "gpt-5 says: x"
    await again.close()

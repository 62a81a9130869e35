"""A job that does not complete: its finished answers are shown, and the conversation continues from them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.engine.history.archive import Archive
from counsel.engine.store.model import Origin, Reply, Task
from counsel.errors import Cancelled
from counsel.mcp import render
from counsel.requests import ChatRequest, ConsensusRequest
from counsel.settings import Settings
from counsel.types import Usage
from fake import FakeAPI
from support.database import change

MODELS = ("gpt-5", "sonnet", "gemini-2.5-flash")
ASK = ConsensusRequest(prompt="which?", models=MODELS, continuation_id="mine")


async def wait_for_replies(engine: Engine, job: str, count: int) -> None:
    async with asyncio.timeout(20):
        while len(await engine.store.replies(job)) < count:
            await asyncio.sleep(0.02)


async def cancelled_consensus(engine: Engine, caller: Caller, fake_api: FakeAPI, **fields: Any) -> str:
    """Two of three models have answered; the third has sent a third of its answer."""
    fake_api.script(text="aaabbbccc", hang_after=1, model="gemini")
    job = await engine.submit(ASK, caller, **fields)
    await fake_api.wait_for(model="gemini", deltas=1)
    await wait_for_replies(engine, job, 2)
    async with asyncio.timeout(20):
        while "aaa" not in (await engine.status(job)).to_json()["content"]["partial"]:
            await asyncio.sleep(0.02)
    reply = (await engine.cancel(job)).to_json()
    assert sorted(reply["content"]) == ["cancelled_at", "elapsed_seconds", "job_id", "message", "status"]
    return job


async def test_a_cancelled_consensus_shows_who_answered_and_who_did_not(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    job = await cancelled_consensus(engine, caller(), fake_api, background=True)
    status = await engine.status(job)
    content = status.content
    assert content["status"] == "cancelled"
    states = {entry["model"]: entry for entry in content["models_status"]}
    assert states["gpt-5"]["status"] == states["sonnet"]["status"] == "completed"
    assert states["gpt-5"]["text"] == "gpt-5 says: which?"
    assert (states["gemini-2.5-flash"]["status"], states["gemini-2.5-flash"]["text"]) == ("cancelled", "")
    assert states["gemini-2.5-flash"]["partial"] == content["partial"] == "aaa"
    assert "## gpt-5\n\ngpt-5 says: which?" in render.text(status)
    assert "## gemini-2.5-flash (partial: cancelled)\n\naaa" in render.text(status)
    with pytest.raises(Cancelled):
        await engine.wait(job)


async def test_the_conversation_continues_from_the_answers_that_arrived(
    engine: Engine, home: Path, tmp_path: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    job = await cancelled_consensus(engine, caller(), fake_api)
    follow_up = ChatRequest(prompt="and then?", model="gpt-5", continuation_id="mine")
    result = (await engine.wait(await engine.submit(follow_up, caller()))).to_json()
    assert result["continuation"]["messageCount"] == 4
    request_body = json.dumps(fake_api.last.body)
    assert "which?" in request_body
    assert "gpt-5 says: which?" in request_body
    assert "2 of 3 models had answered. No answer from gemini-2.5-flash." in request_body
    assert "aaa" not in request_body
    history = (await engine.status(job, full_history=True)).to_json()["content"]["history"]
    assert [message["role"] for message in history] == ["user", "assistant"] * 2
    metadata = history[1]["metadata"]
    assert (metadata["partial"], metadata["status"]) == (True, "cancelled")
    assert (metadata["answered"], metadata["unanswered"]) == (["gpt-5", "sonnet"], ["gemini-2.5-flash"])
    archive = Archive(home)
    content = await archive.show("mine")
    folder = await archive.export("mine", str(tmp_path / "project"), caller())
    await archive.close()
    assert content["history"][1]["metadata"]["partial"]
    assert "gpt-5 says: which?" in (folder / "1_response.txt").read_text()
    assert json.loads((folder / "metadata.json").read_text())["turns"][0]["partial"]


async def test_usage_of_a_cancelled_job_is_counted(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    await cancelled_consensus(engine, caller(), fake_api)
    await engine.store.flush()
    total = (await engine.usage(0, "model"))["total"]
    assert total["calls"] == 3
    assert total["errors"] == {"CANCELLED": 1}
    assert total["cost_usd"] > 0


async def test_a_first_answer_is_kept_when_its_refinement_is_cancelled(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="refined", hang_after=0, contains="refined", times=None)
    job = await engine.submit(ASK, caller(), background=True)
    await fake_api.wait_for(count=6)
    await engine.cancel(job)
    content = (await engine.status(job)).to_json()["content"]
    assert {entry["text"] for entry in content["models_status"]} == {
        "gpt-5 says: which?",
        "claude-sonnet-4-5-20250929 says: which?",
        "gemini-2.5-flash says: which?",
    }
    assert {(entry["status"], entry["phase"]) for entry in content["models_status"]} == {
        ("cancelled", "refined")
    }
    history = (await engine.status(job, full_history=True)).to_json()["content"]["history"]
    assert history[1]["metadata"]["unanswered"] == []


async def test_a_chat_that_is_cancelled_in_the_middle_keeps_the_text_that_arrived(
    engine: Engine, home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="aaabbbccc", hang_after=2)
    request = ChatRequest(prompt="hello", model="gpt-5", continuation_id="mine")
    job = await engine.submit(request, caller())
    await fake_api.wait_for(deltas=2)
    async with asyncio.timeout(20):
        while (await engine.status(job)).to_json()["content"]["partial"] != "aaabbb":
            await asyncio.sleep(0.02)
    await engine.cancel(job)
    other_engine = await open_engine(home)
    for reader in (engine, other_engine):
        content = (await reader.status(job, full_history=True)).content
        assert (content["status"], content["partial"], content["history"]) == ("cancelled", "aaabbb", [])
        assert content["models_status"][0]["status"] == "cancelled"
    await other_engine.close()
    archive = Archive(home)
    assert [items["job_id"] for items in (await archive.show("mine"))["unfinished"]] == [job]
    await archive.close()


async def test_answers_of_an_interrupted_job_that_is_given_up_are_kept(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="aaabbbccc", hang_after=1, model="gemini")
    first_engine = await open_engine(home)
    job = await first_engine.submit(ASK, caller(), background=True)
    await fake_api.wait_for(model="gemini", deltas=1)
    await wait_for_replies(first_engine, job, 2)
    await first_engine.close()
    engine = await open_engine(home)
    await engine.cancel(job)
    content = (await engine.status(job, full_history=True)).to_json()["content"]
    assert [entry["status"] for entry in content["models_status"]].count("completed") == 2
    assert content["history"][1]["metadata"]["answered"] == ["gpt-5", "sonnet"]
    await engine.close()


# ── rows of another release ──────────────────────────────────────────────────────────────────────────


def test_jobs_of_a_newer_release_can_be_read() -> None:
    reply = Reply(text="said", provider="openai", model="gpt-5", usage=Usage(input=3))
    document = json.loads(reply.dump())
    document |= {"mood": "good", "usage": {**document["usage"], "joules": 7}}
    assert Reply.load(json.dumps(document)) == reply
    task = Task(tool="chat", prompt="p", text="p", models=("gpt-5",))
    assert Task.load(json.dumps({**json.loads(task.dump()), "budget": 5})) == task
    caller: dict[str, Any] = {
        "client": "c",
        "agent": None,
        "cwd": "/",
        "roots": [],
        "chain": [],
        "team": "blue",
    }
    assert Origin.load(json.dumps(caller)).caller(Settings()).client == "c"


def test_jobs_of_an_older_release_can_be_read() -> None:
    assert Reply.load('{"text": "said"}').text == "said"
    assert Task.load('{"tool": "chat", "prompt": "p", "models": ["gpt-5"]}').text == "p"
    assert Origin.load("{}").caller(Settings()).agent is None


def test_a_stored_answer_is_shown_as_it_is_unless_counsel_requested_json() -> None:
    text = '{"answer": "Three"}'
    for is_json, shown in ((False, text), (True, "Three")):
        reply = Reply(text=text, provider="openai", model="gpt-5", is_json=is_json)
        assert Reply.load(reply.dump()).shown == shown


async def test_jobs_and_events_of_a_newer_releases_kinds_are_shown_and_left_alone(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1)
    first_engine = await open_engine(home)
    job = await first_engine.submit(ChatRequest(prompt="hello", model="gpt-5"), caller(), background=True)
    await fake_api.wait_for(deltas=1)
    await first_engine.close()
    engine = await open_engine(home)
    await change(engine, "UPDATE jobs SET tool = 'debate', status = 'processing'")
    event = "INSERT INTO events (job, seq, at, kind, slot, data) VALUES (?, 99, 1.0, 'applause', '7', '{}')"
    await change(engine, event, job)
    engine.register_caller(caller())
    await engine.runner.look_for_orphans()
    content = (await engine.status(job)).to_json()["content"]
    assert (content["status"], content["tool"]) == ("processing", "debate")
    assert not engine.runner.running
    await engine.close()

"""Stored conversations, read and deleted without a running engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.engine.history.archive import Archive
from counsel.errors import Conflict, NotFound
from counsel.requests import ChatRequest
from fake import FakeAPI

PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"


@pytest.fixture
async def archive(home: Path, engine: Engine) -> AsyncIterator[Archive]:
    assert engine
    archive_ = Archive(home)
    yield archive_
    await archive_.close()


async def chat(engine: Engine, caller: Caller, prompt: str, name: str) -> None:
    job = await engine.submit(ChatRequest(prompt=prompt, model="gpt-5", continuation_id=name), caller)
    await engine.wait(job)


async def names(archive: Archive, limit: int = 10, offset: int = 0) -> list[str]:
    return [row["id"] for row in (await archive.conversations(limit, offset))["conversations"]]


async def test_conversations_are_listed_newest_first_with_their_details(
    engine: Engine, archive: Archive, caller: Callable[..., Caller], project: Path
) -> None:
    for name in ("one", "two", "three"):
        await chat(engine, caller(), f"about {name}", name)
    assert await names(archive) == ["three", "two", "one"]
    assert await names(archive, 1, 1) == ["two"]
    row = (await archive.conversations(1))["conversations"][0]
    assert row["created_at"] <= row["updated_at"]
    assert row | {"created_at": "", "updated_at": ""} == {
        "id": "three",
        "title": "about three",
        "tool": "chat",
        "model": "gpt-5",
        "provider": "openai",
        "messages": 2,
        "project": str(project),
        "client": "test",
        "tag": None,
        "created_at": "",
        "updated_at": "",
        "expires_in_days": 30.0,
    }


async def test_a_conversation_is_shown_with_its_history_and_what_did_not_complete(
    engine: Engine, archive: Archive, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    await chat(engine, caller(), "high water?", "tides")
    fake_api.script(status=401)
    job = await engine.submit(ChatRequest(prompt="again", model="gpt-5", continuation_id="tides"), caller())
    with pytest.raises(Exception, match="refused the key"):
        await engine.wait(job)
    document = await archive.show("tides")
    assert [(message["role"], message["content"]) for message in document["history"]] == [
        ("user", "high water?"),
        ("assistant", "gpt-5 says: high water?"),
    ]
    assert [(entry["job_id"], entry["status"]) for entry in document["unfinished"]] == [(job, "failed")]
    assert [(entry["prompt"], entry["models"]) for entry in document["unfinished"]] == [("again", ["gpt-5"])]
    assert document["unfinished"][0]["error"]["code"] == "AUTHENTICATION_FAILED"
    assert document["running"] == []
    with pytest.raises(NotFound, match="There is no conversation other"):
        await archive.show("other")


async def test_the_question_of_a_running_job_is_shown_with_its_images_and_files(
    engine: Engine, archive: Archive, caller: Callable[..., Caller], fake_api: FakeAPI, project: Path
) -> None:
    (project / "notes.txt").write_text("high tide at noon")
    fake_api.script(gate="open")
    question = ChatRequest(
        prompt="when?", model="gpt-5", continuation_id="tides", files=("notes.txt",), images=(PIXEL,)
    )
    job = await engine.submit(question, caller())
    await fake_api.wait_for(contains="when?")
    (running,) = (await archive.show("tides"))["running"]
    fake_api.open_gate("open")
    await engine.wait(job)
    assert (running["job_id"], running["prompt"], running["files"]) == (job, "when?", ["notes.txt"])
    document = await archive.show("tides")
    assert (document["running"], document["unfinished"]) == ([], [])
    assert running["image_ids"] == document["history"][0]["image_ids"]


async def test_search_results_contain_the_line_of_the_first_word(
    engine: Engine, archive: Archive, caller: Callable[..., Caller]
) -> None:
    await chat(engine, caller(), "Tell me.\nWhen is high water?", "tides")
    await chat(engine, caller(), "something else", "other")
    (hit,) = (await archive.search("HIGH water", 10))["conversations"]
    assert (hit["id"], hit["found"]) == ("tides", "When is high water?")
    assert (await archive.search("nowhere", 10))["conversations"] == []


async def test_deleted_conversations_are_gone_and_others_stay(
    engine: Engine, archive: Archive, caller: Callable[..., Caller]
) -> None:
    for name in ("one", "two", "three"):
        await chat(engine, caller(), "hello", name)
    with pytest.raises(NotFound):
        await archive.delete("one", "missing")
    assert len(await names(archive)) == 3
    await archive.delete("one", "three")
    assert await names(archive) == ["two"]
    with pytest.raises(NotFound):
        await archive.show("one")


async def test_a_conversation_on_which_a_job_runs_is_not_deleted(
    engine: Engine, archive: Archive, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    await chat(engine, caller(), "hello", "mine")
    fake_api.script(gate="g", gate_after=1)
    job = await engine.submit(
        ChatRequest(prompt="more", model="gpt-5", continuation_id="mine"), caller(), background=True
    )
    await fake_api.wait_for(deltas=1)
    with pytest.raises(Conflict, match="A job is running in mine"):
        await archive.delete("mine")
    fake_api.open_gate("g")
    await engine.wait(job)
    await archive.delete("mine")
    assert await names(archive) == []

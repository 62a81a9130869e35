"""A model fails in the middle of its answer, and its text is discarded: every follower is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.consult.fold import Fold
from counsel.engine.engine import Engine, open_engine
from counsel.engine.jobs.events import Live
from counsel.errors import CounselError
from counsel.job_events import JobEvent, TextFold
from counsel.requests import ChatRequest
from counsel.settings import Settings
from counsel.types import Json, Text, Withdrawn
from fake import FakeAPI
from support.database import rows

ORDER = {"COUNSEL_AUTO_ORDER": "gpt-5,sonnet"}
SONNET = "claude-sonnet-4-5-20250929"
AUTO = ChatRequest(prompt="hello", model="auto")


def breaks_off(fake: FakeAPI, **options: Any) -> None:
    """gpt-5 sends two of three words, then that it is overloaded; Claude answers completely."""
    fake.script(text="void1 void2 void3", error="overloaded", error_after=2, model="gpt-5", **options)
    fake.script(text="good1 good2 good3", model="claude", gate="answer", gate_after=1)


def text_versions(events: list[JobEvent]) -> list[str]:
    """A follower's text after each event that changes it."""
    text, versions = "", []
    for event in events:
        if event.kind in {"text", "restarted"}:
            text = text[: event.data["offset"]] + event.data.get("text", "")
            versions.append(text)
    return versions


async def all_events(engine: Engine, job: str) -> list[JobEvent]:
    return [event async for event in engine.follow(job)]


async def events_until(engine: Engine, job: str, kind: str) -> list[JobEvent]:
    events = []
    async for event in engine.follow(job):
        events.append(event)
        if event.kind == kind:
            break
    return events


async def status_with(engine: Engine, job: str, text: str) -> Json:
    while True:
        content: Json = (await engine.status(job)).to_json()["content"]
        if content["partial"] == text:
            return content
        await asyncio.sleep(0.01)


async def test_a_follower_learns_whose_text_is_discarded_and_who_answers_now(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    breaks_off(fake_api, gate="fail", gate_after=1)
    job = await engine.submit(AUTO, caller(**ORDER))
    following = asyncio.create_task(all_events(engine, job))
    await events_until(engine, job, "text")
    fake_api.open_gate("fail")
    fake_api.open_gate("answer")
    events = await following
    (reports,) = [event for event in events if event.kind == "restarted"]
    assert reports.data | {"error": ""} == {
        "model": "gpt-5",
        "next": SONNET,
        "reason": "failed",
        "code": "PROVIDER_UNAVAILABLE",
        "error": "",
        "offset": 0,
        "phase": "answer",
    }
    kinds = [event.kind for event in events if event.kind != "text"]
    assert kinds.index("model_failed") < kinds.index("restarted")
    assert kinds[kinds.index("restarted") + 1] == "model_started"
    assert text_versions(events)[:3] == ["void1 ", "void1 void2 ", ""]
    assert text_versions(events)[-1] == "good1 good2 good3"


async def test_the_stored_answer_has_no_discarded_text(
    engine: Engine, home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    breaks_off(fake_api)
    fake_api.open_gate("answer")
    job = await engine.submit(AUTO, caller(**ORDER))
    result = (await engine.wait(job)).to_json()
    assert result["content"] == "good1 good2 good3"
    assert result["metadata"]["passed_over"][0]["model"] == "gpt-5"
    content = (await engine.status(job, full_history=True)).to_json()["content"]
    assert [message["content"] for message in content["history"]] == ["hello", "good1 good2 good3"]
    await engine.store.flush()
    texts = await rows(engine, "SELECT text FROM messages")
    texts += await rows(engine, "SELECT data FROM events WHERE kind = 'text'")
    assert not [row for row in texts if "void" in str(row)]


async def test_a_late_follower_or_another_process_gets_the_same(
    engine: Engine, home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    breaks_off(fake_api, gate="fail", gate_after=1)
    job = await engine.submit(AUTO, caller(**ORDER), background=True)
    other_engine = await open_engine(home)
    await events_until(other_engine, job, "text")
    elsewhere = asyncio.create_task(all_events(other_engine, job))
    await asyncio.sleep(0)
    fake_api.open_gate("fail")
    content = await status_with(other_engine, job, "good1 ")  # from the database
    assert "error" not in content["models_status"][0]  # the first one's
    assert (await engine.status(job)).to_json()["content"]["partial"] == "good1 "
    late = asyncio.create_task(all_events(engine, job))
    await asyncio.sleep(0)
    fake_api.open_gate("answer")
    events = await elsewhere
    assert text_versions(events)[0] == "void1 "
    assert "" in text_versions(events)
    assert text_versions(events)[-1] == "good1 good2 good3"
    latecomer = await late
    assert "void" not in "".join(str(event.data) for event in latecomer if event.kind == "text")
    assert text_versions(latecomer)[-1] == "good1 good2 good3"
    over = await all_events(other_engine, job)
    await other_engine.close()
    for reports in (events, latecomer, over):
        assert [event.data["next"] for event in reports if event.kind == "restarted"] == [SONNET]
    assert text_versions(over)[-1] == "good1 good2 good3"


async def test_without_text_nothing_is_discarded(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=429, retry_after=3600, model="gpt-5", times=None)
    fake_api.script(text="good", model="claude")
    job = await engine.submit(AUTO, caller(**ORDER))
    events = await all_events(engine, job)
    assert "restarted" not in [event.kind for event in events]
    assert "passed_over" in [event.data.get("kind_of") for event in events]


async def test_a_stream_that_breaks_without_another_model_keeps_the_partial_text(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="half of it", cut_after=1, model="gpt-5")
    job = await engine.submit(ChatRequest(prompt="hello", model="gpt-5"), caller())
    events = await all_events(engine, job)
    with pytest.raises(CounselError) as failure:
        await engine.wait(job)
    assert failure.value.partial == "half"
    assert [event.kind for event in events if event.kind in {"restarted", "failed"}] == ["failed"]


async def test_a_job_that_another_process_takes_over_begins_again_and_says_so(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="void1 void2", hang_after=1, times=1)
    fake_api.script(text="good1 good2 good3", times=1)
    request = ChatRequest(prompt="hello", model="gpt-5")
    dead = await open_engine(home)
    job = await dead.submit(request, caller(), background=True, key="k")
    reader = await open_engine(home)
    await events_until(reader, job, "text")  # it is in the database
    await reader.close()
    await dead.close()
    engine = await open_engine(home)
    assert await engine.submit(request, caller(), key="k") == job
    events = await all_events(engine, job)
    await engine.close()
    assert [event.data["reason"] for event in events if event.kind == "restarted"] == ["interrupted"]
    assert text_versions(events)[-1] == "good1 good2 good3"


def test_earlier_text_stays_when_only_the_end_is_discarded() -> None:
    live = Live("job_x", ("claude",))
    live.begin("0", "answer")
    live.text("0", "I look.")
    events = live.unwritten()
    live.text("0", "\n\nIt sa")
    events += live.unwritten()
    live.restart("0", "retried", "It broke.", model="claude", after="claude", keep=7)
    live.text("0", "\n\nIt says so.")
    fold = TextFold()
    for event in [*events, *live.unwritten()]:
        fold.add(event)
    assert live.slots["0"].text() == "I look.\n\nIt says so."
    assert fold.of("0").text() == "I look.\n\nIt says so."


def test_withdrawn_text_is_compared_with_the_repaired_text() -> None:
    job: Any = SimpleNamespace(tool="chat", caller=SimpleNamespace(settings=Settings()))
    route: Any = SimpleNamespace(name="gpt-5")
    live = Live("job_1", ("gpt-5",))
    fold = Fold(job, live, "0", "answer", route)
    for piece in ("kept", "\ud83d", "\ude00 and hal"):
        fold.take(Text(piece))
    assert live.slots["0"].text() == "kept\U0001f600 and hal"
    fold.take(Withdrawn("\ud83d\ude00 and hal", "it was cut"))
    assert live.slots["0"].text() == "kept"

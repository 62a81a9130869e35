"""Every follower of a job, however late, gets the whole answer and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.engine.jobs.events import Live
from counsel.errors import CounselError
from counsel.job_events import LAST_EVENTS, JobEvent
from counsel.requests import ChatRequest, ConsensusRequest
from fake import FakeAPI


async def events_of(engine: Engine, job: str) -> list[JobEvent]:
    return [event async for event in engine.follow(job)]


def texts(events: list[JobEvent]) -> dict[str, str]:
    reply: dict[str, str] = {}
    for event in events:
        if event.kind == "text":
            reply[event.slot] = reply.get(event.slot, "")[: event.data["offset"]] + event.data["text"]
    return reply


async def test_a_finished_answer_is_replayed_in_full(engine: Engine, caller: Callable[..., Caller]) -> None:
    job = await engine.submit(ChatRequest(prompt="quick", model="gpt-5"), caller())
    await engine.wait(job)
    events = await events_of(engine, job)
    assert texts(events) == {"0": "gpt-5 says: quick"}
    assert events[-1].kind == "done"
    assert events[-1].data == {"status": "completed"}


async def test_another_engine_replays_a_slow_answer_in_full(
    engine: Engine, home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(chunk_delay=0.15, times=None)
    job = await engine.submit(ChatRequest(prompt="slowly now", model="gpt-5"), caller(), background=True)
    other_engine = await open_engine(home)
    try:
        during = await events_of(other_engine, job)
        after = await events_of(other_engine, job)
    finally:
        await other_engine.close()
    for events in (during, after):
        assert texts(events) == {"0": "gpt-5 says: slowly now"}
        assert [event.kind for event in events if isinstance(event, LAST_EVENTS)] == ["done"]
    assert sum(event.kind == "text" for event in during) >= 1


async def test_each_model_of_a_finished_consensus_is_replayed(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    request = ConsensusRequest(prompt="which?", models=("gpt-5", "sonnet"))
    job = await engine.submit(request, caller())
    result = (await engine.wait(job)).to_json()
    events = await events_of(engine, job)
    refined_texts = [entry["refined_response"] for entry in result["phases"]["refined"]]
    assert [texts(events)[slot] for slot in ("0", "1")] == refined_texts
    assert {event.data["phase"] for event in events if event.kind == "text"} == {"refined"}
    assert events[-1].kind == "done"


async def test_a_failure_is_the_last_event(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=401, times=None)
    job = await engine.submit(ChatRequest(prompt="no", model="gpt-5"), caller())
    with pytest.raises(CounselError):
        await engine.wait(job)
    last = (await events_of(engine, job))[-1]
    assert (last.kind, last.data["error"]["code"]) == ("failed", "AUTHENTICATION_FAILED")


async def test_a_late_follower_gets_a_model_that_finished_while_others_answer() -> None:
    live = Live("job_x", ("a", "b"))
    for slot in ("0", "1"):
        live.begin(slot, "initial")
    live.text("0", "all of it")
    live.finish("0", "openai", 1, 3)
    live.text("1", "half")
    following = live.follow()
    live.done("completed")
    events = [event async for event in following]
    assert texts(events) == {"0": "all of it", "1": "half"}
    kinds = [event.kind for event in events if event.slot == "0"]
    assert kinds == ["model_started", "text", "model_finished"]
    assert events[-1].kind == "done"

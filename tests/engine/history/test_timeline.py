"""The timeline of a job, derived from its events: while it runs, after its end, after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.engine.history import timeline
from counsel.engine.store.records import JobDetail
from counsel.errors import Internal
from counsel.job_events import (
    JobDone,
    JobEvent,
    ModelFailed,
    ModelFinished,
    ModelStarted,
    Noticed,
    PhaseStarted,
    Restarted,
    Started,
    TextAdded,
    ToolRun,
    ToolUsed,
    Wait,
    Waiting,
)
from counsel.requests import ChatRequest, ConsensusRequest
from fake import FakeAPI


def job(finished: float | None = 100.0, models: tuple[str, ...] = ("a", "a")) -> JobDetail:
    status: Any = "processing" if finished is None else "failed"
    return JobDetail(
        "job", None, "consensus", "conv", status, True, 0.0, finished, "owner", 1, 0, False, "", models,
        len(models), 0, None, None, 3, (), None, None,
    )  # fmt: skip


def spans(events: list[JobEvent], finished: float | None = 100.0, **first: float) -> list[tuple[Any, ...]]:
    timeline_: Any = timeline.of(job(finished), events, {name[1:]: at for name, at in first.items()})
    return [(s["kind"], s["slot"], s["label"], s["start"], s["end"], s["ok"]) for s in timeline_["spans"]]


def test_a_consensus_with_a_wait_a_retry_a_tool_and_a_failure() -> None:
    events = [
        Waiting(1, 1.0, "", Wait("turn", "job_0", job_id="job_0")),
        Started(2, 5.0, "", "consensus", ("a", "a"), "job", "conv"),
        PhaseStarted(3, 5.5, "", "initial"),
        ModelStarted(4, 6.0, "0", "a", "initial"),
        ModelStarted(5, 6.0, "1", "a#2", "initial"),
        Waiting(6, 6.5, "1", Wait("slot", "a free slot")),
        Waiting(7, 8.0, "1", None),
        Noticed(8, 9.0, "0", "retry", "overloaded"),
        Waiting(9, 9.0, "0", Wait("retry", "the next attempt", at=11.0)),
        ToolUsed(10, 14.0, "0", "read", ToolRun("files", "read", 2000, True)),
        ModelFinished(11, 20.0, "0", "a", "initial", "openai", 14000, 5, 6000),
        ModelFailed(12, 21.0, "1", "a#2", "initial", Internal("broken")),
        PhaseStarted(13, 22.0, "", "refined"),
        JobDone(14, 30.0, "", "completed_with_errors"),
    ]
    assert spans(events) == [
        ("queue", "", "job_0", 0.0, 5.0, None),
        ("round", "", "initial", 5.5, 22.0, None),
        ("answer", "0", "initial", 6.0, 20.0, True),
        ("first_word", "0", "initial", 6.0, 12.0, True),
        ("answer", "1", "initial", 6.0, 21.0, False),
        ("wait", "1", "a free slot", 6.5, 8.0, None),
        ("retry", "0", "overloaded", 9.0, 11.0, False),
        ("tool", "0", "files: read", 12.0, 14.0, True),
        ("round", "", "refined", 22.0, 30.0, None),
    ]


def test_a_job_that_runs_has_spans_without_an_end() -> None:
    events = [
        Started(1, 1.0, "", "consensus", ("a", "a"), "job", "conv"),
        ModelStarted(2, 2.0, "0", "a", "initial"),
        ModelStarted(3, 2.0, "1", "a#2", "initial"),
        TextAdded(3, 4.0, "1", "w", 0, "initial"),
        ToolUsed(4, 5.0, "1", "Bash"),
    ]
    assert spans(events, None, _0=3.0) == [
        ("queue", "", "", 0.0, 1.0, None),
        ("answer", "0", "initial", 2.0, None, None),
        ("first_word", "0", "initial", 2.0, 3.0, True),
        ("answer", "1", "initial", 2.0, None, None),
        ("first_word", "1", "initial", 2.0, 4.0, True),
        ("tool", "1", "Bash", 5.0, 5.0, None),
    ]
    assert spans([], None) == [("queue", "", "", 0.0, None, None)]


def test_a_restart_ends_what_the_other_process_had_begun() -> None:
    events = [
        Started(1, 1.0, "", "consensus", ("a", "a"), "job", "conv"),
        PhaseStarted(2, 1.0, "", "initial"),
        ModelStarted(3, 2.0, "0", "a", "initial"),
        Restarted(4, 3.0, "0", "a", "initial", "retried", "stream lost", "a", 0),
        TextAdded(4, 4.0, "0", "w", 0, "initial"),
        Started(1_000_001, 9.0, "", "consensus", ("a", "a"), "job", "conv"),
        Restarted(1_000_002, 9.0, "0", "a", "initial", "interrupted", "ended", "a", 0),
        ModelStarted(1_000_003, 9.5, "0", "a", "initial"),
        ModelFinished(1_000_004, 12.0, "0", "a", "initial", "openai", 2500, 5, 500),
    ]
    assert spans(events, None) == [
        ("queue", "", "", 0.0, 1.0, None),
        ("round", "", "initial", 1.0, 4.0, None),
        ("answer", "0", "initial", 2.0, 4.0, None),
        ("first_word", "0", "initial", 2.0, 4.0, True),
        ("restart", "0", "stream lost", 3.0, 3.0, False),
        ("restart", "", "The job continued in another process.", 4.0, 9.0, None),
        ("answer", "0", "initial", 9.5, 12.0, True),
        ("first_word", "0", "initial", 9.5, 10.0, True),
    ]


# ── of real jobs ─────────────────────────────────────────────────────────────────────────────────────


async def kinds(engine: Engine, name: str) -> list[tuple[str, str, str]]:
    timeline_: Any = await engine.timeline(name)
    for span in timeline_["spans"]:
        assert span["start"] >= timeline_["started_at"] - 0.001
        assert span["end"] is None or span["start"] <= span["end"]
    return [(span["kind"], span["model"], span["label"]) for span in timeline_["spans"]]


async def test_a_consensus_from_its_first_word_to_its_end(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(vendor="anthropic", gate="g", gate_after=1)
    question = ConsensusRequest(prompt="q", models=("gpt-5", "sonnet"))
    job_id = await engine.submit(question, caller(), background=True)
    async with asyncio.timeout(60):
        await anext(
            event async for event in engine.events(job_id) if event.kind == "text" and event.slot == "1"
        )
    timeline_: Any = await engine.timeline(job_id)
    assert timeline_["ended_at"] is None
    (word,) = [span for span in timeline_["spans"] if (span["kind"], span["slot"]) == ("first_word", "1")]
    assert word["end"] is not None
    fake_api.open_gate("g")
    await engine.wait(job_id)
    timeline_ = await engine.timeline(job_id)
    assert timeline_["ended_at"] is not None
    assert all(span["end"] is not None for span in timeline_["spans"])
    parts = [(model, phase) for phase in ("initial", "refined") for model in ("gpt-5", "sonnet")]
    assert sorted(await kinds(engine, job_id)) == sorted(
        [
            ("queue", "", ""),
            ("round", "", "initial"),
            ("round", "", "refined"),
            *(("answer", *part) for part in parts),
            *(("first_word", *part) for part in parts),
        ]
    )


async def test_the_timeline_of_a_job_that_nobody_followed_shows_its_answers(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    job_id = await engine.submit(ChatRequest(prompt="q", model="gpt-5"), caller())
    await engine.wait(job_id)
    assert ("answer", "gpt-5", "answer") in await kinds(engine, job_id)
    both = await engine.submit(ConsensusRequest(prompt="q", models=("gpt-5", "sonnet")), caller())
    await engine.wait(both)
    events = await kinds(engine, both)
    assert {("answer", "gpt-5", "initial"), ("answer", "sonnet", "refined")} <= set(events)


async def test_another_process_and_the_next_one_show_the_same_timeline(
    home: Path, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1, times=1)
    first_engine = await open_engine(home)
    job_id = await first_engine.submit(ChatRequest(prompt="q", model="gpt-5"), caller(), background=True)
    async with asyncio.timeout(60):
        await anext(event async for event in first_engine.events(job_id) if event.kind == "text")
    first_engine.runner.running[job_id].since -= 1  # younger jobs write no events
    await first_engine.runner.periodic.tick()
    await first_engine.store.flush()
    engine = await open_engine(home)
    assert [kind for kind, _, _ in await kinds(engine, job_id)] == ["queue", "answer", "first_word"]
    await first_engine.close()
    engine.register_caller(caller())
    await engine.wait(job_id)
    assert [kind for kind, _, _ in await kinds(engine, job_id)] == [
        *("queue", "answer", "first_word"),
        *("restart", "answer", "first_word"),
    ]
    await engine.close()

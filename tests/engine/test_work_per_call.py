"""How much work a call causes, in tasks, timers, threads and commits, which do not depend on the machine."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import counsel
from counsel import strict_json
from counsel.engine.engine import Engine
from counsel.requests import ChatRequest, CompletionRequest, NewKey
from counsel.types import Turn
from engine.conftest import MakeCaller
from fake import FakeAPI


class Work:
    """Counts what counsel's own code requests from the event loop, without the fake vendor in the same process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        self.runs = False
        loop = asyncio.get_running_loop()
        for name in ("create_task", "call_at", "run_in_executor"):
            monkeypatch.setattr(loop, name, self._counted(name, getattr(loop, name)))

    def _counted(self, name: str, original: Any) -> Any:
        def counting(*values: Any, **kwargs: Any) -> Any:
            if self.runs and _is_ours(sys._getframe(1)):
                self.counts[name] += 1
            return original(*values, **kwargs)

        return counting


PACKAGE = f"{Path(counsel.__file__).parent}{os.sep}"  # the checkout's own folder may be called counsel, too


def _is_ours(frame: FrameType | None) -> bool:
    """Whether the first caller outside of asyncio is a module of counsel."""
    while frame and "asyncio" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(PACKAGE)


async def _answered(engine: Engine, request: ChatRequest, caller: Any, key: str) -> None:
    await engine.wait(await engine.submit(request, caller, key=NewKey(key)))


@pytest.mark.parametrize("model", ["gpt-5", "claude-sonnet-4-20250514", "gemini-2.5-flash"])
async def test_a_call_needs_few_tasks_and_timers_however_many_pieces_it_has(
    engine: Engine, caller: MakeCaller, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    sender, work = caller(), Work(monkeypatch)
    await _answered(engine, ChatRequest(prompt="warm", model=model), sender, "warm")
    matches = []
    for deltas in (2, 200):
        fake_api.script(text="word " * 200, deltas=deltas)
        work.counts.clear()
        work.runs = True
        await _answered(engine, ChatRequest(prompt="q", model=model), sender, f"key {deltas}")
        work.runs = False
        assert work.counts["create_task"] == 1, "the job"
        assert work.counts["run_in_executor"] == 0
        matches.append(work.counts["call_at"])
    # timers for delayed writes and, at times, the one for deadlines; on a slow machine both are checked more often
    assert max(matches) <= 6


async def test_a_call_needs_few_functions(
    engine: Engine, caller: MakeCaller, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls of counsel's own functions on the event loop's thread, including the store's: 532 when this was written."""
    for name in ("_quick_decode", "_quick_encode"):
        monkeypatch.setattr(strict_json, name, None)  # restored after this test
    strict_json.accelerate()
    asker, calls = caller(), 0
    await _answered(engine, ChatRequest(prompt="warm", model="gpt-5"), asker, "warm")
    fake_api.script(text="word " * 4, deltas=4)

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(PACKAGE)

    sys.setprofile(count)
    try:
        await _answered(engine, ChatRequest(prompt="q", model="gpt-5"), asker, "counted")
    finally:
        sys.setprofile(None)
    assert calls <= 585


async def test_a_key_that_is_new_is_not_looked_up(
    engine: Engine, caller: MakeCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []

    async def job_with_key(key: str) -> None:
        looked_up.append(key)

    monkeypatch.setattr(engine.store, "job_with_key", job_with_key)
    request, sender = ChatRequest(prompt="q", model="gpt-5"), caller()
    first = await engine.submit(request, sender, key=NewKey("a"))
    assert await engine.submit(request, sender, key="a") == first  # it runs: its key is known
    await engine.wait(first)
    assert looked_up == []
    await engine.submit(request, sender, key="b")
    assert looked_up == ["b"]


async def test_the_row_of_a_foreground_job_is_written_with_its_end(
    engine: Engine, caller: MakeCaller, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.engine.store.sqlite.jobs._ROW_DELAY", 3600)
    fake_api.script(gate="answer")
    job = await engine.submit(ChatRequest(prompt="q", model="gpt-5"), caller())
    write = engine.runner.running[job].written
    await fake_api.wait_for(count=1)
    fake_api.open_gate("answer")
    await engine.wait(job)
    assert write is not None
    assert not write.done()  # the end's write did its work
    record = await engine.store.job(job)
    assert record is not None
    assert record.status == "completed"


async def test_the_row_of_a_longer_job_is_on_disk_while_it_runs(
    engine: Engine, caller: MakeCaller, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process can continue it then."""
    monkeypatch.setattr("counsel.engine.store.sqlite.jobs._ROW_DELAY", 0.001)
    fake_api.script(gate="answer")
    job = await engine.submit(ChatRequest(prompt="q", model="gpt-5"), caller())
    await fake_api.wait_for(count=1)
    write = engine.runner.running[job].written
    assert write is not None
    assert (await write).is_new
    fake_api.open_gate("answer")
    await engine.wait(job)


async def test_the_status_of_a_job_that_has_just_begun(
    engine: Engine, caller: MakeCaller, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.engine.store.sqlite.jobs._ROW_DELAY", 3600)
    fake_api.script(gate="answer")
    job = await engine.submit(ChatRequest(prompt="q", model="gpt-5"), caller())
    assert (await engine.status(job)).status == "processing"
    fake_api.open_gate("answer")
    await engine.wait(job)


async def test_a_job_that_has_just_begun_writes_no_events(
    engine: Engine, caller: MakeCaller, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.engine.jobs.periodic._TICK_SECONDS", 3600)
    fake_api.script(gate="answer", gate_after=1)
    job = await engine.submit(ChatRequest(prompt="q", model="gpt-5"), caller())
    await fake_api.wait_for(count=1)
    running = engine.runner.running[job]
    await engine.runner.periodic.tick()
    states = [running.live.is_stored]
    monkeypatch.setattr(running, "since", time.monotonic() - 7200)
    await engine.runner.periodic.tick()
    states.append(running.live.is_stored)
    assert states == [False, True]
    fake_api.open_gate("answer")
    await engine.wait(job)


async def test_a_process_without_jobs_sleeps(
    engine: Engine, caller: MakeCaller, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks: list[int] = []

    async def tick() -> None:
        ticks.append(len(engine.runner.running))

    monkeypatch.setattr("counsel.engine.jobs.periodic._TICK_SECONDS", 0)
    monkeypatch.setattr(engine.runner.periodic, "tick", tick)
    fake_api.script(gate="answer")
    job = await engine.submit(ChatRequest(prompt="q", model="gpt-5"), caller())
    async with asyncio.timeout(60):
        while not ticks:
            await asyncio.sleep(0)
    fake_api.open_gate("answer")
    await engine.wait(job)
    async with asyncio.timeout(60):
        while engine.runner.began.is_set():
            await asyncio.sleep(0)
    tick_count = len(ticks)
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(ticks) == tick_count


@pytest.mark.parametrize("stored", [False, True])
async def test_what_is_not_kept_may_reach_the_disk_later(
    engine: Engine, caller: MakeCaller, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    """One `fdatasync` for several calls instead of one each."""
    pauses: list[tuple[float, ...]] = []
    database = engine.store.database  # type: ignore[attr-defined] # SQLite's
    quickly = database.quickly

    def recorded(work: Any, *to_disk: float) -> Any:
        pauses.append(to_disk)
        return quickly(work, *to_disk)

    monkeypatch.setattr(database, "quickly", recorded)
    request = CompletionRequest(model="gpt-5", turns=(Turn("user", "q"),), stored=stored)
    await engine.wait(await engine.submit(request, caller()))
    assert pauses == [() if stored else (0.5,)]

"""How much work a call is, counted: tasks, timers, threads and commits do not depend on the machine."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest

from counsel.engine.engine import Engine
from counsel.requests import ChatRequest, NewKey
from engine.conftest import MakeCaller
from fake import FakeAPI


class Work:
    """Counts what counsel's own code asks of the event loop, not what the fake vendor beside it does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        self.runs = False
        loop = asyncio.get_running_loop()
        for name in ("create_task", "call_at", "run_in_executor"):
            monkeypatch.setattr(loop, name, self._counted(name, getattr(loop, name)))

    def _counted(self, name: str, original: Any) -> Any:
        def counting(*given: Any, **named: Any) -> Any:
            if self.runs and _is_ours(sys._getframe(1)):
                self.counts[name] += 1
            return original(*given, **named)

        return counting


def _is_ours(frame: FrameType | None) -> bool:
    """Whether the first caller outside of asyncio is a module of counsel."""
    while frame and "asyncio" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None and "/counsel/" in frame.f_code.co_filename.replace("\\", "/")


async def _answered(engine: Engine, request: ChatRequest, caller: Any, key: str) -> None:
    await engine.wait(await engine.submit(request, caller, key=NewKey(key)))


@pytest.mark.parametrize("model", ["gpt-5", "claude-sonnet-4-20250514", "gemini-2.5-flash"])
async def test_a_call_needs_few_tasks_and_timers_however_many_pieces_it_has(
    engine: Engine, caller: MakeCaller, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    who, work = caller(), Work(monkeypatch)
    await _answered(engine, ChatRequest(prompt="warm", model=model), who, "warm")
    matches = []
    for deltas in (2, 200):
        fake_api.script(text="word " * 200, deltas=deltas)
        work.counts.clear()
        work.runs = True
        await _answered(engine, ChatRequest(prompt="q", model=model), who, f"key {deltas}")
        work.runs = False
        assert work.counts["create_task"] == 1, "the job"
        assert work.counts["run_in_executor"] == 0
        matches.append(work.counts["call_at"])
    # the answer's own deadline, and its rows' way to the disk; a slow machine has time for more looks at both
    assert max(matches) <= 12


async def test_a_key_that_is_new_is_not_looked_up(
    engine: Engine, caller: MakeCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []

    async def job_with_key(key: str) -> None:
        looked_up.append(key)

    monkeypatch.setattr(engine.store, "job_with_key", job_with_key)
    request, who = ChatRequest(prompt="q", model="gpt-5"), caller()
    first = await engine.submit(request, who, key=NewKey("a"))
    assert await engine.submit(request, who, key="a") == first  # it runs: its key is known
    await engine.wait(first)
    assert looked_up == []
    await engine.submit(request, who, key="b")
    assert looked_up == ["b"]

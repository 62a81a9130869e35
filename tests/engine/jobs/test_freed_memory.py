"""A finished call is freed at once, without the garbage collector, which the daemon rarely runs."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.engine.jobs.model import Job
from counsel.errors import CounselError
from counsel.models.wires import WIRES
from counsel.requests import ChatRequest
from counsel.types import Finished
from fake import FakeAPI

MODELS = ("gpt-5", "sonnet", "gemini-2.5-flash", "deepseek-chat")


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """The collector runs only when called, and keeps what it finds."""
    gc.disable()
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


async def outcome(engine: Engine, caller: Caller, model: str) -> str:
    job = await engine.submit(ChatRequest(prompt="hello", model=model), caller)
    try:
        await engine.wait(job)
    except CounselError as error:
        return error.code
    return "answered"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("script", "ends"), [({}, "answered"), ({"status": 400}, "UPSTREAM_ERROR")])
async def test_nothing_of_a_call_waits_for_the_collector(
    engine: Engine, caller: Any, fake_api: FakeAPI, model: str, script: dict[str, Any], ends: str
) -> None:
    fake_api.script(times=None, **script)
    assert await outcome(engine, caller(), model) == ends
    await asyncio.sleep(0)
    gc.collect()
    readers = tuple(type(wire.reader()) for wire in WIRES.values())
    assert not [matches for matches in gc.garbage if isinstance(matches, (Job, Finished, *readers))]


async def test_the_runner_forgets_a_job_that_has_ended_and_its_key(engine: Engine, caller: Any) -> None:
    job = await engine.submit(ChatRequest(prompt="hello", model="gpt-5"), caller(), key="key")
    assert engine.runner.keys == {"key": job}
    task = engine.runner.running[job].task
    await asyncio.wait({task})
    assert task.exception() is None
    await asyncio.sleep(0)  # its last callback
    assert (engine.runner.running, engine.runner.keys) == ({}, {})

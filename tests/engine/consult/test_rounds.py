"""When a round of a consensus ends, and what its outcome is called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.consult.consensus import rounds
from counsel.engine.engine import Engine
from counsel.requests import ConsensusRequest
from counsel.results.parts import labels
from fake import FakeAPI


async def run_consensus(engine: Engine, caller: Caller, *models: str, **fields: Any) -> Any:
    return (
        await engine.wait(
            await engine.submit(ConsensusRequest(prompt="which?", models=models, **fields), caller)
        )
    ).to_json()


async def test_two_that_answer_once_are_a_consensus(engine: Engine, caller: Callable[..., Caller]) -> None:
    result = await run_consensus(engine, caller(), "gpt-5", "sonnet", enable_cross_feedback=False)
    assert result["status"] == "consensus_complete"
    assert (
        result["successful_initial_responses"],
        result["refined_responses"],
        result["failed_responses"],
    ) == (2, 0, 0)


async def test_two_of_three_are_a_partial_consensus(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=401, vendor="anthropic", times=None)
    result = await run_consensus(
        engine, caller(), "gpt-5", "gemini-2.5-flash", "sonnet", enable_cross_feedback=False
    )
    assert result["status"] == "consensus_partial"


async def test_the_last_model_gets_its_grace_period_and_no_more(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "GRACE", 0.2)
    fake_api.script(hang_after=1, vendor="anthropic", times=None)
    result = await run_consensus(
        engine, caller(), "gpt-5", "gemini-2.5-flash", "sonnet", enable_cross_feedback=False
    )
    (failure,) = result["phases"]["failed"]
    assert (failure["model"], failure["code"], failure["phase"]) == ("sonnet", "TIMEOUT", "initial")
    assert failure["partial"]
    assert failure["usage"]["estimated"] is True


async def test_no_model_is_abandoned_while_two_are_not_done(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "GRACE", 0.0)
    fake_api.script(gate="slow", vendor="anthropic", gate_after=1)
    fake_api.script(gate="slow", vendor="gemini", gate_after=1)
    models = ("gpt-5", "gemini-2.5-flash", "sonnet")
    job = await engine.submit(
        ConsensusRequest(prompt="which?", models=models, enable_cross_feedback=False), caller()
    )
    await anext(event async for event in engine.follow(job) if event.kind == "model_finished")
    for _ in range(20):
        await asyncio.sleep(0)
    status = (await engine.status(job)).content
    assert [model["status"] for model in status["models_status"]] == ["completed", "processing", "processing"]
    fake_api.open_gate("slow")
    assert (await engine.wait(job)).to_json()["successful_initial_responses"] >= 2


async def test_one_model_alone_is_complete(engine: Engine, caller: Callable[..., Caller]) -> None:
    result = await run_consensus(engine, caller(), "gpt-5")
    assert result["status"] == "consensus_complete"
    assert result["refined_responses"] == 0
    assert "not a consensus" not in result["content"]


async def test_the_same_model_three_times_has_three_names() -> None:
    assert labels(("a", "b", "a", "a")) == ["a", "b", "a#2", "a#3"]

"""Several models: two rounds, failures are named, no model waits for another, and nothing is mixed up."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.consult.consensus import rounds
from counsel.engine.consult.routes import Route
from counsel.engine.engine import Engine
from counsel.errors import AuthenticationFailed, CounselError, UpstreamError
from counsel.mcp import render
from counsel.requests import ConsensusRequest
from counsel.types import Call
from fake import FakeAPI

MODELS = ("gpt-5", "sonnet", "gemini-2.5-flash")


async def run_consensus(
    engine: Engine, caller: Caller, prompt: str = "which?", models: Any = MODELS, **fields: Any
) -> Any:
    job = await engine.submit(ConsensusRequest(prompt=prompt, models=models, **fields), caller)
    return (await engine.wait(job)).to_json()


async def test_everyone_answers_then_refines_having_read_the_others(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    result = await run_consensus(engine, caller(), cross_feedback_prompt="Focus on cost.")
    assert result["status"] == "consensus_complete"
    assert (
        result["models_consulted"],
        result["successful_initial_responses"],
        result["refined_responses"],
    ) == (3, 3, 3)
    assert [entry["model"] for entry in result["phases"]["initial"]] == list(MODELS)
    assert result["continuation"]["id"].startswith("consensus_")
    assert result["continuation"]["messageCount"] == 2
    assert result["settings"] == {
        "enable_cross_feedback": True,
        "temperature": 0.2,
        "models_requested": list(MODELS),
    }
    assert len(fake_api.log.requests) == 6
    second_round = [str(request.body) for request in fake_api.log.requests[3:]]
    assert all("Focus on cost." in body for body in second_round)
    assert sum("gpt-5 says: which?" in body for body in second_round) == 3
    entry = result["phases"]["refined"][0]
    assert entry["initial_response"] == "gpt-5 says: which?"
    assert (
        entry["metadata"]["total_input_tokens"] > result["phases"]["initial"][0]["metadata"]["input_tokens"]
    )


async def test_one_round_without_feedback(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    result = await run_consensus(engine, caller(), enable_cross_feedback=False)
    assert result["phases"]["refined"] == []
    assert len(fake_api.log.requests) == 3


async def test_the_same_model_twice_has_two_names(engine: Engine, caller: Callable[..., Caller]) -> None:
    result = await run_consensus(engine, caller(), models=("gpt-5", "gpt-5"))
    assert [entry["model"] for entry in result["phases"]["initial"]] == ["gpt-5", "gpt-5#2"]


async def test_a_failed_model_is_named_first_and_affects_no_other(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=401, vendor="anthropic", times=None)
    job = await engine.submit(ConsensusRequest(prompt="q", models=MODELS), caller())
    result = (await engine.wait(job)).to_json()
    assert result["status"] == "consensus_partial"
    assert (
        result["successful_initial_responses"],
        result["failed_responses"],
        result["refined_responses"],
    ) == (2, 1, 2)
    assert result["content"].startswith("⚠ sonnet failed in the first round: [AUTHENTICATION_FAILED]")
    assert result["phases"]["failed"][0]["code"] == "AUTHENTICATION_FAILED"
    assert (await engine.status(job)).to_json()["content"]["status"] == "completed_with_errors"


async def test_an_unknown_model_is_a_failure_of_that_model_alone(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    result = await run_consensus(engine, caller(), models=("gpt-5", "sonnet", "nonsense-9"))
    assert result["phases"]["failed"][0]["code"] == "MODEL_NOT_FOUND"
    assert result["refined_responses"] == 2


async def test_a_bug_that_one_model_triggers_fails_only_that_model(
    engine: Engine, caller: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_output_limit(route: Route, call: Call) -> Call:
        if route.provider == "anthropic":
            raise ZeroDivisionError
        return call

    monkeypatch.setattr(rounds, "with_output_limit", with_output_limit)
    result = await run_consensus(engine, caller())
    (failure,) = result["phases"]["failed"]
    assert (failure["model"], failure["code"]) == ("sonnet", "INTERNAL")
    assert failure["error"] == "Asking sonnet failed because of an internal error (ZeroDivisionError)."
    assert result["refined_responses"] == 2


async def test_a_single_remaining_answer_is_not_a_consensus(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    result = await run_consensus(engine, caller(), models=("gpt-5", "nonsense-9"))
    assert result["status"] == "no_consensus"
    assert "not a consensus" in result["content"]


async def test_it_is_an_error_if_all_models_fail(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=401, times=None)
    job = await engine.submit(ConsensusRequest(prompt="q", models=MODELS), caller())
    with pytest.raises(UpstreamError) as excinfo:
        await engine.wait(job)
    assert len(excinfo.value.fields["failed"]) == 3
    assert (await engine.status(job)).to_json()["content"]["status"] == "failed"


async def test_the_failure_of_the_only_model_is_its_own_error(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=401, times=None)
    with pytest.raises(AuthenticationFailed) as excinfo:
        await run_consensus(engine, caller(), models=("sonnet",))
    assert excinfo.value.fields["provider"] == "anthropic"
    assert "failed" not in excinfo.value.fields


async def test_a_slow_model_is_left_behind_at_its_time_limit(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=1, vendor="anthropic", times=None)
    result = await run_consensus(engine, caller(COUNSEL_MODEL_LIMIT_SECONDS="1"))
    failure = result["phases"]["failed"][0]
    assert failure.pop("usage") == {
        "input_tokens": 1,
        "output_tokens": 4,
        "total_tokens": 5,
        "estimated": True,
    }
    assert failure.pop("cost_usd") > 0
    assert failure | {"error": "", "hint": ""} == {
        "model": "sonnet",
        "status": "failed",
        "phase": "initial",
        "code": "TIMEOUT",
        "provider": "anthropic",
        "partial": failure["partial"],
        "error": "",
        "hint": "",
    }
    await fake_api.wait_for(vendor="anthropic", state="disconnected")


async def test_a_model_that_cannot_refine_keeps_its_first_answer(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=400, vendor="anthropic", contains="refined answer", times=None)
    result = await run_consensus(engine, caller())
    assert result["status"] == "consensus_partial"
    assert result["refined_responses"] == 2
    assert result["phases"]["refined"][1]["status"] == "failed"
    assert "## sonnet" in result["content"]


async def test_status_shows_each_models_text_as_it_arrives(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(gate="g", gate_after=1, vendor="anthropic")
    job = await engine.submit(ConsensusRequest(prompt="q", models=MODELS), caller(), background=True)
    await fake_api.wait_for(vendor="anthropic", deltas=1)
    while True:
        status = (await engine.status(job)).to_json()["content"]
        states = {part["model"]: part for part in status["models_status"]}
        others_completed = states["gpt-5"]["status"] == states["gemini-2.5-flash"]["status"] == "completed"
        if others_completed and states["sonnet"].get("text") and status["progress"]["completed"] == 2:
            break
        await asyncio.sleep(0)
    assert status["progress"] == {"completed": 2, "total": 3, "percentage": 67}
    assert " | 2/3 | " in status["status_line"]
    assert states["gpt-5"]["text"] == "gpt-5 says: q"
    assert states["sonnet"]["status"] == "processing"
    fake_api.open_gate("g")
    await engine.wait(job)


async def test_cancel_stops_every_call(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(hang_after=0, times=None)
    job = await engine.submit(ConsensusRequest(prompt="q", models=MODELS), caller(), background=True)
    await fake_api.wait_for(count=3)
    await engine.cancel(job)
    await fake_api.wait_for(state="disconnected", count=3)
    status = (await engine.status(job)).to_json()["content"]
    assert (status["status"], status["progress"]["completed"]) == ("cancelled", 0)


async def test_a_model_that_could_not_be_asked_is_reported_while_the_others_answer(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(gate="g", times=None)
    request = ConsensusRequest(prompt="q", models=("gpt-5", "sonnet", "nonsense-9"))
    job = await engine.submit(request, caller(), background=True)
    await fake_api.wait_for(count=2)
    status = await engine.status(job)
    state = status.content["models_status"][2]
    assert (state["model"], state["status"], state["error"]["code"]) == (
        "nonsense-9",
        "failed",
        "MODEL_NOT_FOUND",
    )
    assert "✗ nonsense-9: MODEL_NOT_FOUND: Model not found" in render.text(status)
    report = [event async for event in until(engine.follow(job), "model_failed")]
    assert [event.kind for event in report if event.slot == "2"] == ["model_started", "model_failed"]
    fake_api.open_gate("g")
    await engine.wait(job)


async def until(events: Any, kind: str) -> AsyncIterator[Any]:
    async with aclosing(events):
        async for event in events:
            yield event
            if event.kind == kind:
                return


async def test_a_chat_continues_a_consensus(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    from counsel.requests import ChatRequest

    first = await run_consensus(engine, caller())
    job = await engine.submit(
        ChatRequest(prompt="and now?", model="gpt-5", continuation_id=first["continuation"]["id"]), caller()
    )
    result = (await engine.wait(job)).to_json()
    assert result["continuation"]["messageCount"] == 4
    assert "## sonnet" in str(fake_api.log.requests[-1].body["input"])


async def test_two_consensus_interleaved_never_mix(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    """Every answer contains its question's word; no request for one question may contain the other question's word."""
    words = [f"secret{n}" for n in range(6)]
    results = await asyncio.gather(
        *(run_consensus(engine, caller(f"window{n}"), word) for n, word in enumerate(words))
    )
    for word, result in zip(words, results, strict=True):
        foreign_words = [other for other in words if other != word]
        assert not [word for word in foreign_words if word in str(result)]
    for request in fake_api.log.requests:
        assert sum(word in str(request.body) for word in words) == 1


PAIR = ("gpt-5", "sonnet")


async def test_two_consensus_interleaved_at_every_step_never_mix(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    """All 70 orders in which the four answers of each can arrive."""
    for number, firsts in enumerate(itertools.combinations(range(8), 4)):
        words = [f"north{number}", f"south{number}"]
        for word, model, phase in itertools.product(words, PAIR, "12"):
            fake_api.script(contains=word, model=model, gate=f"{word}{model}{phase}")
        tasks = [
            asyncio.create_task(run_consensus(engine, caller(word), word, models=PAIR)) for word in words
        ]
        steps = {word: itertools.product("12", PAIR) for word in words}
        for step in range(8):
            word = words[step not in firsts]
            phase, model = next(steps[word])
            fake_api.open_gate(f"{word}{model}{phase}")
            await fake_api.wait_for(contains=word, model=model, state="finished", count=int(phase))
        results = await asyncio.gather(*tasks)
        for foreign_word, result in zip(reversed(words), results, strict=True):
            assert [entry["status"] for entry in result["phases"]["refined"]] == ["success"] * 2
            assert foreign_word not in str(result)
        for request in fake_api.log.requests:
            assert sum(word in str(request.body) for word in words) == 1
        fake_api.reset()


async def test_too_many_models_are_refused_before_anything_is_sent(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    with pytest.raises(CounselError, match="1 to 20"):
        await run_consensus(engine, caller(), models=("gpt-5",) * 21)
    assert fake_api.log.requests == []


async def test_the_default_temperature_is_converses_and_not_reported(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    result = await run_consensus(engine, caller(), models=("gpt-5", "gpt-4.1"), enable_cross_feedback=False)
    temperatures = {request.body["model"]: request.body.get("temperature") for request in fake_api.calls}
    assert temperatures == {"gpt-5": None, "gpt-4.1": 0.2}
    assert "settings_left_out" not in result["phases"]["initial"][0]["metadata"]

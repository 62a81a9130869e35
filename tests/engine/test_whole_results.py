"""Complete results, statuses and usage: every field with its value, so that a missing or wrong field is noticed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from counsel.caller import Caller
from counsel.engine.engine import Engine
from counsel.errors import CounselError
from counsel.requests import ChatRequest, ConsensusRequest
from fake import FakeAPI

MODELS = ("gpt-5", "sonnet", "gemini-2.5-flash")
_VOLATILE = (
    (re.compile(r"\b(conv|consensus|job)_[0-9a-f]{8}-[0-9a-f-]{27}\b"), r"\1_ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{3}Z)?"), "TIME"),
)


def without_varying_values(value: Any) -> Any:
    """The document without values that differ between runs: ids, times and durations."""
    if isinstance(value, dict):
        return {
            key: "DURATION" if key in {"elapsed_seconds", "response_time_ms", "response_time", "total_response_time"} else without_varying_values(item)
            for key, item in value.items()
        }  # fmt: skip
    if isinstance(value, list):
        return [without_varying_values(item) for item in value]
    if isinstance(value, str):
        for pattern, word in _VOLATILE:
            value = pattern.sub(word, value)
    return value


def counted(input_count: int, output_count: int) -> dict[str, int]:
    return {
        "input_tokens": input_count,
        "output_tokens": output_count,
        "total_tokens": input_count + output_count,
    }


async def chat(engine: Engine, caller: Caller, **fields: Any) -> tuple[str, Any]:
    job = await engine.submit(ChatRequest(**{"prompt": "hello", "model": "gpt-5", **fields}), caller)
    return job, (await engine.wait(job)).to_json()


CHAT = {
    "content": "Hi there.",
    "continuation": {"id": "conv_ID", "provider": "openai", "model": "gpt-5", "messageCount": 2},
    "metadata": {
        "model": "gpt-5",
        "provider": "openai",
        "usage": {**counted(1_000, 100), "reasoning_tokens": 40, "cache_read_input_tokens": 600},
        "cost_usd": pytest.approx(0.001575),
        "response_time_ms": "DURATION",
        "finish_reason": "stop",
    },
    "job_id": "job_ID",
}
USAGE = {"input": 1_000, "output": 100, "reasoning": 40, "cache_read": 600}


async def test_a_chat_says_all_about_its_answer(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="Hi there.", usage=USAGE)
    _, result = await chat(engine, caller())
    assert without_varying_values(result) == CHAT


async def test_a_finished_chats_status_holds_its_result_and_its_history(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="Hi there.", usage=USAGE)
    job, result = await chat(engine, caller())
    status = (await engine.status(job, full_history=True)).to_json()["content"]
    assert status["id"] == result["continuation"]["id"]
    assert status["job_id"] == job
    assert without_varying_values(status) == {
        "id": "conv_ID",
        "job_id": "job_ID",
        "status": "completed",
        "tool": "chat",
        "models": ["gpt-5"],
        "progress": {"completed": 1, "total": 1, "percentage": 100},
        "elapsed_seconds": "DURATION",
        "started_at": "TIME",
        "completed_at": "TIME",
        "title": "hello",
        "result": CHAT,
        "history": [
            {"role": "user", "content": "hello", "at": "TIME", "metadata": status["history"][0]["metadata"]},
            {"role": "assistant", "content": "Hi there.", "at": "TIME", "metadata": CHAT["metadata"]},
        ],
        "status_line": "✅ COMPLETED | CHAT | conv_ID | 1/1 | Started: TIME | gpt-5",
    }


async def test_the_newest_jobs_are_listed_first_without_their_results(
    engine: Engine, caller: Callable[..., Caller]
) -> None:
    first, _ = await chat(engine, caller(), prompt="one")
    second, _ = await chat(engine, caller(), prompt="two")
    rows = (await engine.recent()).to_json()["content"]["jobs"]
    assert [(entry["job_id"], entry["title"]) for entry in rows] == [(second, "two"), (first, "one")]
    assert not any("result" in entry or "status_line" in entry for entry in rows)
    assert [entry["job_id"] for entry in (await engine.recent(1)).to_json()["content"]["jobs"]] == [second]


async def test_a_failed_chats_status_holds_the_error_with_its_fields(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(status=401)
    job = await engine.submit(ChatRequest(prompt="hello", model="gpt-5"), caller())
    with pytest.raises(CounselError):
        await engine.wait(job)
    status = (await engine.status(job)).to_json()["content"]
    assert status["status"] == "failed"
    assert status["completed_at"] >= status["started_at"]
    assert (status["error"]["code"], status["error"]["provider"]) == ("AUTHENTICATION_FAILED", "openai")
    assert status["error"]["hint"].startswith("Check OPENAI_API_KEY")
    assert "result" not in status
    assert status["status_line"].startswith("❌ FAILED | CHAT | ")


async def test_a_consensus_counts_both_rounds_of_each_model(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    for model, input_count in (("gpt-5", 10), ("gemini", 20)):
        fake_api.script(model=model, text="First.", usage={"input": input_count, "output": 1}, latency=0.02)
        fake_api.script(
            model=model, text="Better.", usage={"input": 2 * input_count, "output": 2}, latency=0.02
        )
    fake_api.script(status=401, vendor="anthropic", times=None)
    job = await engine.submit(ConsensusRequest(prompt="which?", models=MODELS), caller())
    result = (await engine.wait(job)).to_json()
    first = {entry["model"]: entry["metadata"] for entry in result["phases"]["initial"]}
    for entry in result["phases"]["refined"]:
        took = entry["metadata"]
        rounds = (first[entry["model"]]["response_time"], took["response_time_ms"])
        assert took["total_response_time"] == sum(rounds) > max(rounds)
    result["phases"]["failed"][0].pop("error")
    result["phases"]["failed"][0].pop("hint")
    notice, _, answers = result.pop("content").partition("\n\n")
    assert notice.startswith("⚠ sonnet failed in the first round: [AUTHENTICATION_FAILED]")
    assert answers == "## gpt-5\n\nBetter.\n\n## gemini-2.5-flash\n\nBetter."
    assert without_varying_values(result) == {
        "status": "consensus_partial",
        "models_consulted": 3,
        "successful_initial_responses": 2,
        "failed_responses": 1,
        "refined_responses": 2,
        "phases": {
            "initial": [first_answer("gpt-5", "openai", 10), first_answer("gemini-2.5-flash", "google", 20)],
            "refined": [refined("gpt-5", "openai", 10), refined("gemini-2.5-flash", "google", 20)],
            "failed": [
                {
                    "code": "AUTHENTICATION_FAILED",
                    "provider": "anthropic",
                    "status": "failed",
                    "model": "sonnet",
                    "phase": "initial",
                }
            ],
        },
        "continuation": {"id": "consensus_ID", "messageCount": 2},
        "settings": {"enable_cross_feedback": True, "temperature": 0.2, "models_requested": list(MODELS)},
        "metadata": {"usage": counted(90, 6), "cost_usd": pytest.approx(0.000093), "cost_complete": True},
        "job_id": "job_ID",
        "refinement": {"mode": "always", "rounds": 2, "ended": "limit"},
    }


def first_answer(model: str, provider: str, input_count: int) -> dict[str, Any]:
    about = {"input_tokens": input_count, "output_tokens": 1, "response_time": "DURATION"}
    return {
        "model": model,
        "status": "success",
        "response": "First.",
        "metadata": {**one_call(model, provider, input_count, 1), **about},
    }


def refined(model: str, provider: str, input_count: int) -> dict[str, Any]:
    totals = {
        "total_response_time": "DURATION",
        "total_input_tokens": 3 * input_count,
        "total_output_tokens": 3,
    }
    return {
        "model": model,
        "status": "success",
        "initial_response": "First.",
        "refined_response": "Better.",
        "changed": None,
        "round": 2,
        "metadata": {**one_call(model, provider, 2 * input_count, 2), **totals},
    }


PRICES = {"openai": (1.25e-6, 10e-6), "google": (0.3e-6, 2.5e-6)}


def one_call(model: str, provider: str, input_count: int, output_count: int) -> dict[str, Any]:
    per_input, per_output = PRICES[provider]
    return {
        "model": model,
        "provider": provider,
        "usage": counted(input_count, output_count),
        "cost_usd": pytest.approx(input_count * per_input + output_count * per_output),
        "response_time_ms": "DURATION",
        "finish_reason": "stop",
    }


async def test_usage_adds_up_every_column_of_every_call(
    engine: Engine, caller: Callable[..., Caller], fake_api: FakeAPI
) -> None:
    fake_api.script(text="Hi.", usage=USAGE, times=2, latency=0.01)
    await chat(engine, caller())
    await chat(engine, caller())
    fake_api.script(status=401, vendor="anthropic")
    with pytest.raises(CounselError):
        await chat(engine, caller(), model="sonnet")
    await engine.store.flush()
    report: Any = await engine.usage(0, "provider")
    assert report["since"] == "1970-01-01T00:00:00.000Z"
    assert report["by"] == "provider"
    failure, success = report["groups"]
    times = success.pop("response_ms")
    assert 10 <= times["p50"] <= times["p95"] <= times["max"]
    assert success == {
        "provider": "openai",
        "calls": 2,
        "errors": {},
        "error_rate": 0.0,
        "input_tokens": 2_000,
        "output_tokens": 200,
        "reasoning_tokens": 80,
        "cache_read_tokens": 1_200,
        "cache_write_tokens": 0,
        "cost_usd": 0.00315,
        "calls_without_price": 0,
        "calls_without_usage": 0,
        "peak_concurrency": 1,
    }
    assert failure["response_ms"] == {"p50": None, "p95": None, "max": None}
    assert (failure["calls"], failure["errors"], failure["error_rate"]) == (
        1,
        {"AUTHENTICATION_FAILED": 1},
        1.0,
    )
    total = report["total"]
    assert (total["calls"], total["error_rate"], total["input_tokens"]) == (3, 0.3333, 2_000)
    assert (await engine.usage(32_503_680_000, "provider"))["groups"] == []

"""The part of a result that a client passes to its model has every text once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from counsel.errors import TimedOut, UpstreamError
from counsel.mcp import deduplicate, render, tool_result
from counsel.mcp.client_timeouts import of
from counsel.results import ChatResult, ConsensusResult, JobStatus
from counsel.types import Json

SIZE = 4_000
MODELS = ("gpt-5", "opus", "grok-4")


def answer(model: str, phase: str) -> str:
    return (f"{model} {phase} " * SIZE)[:SIZE]


def consensus() -> ConsensusResult:
    return ConsensusResult.from_json(document())


def document() -> Json:
    initial = [{"model": model, "status": "success", "response": answer(model, "first")} for model in MODELS]
    refined = [
        {
            "model": model,
            "status": "success",
            "initial_response": answer(model, "first"),
            "refined_response": answer(model, "second"),
        }
        for model in MODELS
    ]
    return {
        "status": "consensus_complete",
        "models_consulted": 3,
        "successful_initial_responses": 3,
        "failed_responses": 0,
        "refined_responses": 3,
        "content": "\n\n".join(answer(model, "second") for model in MODELS),
        "phases": {"initial": initial, "refined": refined, "failed": []},
        "continuation": {"id": "conv_1"},
        "job_id": "conv_1",
        "metadata": {"usage": {"input_tokens": 1, "output_tokens": 2}},
    }


def frame(client: str) -> tool_result.Frame:
    row = of(client)
    return tool_result.Frame(25_000, lambda: None, links=True, reads=row.reads, reads_failed=row.reads_failed)


def success(result: render.EngineResult, client: str) -> Json:
    return tool_result.success(result, frame(client), "conv_1", render.text)


def read(result: Json, client: str) -> str:
    """What this client passes to its model."""
    if of(client).reads == "structured":
        return json.dumps(result["structuredContent"])
    return "\n".join(part["text"] for part in result["content"])


@pytest.mark.parametrize("client", ["claude-code", "codex-mcp-client", "gemini-cli-mcp-client", "somebody"])
def test_a_consensus_of_three_times_4000_characters_is_read_once(client: str) -> None:
    result = success(consensus(), client)
    text = read(result, client)
    assert len(text) < 16_000
    for model in MODELS:
        assert answer(model, "second") in text
    assert "check_status" in text  # where the first answers are
    phases = result["structuredContent"]["phases"]
    assert [entry["model"] for entry in phases["initial"]] == list(MODELS)
    assert [entry["model"] for entry in phases["refined"]] == list(MODELS)
    if of(client).reads != "unknown":
        assert len(json.dumps(result)) < 16_500
    else:
        assert len(json.dumps(result)) < 30_000


def test_a_model_that_did_not_refine_keeps_its_first_answer() -> None:
    value = document()
    value["phases"]["refined"][0] = {
        "model": "gpt-5",
        "status": "failed",
        "initial_response": answer("gpt-5", "first"),
        "refined_response": None,
        "error": {"error": "no", "code": "TIMEOUT"},
    }
    for client in ("claude-code", "gemini-cli-mcp-client"):
        text = read(success(ConsensusResult.from_json(value), client), client)
        assert text.count(answer("gpt-5", "first")) == 1
        assert text.count(answer("opus", "second")) == 1
        assert answer("opus", "first") not in text


def test_of_a_vote_after_several_rounds_only_repeated_texts_are_left_out() -> None:
    value = document()
    phases = value["phases"]
    phases["refined"] = phases["refined"][:2]  # grok-4 did not refine its answer
    phases["rounds"] = [{"round": 2, "answers": [{"model": "opus", "changed": True, "response": "middle"}]}]
    value["vote"] = {
        "majority": "Tabs",
        "votes": [{"model": "opus", "choice": "Spaces", "reason": "Equal everywhere."}],
        "minority": [{"choice": "Spaces", "models": ["opus"], "reasons": ["Equal everywhere."]}],
    }
    expected = json.loads(json.dumps(value))
    del expected["content"]
    for entry in expected["phases"]["initial"]:
        del entry["response"]
    for entry in expected["phases"]["refined"]:
        del entry["initial_response"], entry["refined_response"]
    del expected["phases"]["rounds"][0]["answers"][0]["response"]
    del expected["vote"]["minority"][0]["reasons"]
    result = deduplicate.to_json(ConsensusResult.from_json(value))
    assert "conv_1" in result.pop("note")
    assert result == expected
    del value["vote"]
    result = deduplicate.to_json(ConsensusResult.from_json(value))
    assert [set(entry) for entry in result["phases"]["initial"]] == [
        {"model", "status"}, {"model", "status"}, {"model", "status", "response"}
    ]  # fmt: skip
    assert [set(entry) for entry in result["phases"]["refined"]] == [
        {"model", "status", "refined_response"}
    ] * 2


@pytest.mark.parametrize("client", ["claude-code", "codex-mcp-client", "gemini-cli-mcp-client"])
def test_an_answer_is_sent_once(client: str) -> None:
    arguments: dict[str, object] = {
        "content": answer("gpt-5", "only"),
        "continuation": {"id": "conv_1"},
        "metadata": {"model": "gpt-5"},
    }
    result = success(ChatResult.from_json(arguments), client)
    assert json.dumps(result).count(answer("gpt-5", "only")) == 1
    assert answer("gpt-5", "only") in read(result, client)
    assert result["structuredContent"]["continuation"] == {"id": "conv_1"}


@pytest.mark.parametrize("client", ["claude-code", "codex-mcp-client", "gemini-cli-mcp-client"])
def test_the_partial_text_of_a_failed_call_is_sent_once(client: str) -> None:
    error = TimedOut("It took too long.", hint="Ask again.", partial=answer("gpt-5", "partial"))
    result = tool_result.failure(error, frame(client), "conv_1")
    assert json.dumps(result).count(answer("gpt-5", "partial")) == 1
    reads = of(client).reads_failed
    part: Any = result["structuredContent"] if reads == "structured" else result["content"]
    assert answer("gpt-5", "partial") in json.dumps(part)
    assert result["structuredContent"]["code"] == "TIMEOUT"
    assert result["isError"]


@pytest.mark.parametrize("client", ["claude-code", "gemini-cli-mcp-client"])
def test_the_history_of_a_consensus_has_the_first_answers_and_the_last_ones_once(client: str) -> None:
    value = document()
    history = [{"role": "user", "content": "?"}, {"role": "assistant", "content": value["content"]}]
    status: dict[str, object] = {
        "content": {"id": "conv_1", "status": "completed", "result": value, "history": history}
    }
    result = success(JobStatus.from_json(status), client)
    for phase in ("first", "second"):
        assert json.dumps(result).count(answer("opus", phase)) == 1
        assert answer("opus", phase) in read(result, client)


def failed_row(model: str) -> Json:
    return {
        "model": model,
        "error": "It refused.",
        "code": "CONTENT_FILTERED",
        "partial": answer(model, "partial"),
    }


@pytest.mark.parametrize("client", ["claude-code", "codex-mcp-client", "gemini-cli-mcp-client"])
def test_what_the_members_of_a_failed_consensus_said_is_read_once(client: str) -> None:
    error = UpstreamError("All 3 models failed.", failed=[failed_row(model) for model in MODELS])
    result = tool_result.failure(error, frame(client), "conv_1")
    reads = of(client).reads_failed
    part: Any = result["structuredContent"] if reads == "structured" else result["content"]
    for model in MODELS:
        assert json.dumps(result).count(answer(model, "partial")) == 1
        assert answer(model, "partial") in json.dumps(part)


@pytest.mark.parametrize("client", ["claude-code", "gemini-cli-mcp-client"])
def test_what_a_failed_member_said_is_read_once_beside_the_answers(client: str) -> None:
    value = document()
    value["phases"]["failed"] = [{**failed_row("o3"), "phase": "initial", "status": "failed"}]
    state = {"slot": "3", "model": "o3", "status": "failed", "text": "", "partial": answer("o3", "partial")}
    status: Json = {
        "content": {"id": "conv_1", "status": "completed", "result": value, "models_status": [state]}
    }
    for result in (
        success(ConsensusResult.from_json(value), client),
        success(JobStatus.from_json(status), client),
    ):
        assert json.dumps(result).count(answer("o3", "partial")) == 1
        assert answer("o3", "partial") in read(result, client)


@pytest.mark.parametrize("client", ["claude-code", "gemini-cli-mcp-client"])
@pytest.mark.parametrize("members", [MODELS, MODELS[:1]])
def test_a_failed_jobs_partial_texts_are_read_once(client: str, members: tuple[str, ...]) -> None:
    states = [
        {
            "slot": str(slot),
            "model": model,
            "status": "failed",
            "text": "",
            "partial": answer(model, "partial"),
        }
        for slot, model in enumerate(members)
    ]
    several = len(members) > 1
    error = {"failed": [failed_row(model) for model in members]} if several else failed_row(members[0])
    status: Json = {
        "content": {
            "id": "conv_1",
            "status": "failed",
            "models_status": states,
            "error": {"error": "It failed.", "code": "UPSTREAM_ERROR", **error},
        }
    }
    result = success(JobStatus.from_json(status), client)
    for model in members:
        assert json.dumps(result).count(answer(model, "partial")) == 1
        assert answer(model, "partial") in read(result, client)


def test_texts_so_far_are_sent_once() -> None:
    models = [{"model": model, "status": "processing", "text": answer(model, "so far")} for model in MODELS]
    partial = "\n\n".join(entry["text"] for entry in models)
    status: dict[str, object] = {
        "content": {"id": "conv_1", "status": "processing", "models_status": models, "partial": partial}
    }
    result = success(JobStatus.from_json(status), "codex-mcp-client")
    assert json.dumps(result).count(answer("opus", "so far")) == 1

"""Real vendor responses (tests/models/vendor_responses) through the whole engine: answers, or failures that say why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from counsel.engine.engine import Engine
from counsel.errors import ContentFiltered, CounselError, EmptyAnswer
from counsel.requests import ChatRequest, ConsensusRequest
from counsel.text import is_blank
from counsel.types import Json
from fake import FakeAPI, marked
from models.vendor_responses import EXPECTED, SHAPES, Shape
from support.database import change, named_rows

ASKED = [shape for shape in SHAPES if shape.expected.get("code") != "" and "model" not in shape.expected]


async def ask(engine: Engine, caller: Any, model: str = "auto", **fields: Any) -> Json:
    job = await engine.submit(ChatRequest(prompt="Where?", model=model, **fields), caller)
    return (await engine.wait(job)).to_json()


async def ledger(engine: Engine) -> list[Mapping[str, Any]]:
    columns = "at, job, tool, provider, model, client, ms, code, input, output, reasoning, cache_read, cache_write, cost"
    return await named_rows(engine, columns, "FROM ledger ORDER BY at")


def play(fake: FakeAPI, name: str, **fields: Any) -> None:
    Shape(name, EXPECTED[name]).play(fake, **fields)


@pytest.mark.parametrize("shape", ASKED, ids=lambda shape: shape.name)
async def test_no_shape_fails_silently(engine: Engine, caller: Any, fake_api: FakeAPI, shape: Shape) -> None:
    shape.play(fake_api)
    call = ask(engine, caller(COUNSEL_MAX_ATTEMPTS="1"), shape.model)
    if "code" not in shape.expected:
        answer = await call
        assert answer["content"] == shape.expected["text"]
        return
    with pytest.raises(CounselError) as excinfo:
        await call
    error = excinfo.value
    assert error.code == shape.expected["code"]
    assert error.hint
    text = shape.expected.get("text", "")
    assert error.fields.get("partial", "") == ("" if is_blank(text) else text)
    vendor = shape.expected.get("vendor", {})
    report = {"reason": error.fields.get("vendor_reason"), "text": error.fields.get("vendor_text")}
    assert {name: report[name] for name in vendor if name in report} == {
        name: vendor[name] for name in vendor if name in report
    }
    (row,) = await ledger(engine)
    assert row["code"] == error.code
    if "usage" in shape.expected:
        assert [row["input"], row["output"], row["reasoning"]] == shape.expected["usage"]
    if "cost" in shape.expected:
        assert round(row["cost"], 9) == shape.expected["cost"] == round(error.fields["cost_usd"], 9)


# ── another model answers ──


async def test_auto_continues_and_the_job_costs_what_both_cost(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    play(fake_api, "anthropic-refusal_midway", vendor="anthropic")
    answer = await ask(engine, caller(COUNSEL_AUTO_ORDER="sonnet,gpt-5.1"))
    assert answer["content"] == "gpt-5.1 says: Where?"
    (passed_over,) = answer["metadata"]["passed_over"]
    assert (passed_over["model"], passed_over["code"]) == ("claude-sonnet-4-5-20250929", "CONTENT_FILTERED")
    refusal_row, answer_row = await ledger(engine)
    assert passed_over["cost_usd"] == refusal_row["cost"] == 0.000165
    assert answer["metadata"]["cost_usd"] == round(refusal_row["cost"] + answer_row["cost"], 10)
    assert answer["metadata"]["usage"]["output_tokens"] == 3


@pytest.mark.parametrize(
    ("shape", "model"), [("anthropic-blocked_output", "sonnet"), ("openai_chat-xai_block", "deepseek")]
)
async def test_a_block_reported_as_an_error_counts_as_one_and_another_model_answers(
    engine: Engine, caller: Any, fake_api: FakeAPI, shape: str, model: str
) -> None:
    play(fake_api, shape, model=model)
    answer = await ask(engine, caller(), f"{model}, gpt-5.1")
    assert answer["content"] == "gpt-5.1 says: Where?"
    (passed_over,) = answer["metadata"]["passed_over"]
    assert passed_over["code"] == "CONTENT_FILTERED"


async def test_a_refusal_names_the_model_that_the_vendor_recommends(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    play(fake_api, "anthropic-refusal")
    with pytest.raises(ContentFiltered) as excinfo:
        await ask(engine, caller(), "sonnet")
    assert excinfo.value.recommended_model == "claude-opus-4-8"
    assert "claude-opus-4-8" in str(excinfo.value)


async def test_a_consensus_lists_refused_and_empty_answers_as_failed(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    play(fake_api, "anthropic-refusal_midway", vendor="anthropic")
    play(fake_api, "gemini-empty", vendor="gemini")
    request = ConsensusRequest(prompt="Where?", models=("gpt-5.1", "sonnet", "gemini-2.5-flash", "deepseek"))
    result = (await engine.wait(await engine.submit(request, caller()))).to_json()
    assert result["status"] == "consensus_partial"
    assert {failure["model"]: failure["code"] for failure in result["phases"]["failed"]} == {
        "sonnet": "CONTENT_FILTERED",
        "gemini-2.5-flash": "EMPTY_ANSWER",
    }
    assert result["phases"]["failed"][0]["partial"] == "First you need "
    assert result["metadata"]["usage"]["input_tokens"] == sum(row["input"] for row in await ledger(engine))
    assert result["metadata"]["cost_usd"] == pytest.approx(
        sum(row["cost"] for row in await ledger(engine)), abs=1e-8
    )


async def test_a_consensus_without_answers_is_not_a_consensus(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    fake_api.script(text=" ", times=None)
    request = ConsensusRequest(prompt="Where?", models=("gpt-5.1", "sonnet"))
    with pytest.raises(CounselError) as excinfo:
        await engine.wait(await engine.submit(request, caller()))
    assert [failure["code"] for failure in excinfo.value.fields["failed"]] == ["EMPTY_ANSWER", "EMPTY_ANSWER"]


# ── what is stored ──


@pytest.mark.parametrize("model", ["gpt-5.1", "sonnet", "gemini-2.5-flash", "deepseek"])
async def test_an_empty_answer_of_an_older_release_is_never_sent_back(
    engine: Engine, caller: Any, fake_api: FakeAPI, model: str
) -> None:
    first = await ask(engine, caller(), model)
    conversation = first["continuation"]["id"]
    await change(engine, "UPDATE messages SET text = ' ' WHERE role = 'assistant'")
    await ask(engine, caller(), model, continuation_id=conversation)
    body = fake_api.last.body
    reply = [
        part if isinstance(part, str) else part.get("text", "-")
        for message in body.get("messages") or body.get("input") or body["contents"]
        for part in (message.get("parts") or _listed(message["content"]))
    ]
    assert len(reply) >= 3
    assert all(text.strip() for text in reply)


def _listed(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


async def test_a_failed_turn_leaves_the_conversation_as_it_was(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    first = await ask(engine, caller(), "sonnet")
    fake_api.script(text=" ")
    with pytest.raises(EmptyAnswer):
        await ask(engine, caller(), "sonnet", continuation_id=first["continuation"]["id"])
    await ask(engine, caller(), "sonnet", continuation_id=first["continuation"]["id"])
    assert [message["role"] for message in fake_api.last.body["messages"]] == ["user", "assistant", "user"]


async def test_a_job_shows_what_came_before_the_refusal(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    play(fake_api, "anthropic-refusal_midway")
    job = await engine.submit(ChatRequest(prompt="Where?", model="sonnet"), caller())
    with pytest.raises(ContentFiltered):
        await engine.wait(job)
    status = (await engine.status(job)).to_json()["content"]
    assert status["status"] == "failed"
    assert status["error"]["partial"] == "First you need "
    assert status["error"]["usage"] == {"input_tokens": 30, "output_tokens": 5, "total_tokens": 35}


# ── costs of failed attempts ──


async def test_an_attempt_that_broke_off_and_was_repeated_is_paid_for_twice(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    start_event = (
        '{"type":"message_start","message":{"model":"m","usage":{"input_tokens":1000,"output_tokens":1}}}'
    )
    fake_api.script(raw=f"event: message_start\ndata: {start_event}\n\n")
    answer = await ask(engine, caller(), "sonnet")
    assert len(fake_api.calls) == 2
    assert answer["metadata"]["usage"]["input_tokens"] == 1001
    assert (await ledger(engine))[-1]["input"] == 1001
    assert "estimated" not in answer["metadata"]["usage"]


async def test_unreported_usage_is_estimated_and_marked(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    first_event = '{"type":"response.created","response":{"id":"resp_1","object":"response.created"}}'
    fake_api.script(raw=f"data: {first_event}\n\n")
    job = await engine.submit(ChatRequest(prompt="word " * 4000, model="gpt-5.1"), caller())
    answer = (await engine.wait(job)).to_json()
    assert len(fake_api.calls) == 2
    assert answer["metadata"]["usage"]["estimated"] is True
    assert 8000 < answer["metadata"]["usage"]["input_tokens"] < 12_000


async def test_an_answer_without_usage_is_estimated_after_a_failed_attempt(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    start_event = '{"id":"1","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":1}}'
    fake_api.script(raw=f"data: {start_event}\n\n")
    play(fake_api, "openai_chat-no_usage")
    answer = await ask(engine, caller(), "deepseek")
    usage = answer["metadata"]["usage"]
    assert len(fake_api.calls) == 2
    assert usage["estimated"] is True
    assert usage["input_tokens"] > 1000
    assert usage["output_tokens"] == 3
    assert (await ledger(engine))[-1]["cost"] > 0


async def test_a_cancelled_stream_is_counted_by_estimate(
    engine: Engine, caller: Any, fake_api: FakeAPI
) -> None:
    fake_api.script(text="word " * 400, deltas=2, hang_after=1)
    job = await engine.submit(ChatRequest(prompt="word " * 400, model="gpt-5.1"), caller())
    await fake_api.wait_for(deltas=1)
    async for event in engine.follow(job):
        if event.kind == "text":
            break
    await engine.cancel(job)
    with pytest.raises(CounselError):
        await engine.wait(job)
    await engine.store.flush()  # after everything that was queued before
    (row,) = await ledger(engine)
    assert row["code"] == "CANCELLED"
    assert row["input"] > 400
    assert row["output"] == 250
    assert row["cost"] > 0


async def test_an_invisible_answer_is_an_empty_one(engine: Engine, caller: Any) -> None:
    job = ChatRequest(prompt=f"Where? {marked(text=chr(0x200B) + chr(0x2060))}", model="gpt-5.1")
    with pytest.raises(EmptyAnswer) as excinfo:
        await engine.wait(await engine.submit(job, caller()))
    assert excinfo.value.partial is None


async def test_white_space_before_a_break_is_not_a_partial_answer(engine: Engine, caller: Any) -> None:
    job = ChatRequest(prompt=f"Where? {marked(text='  Berlin', deltas=4, cut_after=1)}", model="gpt-5.1")
    with pytest.raises(CounselError) as excinfo:
        await engine.wait(await engine.submit(job, caller(COUNSEL_MAX_ATTEMPTS="1")))
    assert excinfo.value.code == "UPSTREAM_ERROR"
    assert excinfo.value.partial is None


async def test_a_model_that_a_consensus_leaves_behind_is_paid_for(
    engine: Engine, caller: Any, fake_api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counsel.engine.consult.consensus.rounds.GRACE", 0.5)
    fake_api.script(text="word " * 400, deltas=2, hang_after=1, vendor="anthropic", times=None)
    request = ConsensusRequest(prompt="Where?", models=("gpt-5.1", "sonnet"))
    result = (await engine.wait(await engine.submit(request, caller()))).to_json()
    (late,) = result["phases"]["failed"]
    assert (late["code"], late["usage"]["output_tokens"]) == ("TIMEOUT", 250)
    assert result["metadata"]["usage"]["estimated"] is True
    assert result["metadata"]["cost_usd"] > late["cost_usd"] > 0


async def test_a_refusal_is_not_a_title(engine: Engine, caller: Any, fake_api: FakeAPI) -> None:
    fake_api.script(text="I must not", finish="filtered", model="nano", times=None)
    sender = caller(ENABLE_RESPONSE_SUMMARIZATION="true", SUMMARIZATION_MODEL="gpt-5-nano")
    answer = await ask(engine, sender, "gpt-5.1")
    await engine.wait(answer["job_id"])
    await fake_api.wait_for(model="nano", state="finished")
    assert "I must not" not in str((await engine.status(answer["job_id"])).to_json())

"""How a client learns of settings that were changed or left out, and which requests are refused unsent."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from fake import FakeAPI
from support.v1 import V1, served

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
CLAUDE, GPT, GEMINI, DEEPSEEK = "claude-sonnet-4-6", "gpt-5", "gemini-2.5-pro", "deepseek-chat"
BUDGETED = "claude-sonnet-4-5-20250929"  # thinks with a budget; CLAUDE decides itself how much
USER: dict[str, Any] = {"role": "user", "content": "hello"}
TOOL: Any = {"name": "look", "input_schema": {"type": "object"}}
CALL: Any = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]}
SCHEMA: Any = {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as client:
        yield client


def _messages(model: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 9_000, "messages": [USER], **more}


def _ignored(reply: Any) -> Any:
    return reply["counsel"].get("ignored")


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_what_is_passed_on_is_not_reported_as_left_out(v1: V1, stream: bool) -> None:
    own = {"metadata": {"user_id": "u"}, "service_tier": "auto", "thinking": {"type": "between_tools"}}
    options = {"metadata": {"a": "b"}, "include": ["a.b"], "input": "x"}
    for path, body, expected in (
        (MESSAGES, _messages(CLAUDE, **own), None),
        (MESSAGES, _messages(GPT, **own), "metadata, service_tier, thinking"),
        (RESPONSES, {"model": GPT, **options}, None),
        (RESPONSES, {"model": CLAUDE, **options}, "metadata, include.a.b"),
    ):
        async with v1.session.post(path, json={**body, "stream": stream}) as answer:
            await answer.read()
            assert (answer.status, answer.headers.get("x-counsel-ignored")) == (200, expected), body


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_a_name_from_the_client_cannot_break_the_header(v1: V1, stream: bool) -> None:
    evil = {"type": "x\r\nset-cookie: a=\u20ac", "name": "bash"}
    body = _messages(GPT, tools=[TOOL, evil], stream=stream)
    async with v1.session.post(MESSAGES, json=body) as answer:
        assert "hello" in await answer.text()
        assert answer.headers["x-counsel-ignored"] == "tools.x??set-cookie: a=?"
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("model", "thinking", "expected"),
    [
        (GPT, 2_000, "low"),
        (GPT, 10_000, "medium"),
        (GPT, 31_999, "high"),
        (GPT, 0, "minimal"),
        (GEMINI, 0, "128"),
        (GEMINI, 10_000, None),
        (DEEPSEEK, 2_000, "left out"),
        (DEEPSEEK, 0, None),
    ],
)
async def test_thinking_that_is_counted_in_tokens_becomes_what_the_vendor_has(
    v1: V1, fake_api: FakeAPI, model: str, thinking: int, expected: str | None
) -> None:
    about = {"type": "enabled", "budget_tokens": thinking} if thinking else {"type": "disabled"}
    _, reply = await v1.post(MESSAGES, _messages(model, max_tokens=40_000, thinking=about))
    body = fake_api.calls[0].body
    if expected == "left out":
        assert _ignored(reply) == ["thinking"]
    elif expected is None:
        assert not {"ignored", "adapted"} & set(reply["counsel"])
    else:
        assert [(row["setting"], row["sent"]) for row in reply["counsel"]["adapted"]] == [
            ("thinking", expected)
        ]
    if model == GPT:
        assert body["reasoning"]["effort"] == expected
    if model == GEMINI:
        assert body["generationConfig"]["thinkingConfig"]["thinkingBudget"] == int(expected or thinking)


@pytest.mark.parametrize(
    ("model", "expected"),
    [(GPT, "minimal"), (GEMINI, "128"), (DEEPSEEK, None), (BUDGETED, None), (CLAUDE, None)],
)
async def test_no_reasoning_is_none_where_the_vendor_can_and_else_the_lowest(
    v1: V1, fake_api: FakeAPI, model: str, expected: str | None
) -> None:
    _, chat = await v1.post(CHAT, {"model": model, "messages": [USER], "reasoning_effort": "none"})
    for reply in [chat] if model == GPT else [
        chat, (await v1.post(RESPONSES, {"model": model, "input": "x", "reasoning": {"effort": "none"}}))[1]
    ]:  # fmt: skip
        adaptations = [(row["setting"], row["sent"]) for row in reply["counsel"].get("adapted", [])]
        assert adaptations == ([("thinking", expected)] if expected else [])
        assert _ignored(reply) is None
    for call in fake_api.calls:
        assert not {"thinking", "output_config", "reasoning_effort"} & set(call.body)


@pytest.mark.parametrize("model", [BUDGETED, CLAUDE])
async def test_thinking_is_left_out_where_anthropic_refuses_its_budget(
    v1: V1, fake_api: FakeAPI, model: str
) -> None:
    look = {"type": "function", "function": {"name": "look"}}
    ask: dict[str, Any] = {"model": model, "tools": [look], "reasoning_effort": "high", "temperature": 1.5}
    call = {"id": "t", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    loop = [
        USER,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t", "content": "x"},
    ]
    after_answer = [*loop, {"role": "assistant", "content": "I see."}, USER]
    fake_api.script(thinking="Hm.", tool_calls=[{"name": "look", "arguments": {}}], model=model)
    _, first = await v1.post(CHAT, {**ask, "messages": [USER]})
    message = first["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "x"}
    for messages, more, thinks in (
        ([USER, message, result], {}, True),
        (after_answer, {}, True),
        ([USER], {"tool_choice": "none"}, True),
        (loop, {}, model == CLAUDE),
        ([*loop, USER], {}, model == CLAUDE),
        ([USER], {"tool_choice": "required"}, model == CLAUDE),
        ([USER], {"tool_choice": {"type": "function", "function": {"name": "look"}}}, model == CLAUDE),
    ):
        status, reply = await v1.post(CHAT, {**ask, "messages": messages, **more})
        body = fake_api.calls[-1].body
        assert (status, "thinking" in body) == (200, thinks), messages
        assert _ignored(reply) == (["temperature"] if thinks else ["reasoning_effort"])
        # a setting is left out or changed, never both
        adaptations = [row["setting"] for row in reply["counsel"].get("adapted", [])]
        assert (body.get("temperature"), adaptations) == ((None, []) if thinks else (1.0, ["temperature"]))


async def test_claude_continues_what_another_model_began_without_thinking(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(thinking="Hm.", tool_calls=[{"name": "look", "arguments": {}}], times=None)
    for model, left_out in ((GPT, ["thinking"]), (BUDGETED, None)):
        ask = _messages(model, tools=[TOOL], thinking={"type": "enabled", "budget_tokens": 2_000})
        _, first = await v1.post(MESSAGES, ask)
        result = {"type": "tool_result", "tool_use_id": first["content"][-1]["id"], "content": "x"}
        turns = [
            USER,
            {"role": "assistant", "content": first["content"]},
            {"role": "user", "content": [result]},
        ]
        _, reply = await v1.post(MESSAGES, {**ask, "model": BUDGETED, "messages": turns})
        assert ("thinking" in fake_api.calls[-1].body, _ignored(reply)) == (left_out is None, left_out)


async def test_a_limit_that_is_lowered_is_reported(v1: V1, fake_api: FakeAPI) -> None:
    for limit, expected in ((1_000_000, [{"setting": "max_tokens", "sent": "64000"}]), (64_000, None)):
        _, reply = await v1.post(CHAT, {"model": BUDGETED, "messages": [USER], "max_tokens": limit})
        assert fake_api.calls[-1].body["max_tokens"] == 64_000
        assert reply["counsel"].get("adapted") == expected


async def test_stop_sequences_that_a_vendor_refuses_end_the_answer_all_the_same(
    v1: V1, fake_api: FakeAPI
) -> None:
    fake_api.script(text="one\n\ntwo six", times=None)
    body: dict[str, Any] = {"messages": [USER]}
    for stream in (False, True):
        async with v1.session.post(
            CHAT, json={**body, "model": CLAUDE, "stop": ["x", "\n\n"], "stream": stream}
        ) as answer:
            text = await answer.text()
            assert ("one" in text, "two" in text, '"finish_reason":"stop"' in text) == (True, False, True)
        assert fake_api.calls[-1].body["stop_sequences"] == ["x"]
    many = ["a", "b", "c", "d", "f", "six"]
    for model, count in ((GEMINI, 5), (DEEPSEEK, 4), (GPT, 0)):
        _, reply = await v1.post(MESSAGES, _messages(model, stop_sequences=many))
        assert (reply["content"][0]["text"], reply["stop_sequence"]) == ("one\n\ntwo ", "six")
        body = fake_api.calls[-1].body
        stops = body.get("stop") or body.get("generationConfig", {}).get("stopSequences") or []
        assert stops == many[:count]


async def test_json_that_a_vendor_does_not_promise_is_reported(v1: V1) -> None:
    ask: dict[str, Any] = {"messages": [USER]}
    any_json = {"type": "json_object"}
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}
    tools = [{"type": "function", "function": {"name": "look"}}]
    for model, change, expected in (
        (CLAUDE, {"response_format": any_json}, ["response_format"]),
        (GEMINI, {"response_format": any_json}, None),
        (GEMINI, {"response_format": schema, "tools": tools}, ["response_format"]),
        (CLAUDE, {"response_format": schema}, None),
    ):
        _, reply = await v1.post(CHAT, {**ask, "model": model, **change})
        assert _ignored(reply) == expected, (model, change)
    _, reply = await v1.post(CHAT, {**ask, "model": DEEPSEEK, "response_format": schema})
    assert reply["counsel"]["adapted"] == [{"setting": "response_format", "sent": "json_object"}]


async def test_an_answer_of_a_few_tokens_is_raised_to_openais_least(v1: V1, fake_api: FakeAPI) -> None:
    """Its Chat Completions take 1, as Anthropic does; counsel asks its Responses, which do not."""
    for limit in (1, 16):
        for path, body in (
            (CHAT, {"model": GPT, "messages": [USER], "max_tokens": limit}),
            (MESSAGES, _messages(GPT, max_tokens=limit)),
        ):
            status, reply = await v1.post(path, body)
            assert (status, fake_api.calls[-1].body["max_output_tokens"]) == (200, 16)
            expected = [{"setting": "max_tokens", "sent": "16"}] if limit < 16 else None
            assert reply["counsel"].get("adapted") == expected
    _, reply = await v1.post(MESSAGES, _messages(CLAUDE, max_tokens=1))
    assert fake_api.calls[-1].body["max_tokens"] == 1
    await v1.post(RESPONSES, {"model": GPT, "input": "x", "max_output_tokens": 1})
    assert fake_api.calls[-1].body["max_output_tokens"] == 1, "the client's own vendor decides"


async def test_small_things_that_are_left_out_are_named(v1: V1) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://a.example/b.png", "detail": "low"}}
    _, reply = await v1.post(
        CHAT, {"model": GPT, "messages": [{"role": "user", "content": [image], "name": "Tom"}]}
    )
    assert _ignored(reply) == ["messages.name", "image_url.detail"]
    answer: dict[str, Any] = {
        "role": "assistant",
        "content": "y",
        "refusal": None,
        "annotations": [],
        "reasoning_content": "Hm.",
    }
    with_cache = {**USER, "cache_control": {"type": "ephemeral"}}
    _, reply = await v1.post(CHAT, {"model": GPT, "messages": [with_cache, answer, USER]})
    assert _ignored(reply) == ["messages.cache_control"]
    tool = {**TOOL, "input_examples": [{}], "cache_control": {"type": "ephemeral"}}
    config = {"effort": "low", "task_budget": {"type": "tokens", "total": 9}}
    _, reply = await v1.post(MESSAGES, _messages(GPT, tools=[tool], output_config=config))
    assert _ignored(reply) == ["tools.input_examples", "output_config.task_budget"]
    reasoning = {"effort": "low", "summary": "auto", "mode": "pro"}
    _, reply = await v1.post(RESPONSES, {"model": CLAUDE, "input": "x", "reasoning": reasoning})
    assert _ignored(reply) == ["reasoning.mode"]


async def test_a_failed_tools_result_says_so_to_every_vendor(v1: V1, fake_api: FakeAPI) -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "no such file", "is_error": True}
    messages = [USER, CALL, {"role": "user", "content": [result]}]
    for model, text in (
        (GPT, "'output': 'Error: no such file'"),
        (DEEPSEEK, "'content': 'Error: no such file'"),
        (GEMINI, "{'error': 'no such file'}"),
        (CLAUDE, "'is_error': True"),
    ):
        await v1.post(MESSAGES, _messages(model, tools=[TOOL], messages=messages))
        assert text in str(fake_api.calls[-1].body)


async def test_instructions_between_messages_stay_instructions(v1: V1, fake_api: FakeAPI) -> None:
    later = {"role": "system", "content": "Be short."}
    messages = [USER, {"role": "assistant", "content": "yes"}, later, USER]
    for model in (GPT, CLAUDE):
        await v1.post(MESSAGES, _messages(model, system="Be kind.", messages=messages))
    for_openai, own = (call.body for call in fake_api.calls)
    assert for_openai["instructions"] == "Be kind.\n\nBe short."
    assert "Be short." not in str(for_openai["input"])
    assert own["messages"] == messages
    status, _ = await v1.post(MESSAGES, _messages(GPT, messages=[later]))
    assert status == 400


async def test_what_only_anthropic_knows_reaches_it(v1: V1, fake_api: FakeAPI) -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "browser_state", "tabs": []}]}
    body = _messages(CLAUDE, tools=[TOOL], messages=[USER, CALL, {"role": "user", "content": [result]}])
    assert (await v1.post(MESSAGES, body))[0] == 200
    status, reply = await v1.post(MESSAGES, {**body, "model": GPT})
    assert (status, "browser_state" in reply["error"]["message"]) == (400, True)
    assert len(fake_api.calls) == 1


async def test_requests_that_no_vendor_could_answer_are_not_sent(v1: V1, fake_api: FakeAPI) -> None:
    for model in (CLAUDE, GEMINI, DEEPSEEK):
        empty: tuple[Any, ...] = ("", " ", [])
        for content in empty:
            ask = {"model": model, "messages": [{"role": "user", "content": content}]}
            status, reply = await v1.post(CHAT, ask)
            assert (status, "empty" in reply["error"]["message"]) == (400, True), ask
    long = "word " * 2_100_000
    for path, body, code in (
        (CHAT, {"model": GPT, "messages": [{**USER, "content": long}]}, "context_length_exceeded"),
        (RESPONSES, {"model": GPT, "input": long}, "context_length_exceeded"),
        (MESSAGES, _messages(CLAUDE, messages=[{**USER, "content": long}]), None),
    ):
        async with v1.session.post(path, data=io.BytesIO(json.dumps(body).encode())) as answer:
            reply = await answer.json()
        assert (answer.status, reply["error"].get("code")) == (400, code)
        assert "tokens exceed" in reply["error"]["message"]
    wrong: list[tuple[str, dict[str, Any]]] = [
        (CHAT, {"model": GPT, "messages": [USER], "seed": 0}),
        (CHAT, {"model": GPT, "messages": [USER], "web_search_options": {}}),
        (RESPONSES, {"model": CLAUDE, "input": "x", "tool_choice": "required"}),
        (RESPONSES, {"model": GPT, "input": "x", "include": "x"}),
        (RESPONSES, {"model": GPT, "input": "x", "truncation": 5}),
        (RESPONSES, {"model": GPT, "input": "x", "metadata": "x"}),
        (MESSAGES, _messages(GPT, tool_choice={"type": "any"})),
        (MESSAGES, _messages(GPT, tools=[TOOL], tool_choice={"type": "tool", "name": "x"})),
    ]
    for path, body in wrong:
        status, reply = await v1.post(path, body)
        assert (status, reply["error"]["type"]) == (400, "invalid_request_error"), body
    assert fake_api.calls == []


async def test_a_request_that_the_vendor_refuses_is_a_bad_request(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(error="bad_request", times=None)
    with pytest.raises(anthropic.BadRequestError):
        await v1.anthropic.messages.create(model=GPT, max_tokens=9, messages=[USER])
    with pytest.raises(openai.BadRequestError):
        await v1.openai.responses.create(model=CLAUDE, input="hello", stream=True)


async def test_a_model_is_found_by_every_name_of_it(v1: V1) -> None:
    async with v1.session.put("/api/aliases/quick", json={"model": "gpt-5-nano"}) as answer:
        assert answer.status == 200
    for name in ("opus", "openai/gpt-5", "auto", "quick"):
        assert (await v1.openai.models.retrieve(name)).id == name
    owners = {model.id: model.owned_by async for model in v1.openai.models.list()}
    assert (owners["quick"], owners["gpt-5-nano"], owners["auto"]) == ("alias", "openai", "counsel")
    with pytest.raises(openai.NotFoundError):
        await v1.openai.models.retrieve("gpt-55")


async def test_chains_and_panels_are_found(tmp_path: Path, fake_api: FakeAPI) -> None:
    (tmp_path / "counsel").mkdir()
    (tmp_path / "counsel" / "config.toml").write_text('[panels]\npair = ["opus", "gpt-5"]\n')
    pair = "consensus:@pair"
    async with served(tmp_path, fake_api) as v1:
        assert pair in [model.id async for model in v1.openai.models.list()]
        for name in ("gpt-5, opus", "consensus", "consensus:gpt-5,openai/gpt-5-mini", pair, f"{pair},o3"):
            assert (await v1.openai.models.retrieve(name)).owned_by == "counsel"
        for name in ("gpt-5,", "gpt-5,gpt-55", "consensus:gpt-55", "consensus:@none", "consensusx"):
            with pytest.raises(openai.NotFoundError):
                await v1.openai.models.retrieve(name)

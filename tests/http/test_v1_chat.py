"""`/v1/chat/completions` and `/v1/models`, as OpenAI's own SDK sees them."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import openai
import pytest

from counsel.http.v1.calls import Calls
from fake import FakeAPI
from support import v1_views
from support.api_client import TOKEN
from support.v1 import V1, served
from support.v1_views import SHAPES as SHARED

ASK: dict[str, Any] = {"model": "gpt-5", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as client:
        yield client


async def test_a_plain_answer(v1: V1, fake_api: FakeAPI) -> None:
    answer = await v1.openai.chat.completions.create(**ASK)
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("gpt-5 says: hello", "stop")
    assert answer.usage
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (1, 3)
    body = fake_api.calls[0].body
    assert {name: body.get(name) for name in ("temperature", "reasoning", "text")} == dict.fromkeys(
        ("temperature", "reasoning", "text")
    ), "nothing is added that the client did not ask for"


async def test_a_streamed_answer_has_usage_only_if_it_is_wanted(v1: V1) -> None:
    stream = await v1.openai.chat.completions.create(**ASK, stream=True)
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "gpt-5 says: hello"
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "stop"
    assert all(chunk.usage is None for chunk in chunks)
    options: Any = {"include_usage": True}
    stream = await v1.openai.chat.completions.create(**ASK, stream=True, stream_options=options)
    last = [chunk async for chunk in stream][-1]
    assert (last.choices, last.usage and last.usage.total_tokens) == ([], 4)


# deepseek-chat speaks Chat Completions itself: for the same answer the SDK must see the same from both
SHAPES: list[dict[str, Any]] = [*SHARED, {"finish": "filtered", "text": "No"}]
TOOLS: Any = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


@pytest.mark.parametrize("number", range(len(SHAPES)))
async def test_the_sdk_sees_the_vendors_answer(v1: V1, fake_api: FakeAPI, number: int) -> None:
    fake_api.script(**SHAPES[number], times=None)
    ask = {**ASK, "model": "deepseek-chat", "tools": TOOLS}
    ours, theirs = [await client.chat.completions.create(**ask) for client in (v1.openai, v1.openai_vendor)]
    assert v1_views.chat(ours) == v1_views.chat(theirs)
    streams = [await v1_views.chat_stream(client, **ask) for client in (v1.openai, v1.openai_vendor)]
    assert streams[0] == streams[1]


async def test_a_failure_has_openais_shape_and_status(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(error="context")
    with pytest.raises(openai.BadRequestError) as too_long:
        await v1.openai.chat.completions.create(**ASK)
    assert too_long.value.code == "context_length_exceeded"
    fake_api.script(error="rate_limit", retry_after=4000, times=None)
    for stream in (False, True):
        with pytest.raises(openai.RateLimitError) as rate_limit:
            await v1.openai.chat.completions.create(**ASK, stream=stream)
        assert rate_limit.value.response.headers["retry-after"] == "4000"


async def test_an_error_inside_a_stream_ends_it(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(text="one two three", cut_after=1)
    stream = await v1.openai.chat.completions.create(**ASK, stream=True)
    with pytest.raises(openai.APIError, match="broke off"):
        _ = [chunk async for chunk in stream]


async def test_a_client_that_disconnects_cancels_its_call(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(text="one two three", gate="never", gate_after=1, times=None)
    stream = await v1.openai.chat.completions.create(**ASK, stream=True)
    async for _ in stream:
        break
    await stream.close()
    await fake_api.wait_for(state="disconnected")


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────

USER = {"role": "user", "content": "x"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
LOOK, HEAR = ({"type": "function", "function": {"name": name}} for name in ("look", "hear"))


def _only(mode: str, tools: list[Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


WRONG: list[tuple[dict[str, Any], str | None]] = [
    ({"messages": []}, "messages"),
    ({"messages": None}, "messages"),
    ({"tools": {}}, "tools"),
    ({"tools": 0}, "tools"),
    ({"messages": [{"role": "assistant", "content": "x", "tool_calls": {}}]}, "messages[0].tool_calls"),
    ({"model": ""}, "model"),
    ({"model": 7}, "model"),
    ({"temperatur": 1}, "temperatur"),
    ({"temperature": 3}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"n": 2}, "n"),
    ({"seed": 7}, "seed"),
    ({"logprobs": True}, "logprobs"),
    ({"stream": "yes"}, "stream"),
    ({"stop": ["a"] * 5}, "stop"),
    ({"reasoning_effort": "ultra"}, "reasoning_effort"),
    ({"tools": [{"type": "retrieval"}]}, "tools[0].type"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"messages": ["x"]}, "messages[0]"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
    ({"messages": [USER, {"role": "assistant"}]}, "messages[1].content"),
    ({"messages": [USER, {"role": "tool", "tool_call_id": "c9", "content": "x"}]}, "messages[1].tool_call_id"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [CALL]}, USER]}, "messages[2]"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{"}}]}]},
     "messages[1].tool_calls[0].function.arguments"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [CALL, CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "x"}]},
     "messages[1].tool_calls"),
    ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": [{**USER, "name": 5}]}, "messages[0].name"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type"),
    ({"reasoning_effort": 5}, "reasoning_effort"),
    ({"metadata": "x"}, "metadata"),
    ({"metadata": {"a": 1}}, "metadata.a"),
    ({"user": 5}, "user"),
    ({"service_tier": 5}, "service_tier"),
    ({"prompt_cache_key": {}}, "prompt_cache_key"),
    ({"prediction": "x"}, "prediction"),
    ({"stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
    ({"tools": [LOOK], "tool_choice": _only("auto", [])}, "tool_choice.allowed_tools.tools"),
    ({"tools": [LOOK], "tool_choice": _only("auto", [CALL])}, "tool_choice.allowed_tools.tools"),
    ({"tools": [LOOK], "tool_choice": _only("none", [LOOK])}, "tool_choice.allowed_tools.mode"),
    ({"tool_choice": _only("auto", [LOOK])}, "tool_choice.allowed_tools.tools"),
]  # fmt: skip
IMAGES = [
    "data:image/png;base64,%%%",
    "data:image/png;base64,aGVsbG8=",
    "file:///etc/passwd",
    "ftp://x/y.png",
]
for url in IMAGES:
    part = {"type": "image_url", "image_url": {"url": url}}
    WRONG.append(
        ({"messages": [{"role": "user", "content": [part]}]}, "messages[0].content[0].image_url.url")
    )


async def test_bad_requests_are_named_and_nothing_is_sent(v1: V1, fake_api: FakeAPI) -> None:
    for change, where in WRONG:
        status, reply = await v1.post("/v1/chat/completions", {**ASK, **change})
        error = reply["error"]
        assert (status, error["type"], error["param"]) == (400, "invalid_request_error", where), change
        assert "NoneType" not in error["message"]
    status, reply = await v1.post("/v1/chat/completions", {**ASK, "model": "gpt-55"})
    assert (status, reply["error"]["code"]) == (404, "model_not_found")
    assert fake_api.calls == []


async def test_tools_that_are_not_allowed_are_not_offered(v1: V1, fake_api: FakeAPI) -> None:
    ask = {"tools": [LOOK, HEAR], "tool_choice": _only("required", [HEAR])}
    responses: dict[str, Any] = {
        "input": "x",
        "tools": [{"type": "function", "name": name} for name in ("look", "hear")],
        "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "hear"}]},
    }  # fmt: skip
    for path, body in (("/v1/chat/completions", {**ASK, **ask}), ("/v1/responses", responses)):
        status, _ = await v1.post(path, {**body, "model": "claude-sonnet-4-6"})
        request = fake_api.calls[-1].body
        assert (status, [tool["name"] for tool in request["tools"]]) == (200, ["hear"])
        assert request["tool_choice"] == {"type": "any"}
    await v1.post("/v1/responses", {**responses, "model": "gpt-5"})
    assert fake_api.calls[-1].body["tool_choice"] == responses["tool_choice"], "passed on as it came"
    with_vendor_tool = {
        **responses,
        "tool_choice": {**responses["tool_choice"], "tools": [{"type": "image_generation"}]},
    }
    status, reply = await v1.post("/v1/responses", {**with_vendor_tool, "model": "claude-sonnet-4-6"})
    assert (status, "tool_choice" in reply["error"]["message"]) == (400, True)


async def test_bodies_that_are_not_a_request_are_refused(v1: V1, fake_api: FakeAPI) -> None:
    for data, status in ((b"{", 400), (b"[]", 400), (b"", 400), (b'"' + b"x" * (33 << 20) + b'"', 413)):
        async with v1.session.post("/v1/chat/completions", data=io.BytesIO(data)) as answer:
            assert (answer.status, "error" in await answer.json()) == (status, True)
    for levels in (150, 5_000):
        deep = b'{"model":' + b"[" * levels + b"]" * levels + b"}"
        async with v1.session.post("/v1/chat/completions", data=io.BytesIO(deep)) as answer:
            assert (answer.status, "levels deep" in await answer.text()) == (400, True)
    long = {**ASK, "messages": [{"role": "user", "content": "x" * (10 << 20)}]}
    body = io.BytesIO(json.dumps({**long, "seed": 1}).encode())
    async with v1.session.post("/v1/chat/completions", data=body) as answer:
        assert answer.status == 400
    assert fake_api.calls == []


async def test_nothing_is_answered_without_the_token(v1: V1, fake_api: FakeAPI) -> None:
    async with aiohttp.ClientSession(v1.url) as session:
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/models", "/v1/x"):
            for headers in ({}, {"x-api-key": "wrong"}, {"Authorization": "Bearer wrong"}):
                async with session.post(path, json=ASK, headers=headers) as answer:
                    assert answer.status == 401
                    shape = await answer.json()
                    kind = "authentication_error" if "messages" in path else "invalid_request_error"
                    assert shape["error"]["type"] == kind
                    assert ("wrong" in shape["error"]["message"]) == bool(headers)
                    assert "`x-api-key: TOKEN`" in shape["error"]["message"]
            for method in ("OPTIONS", "HEAD", "PUT"):
                async with session.request(method, path) as answer:
                    assert answer.status == 401
        both = {"x-api-key": "wrong", "Authorization": "Bearer wrong"}
        async with session.post("/v1/messages", json=ASK, headers=both) as answer:
            assert answer.status == 401
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        for headers in ({"x-api-key": TOKEN}, bearer, {**both, **bearer}, {**both, "x-api-key": TOKEN}):
            async with session.get("/v1/models", headers=headers) as answer:
                assert answer.status == 200
        async with session.get("/api/jobs", headers={"x-api-key": TOKEN}) as answer:
            assert answer.status == 401, "only these APIs' clients send their key there"
        page = {"x-api-key": TOKEN, "Origin": "https://evil.example"}
        async with session.post("/v1/chat/completions", json=ASK, headers=page) as answer:
            assert answer.status == 403
    assert fake_api.calls == []


async def test_unknown_paths_and_methods(v1: V1) -> None:
    with pytest.raises(openai.NotFoundError):
        await v1.openai.embeddings.create(model="x", input="y")
    async with v1.session.get("/v1/chat/completions") as answer:
        assert (answer.status, answer.headers["allow"]) == (405, "POST")


async def test_models_are_listed_for_both_sdks(v1: V1) -> None:
    names = [model.id async for model in v1.openai.models.list()]
    assert {"auto", "gpt-5", "deepseek-chat"} <= set(names)
    assert [model.id async for model in v1.anthropic.models.list()] == names
    assert (await v1.openai.models.retrieve("gpt-5")).owned_by == "openai"
    with pytest.raises(openai.NotFoundError):
        await v1.openai.models.retrieve("nothing")
    stranger = v1.anthropic.with_options(api_key="wrong")
    for ask, kind in ((v1.anthropic, "not_found_error"), (stranger, "authentication_error")):
        with pytest.raises(anthropic.APIStatusError) as error:
            await ask.models.retrieve("nothing")
        body: Any = error.value.body
        assert (body["type"], body["error"]["type"]) == ("error", kind)


async def test_what_a_model_does_not_take_is_reported(v1: V1) -> None:
    ask = {**ASK, "temperature": 0.3, "top_p": 0.5, "user": "me"}
    for stream in (False, True):
        raw = await v1.openai.chat.completions.with_raw_response.create(**ask, stream=stream)
        assert raw.headers["x-counsel-ignored"] == "user, temperature, top_p"
    answer: Any = await v1.openai.chat.completions.create(**ask)
    assert answer.counsel["ignored"] == ["user", "temperature", "top_p"]


async def test_a_budget_that_is_used_up_is_a_402_which_no_sdk_repeats(
    tmp_path: Path, fake_api: FakeAPI
) -> None:
    async with served(tmp_path, fake_api, COUNSEL_BUDGET_DAY="0") as v1:
        with pytest.raises(openai.APIStatusError) as error:
            await v1.openai.with_options(max_retries=2).chat.completions.create(**ASK)
    assert (error.value.status_code, error.value.code) == (402, "budget_exceeded")
    assert not fake_api.calls


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
async def test_a_bug_has_the_apis_shape_and_is_not_tried_again(
    v1: V1, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """An SDK would repeat the call, and pay for it again."""

    def fail(*_: Any) -> None:
        raise ValueError

    monkeypatch.setattr(Calls, "submit", fail)
    body = {"model": "gpt-5", "max_tokens": 9, "messages": ASK["messages"]}
    body = {"model": "gpt-5", "input": "x"} if path == "/v1/responses" else body
    async with v1.session.post(path, json=body) as answer:
        assert (answer.status, answer.headers["x-should-retry"]) == (502, "false")
        error = (await answer.json())["error"]
    assert error["message"] == "Internal error (ValueError)."
    assert error["type"] == ("api_error" if path == "/v1/messages" else "server_error")

"""`/v1/messages`, as Anthropic's own SDK sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from fake import FakeAPI
from support import v1_views
from support.v1 import V1, served
from support.v1_views import SHAPES

USER: dict[str, Any] = {"role": "user", "content": "hello"}
CLAUDE = "claude-sonnet-4-6"
ASK: dict[str, Any] = {"model": CLAUDE, "max_tokens": 1000, "messages": [USER]}
TOOLS: Any = [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}]


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as client:
        yield client


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
async def test_the_sdk_sees_the_vendors_answer(v1: V1, fake_api: FakeAPI, shape: dict[str, Any]) -> None:
    fake_api.script(**shape, times=None)
    ask = {**ASK, "tools": TOOLS}
    ours, theirs = [await client.messages.create(**ask) for client in (v1.anthropic, v1.anthropic_vendor)]
    assert v1_views.message(ours) == v1_views.message(theirs)
    streams, kinds = [], []
    for client in (v1.anthropic, v1.anthropic_vendor):
        async with client.messages.stream(**ask) as stream:
            kinds.append(
                [event.type async for event in stream if event.type.startswith(("message", "content"))]
            )
            streams.append(v1_views.message(await stream.get_final_message()))
    assert streams[0] == streams[1]
    assert v1_views.without_repetitions(kinds[0]) == v1_views.without_repetitions(kinds[1])


async def test_a_body_is_passed_on_as_it_came_to_the_vendor_whose_api_it_is(
    v1: V1, fake_api: FakeAPI
) -> None:
    mark = {"type": "ephemeral"}
    body: dict[str, Any] = {
        **ASK,
        "system": [{"type": "text", "text": "Be short.", "cache_control": mark}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": mark}]}],
        "tools": [*TOOLS, {"type": "web_search_20250305", "name": "web_search"}],
        "metadata": {"user_id": "me"},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    status, _ = await v1.post("/v1/messages", body, anthropic_version="2023-06-01", anthropic_beta="a,b")
    assert status == 200
    request = fake_api.calls[0]
    assert request.body == {**body, "stream": True}
    assert (request.headers["anthropic-beta"], request.headers["anthropic-version"]) == ("a,b", "2023-06-01")


async def test_a_stop_sequence_is_named(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(text="one two three four", times=None, delta_size=3)
    # OpenAI's Responses has no stop sequences: counsel cuts there
    ask = {**ASK, "model": "gpt-5", "stop_sequences": ["zzz", "thr"]}
    answer = await v1.anthropic.messages.create(**ask)
    assert (answer.content[0].text, answer.stop_reason, answer.stop_sequence) == (
        "one two ",
        "stop_sequence",
        "thr",
    )
    assert (answer.usage.input_tokens > 0, answer.usage.output_tokens) == (True, 2), (
        "estimated, because it is billed"
    )
    async with v1.anthropic.messages.stream(**ask) as stream:
        assert await stream.get_final_text() == "one two "


async def test_a_refusal_is_an_answer_with_its_reason(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(finish="filtered", text="", times=None)
    answer = await v1.anthropic.messages.create(**ASK)
    assert (answer.stop_reason, answer.content) == ("refusal", [])
    async with v1.anthropic.messages.stream(**ASK) as stream:
        assert (await stream.get_final_message()).stop_reason == "refusal"


async def test_an_empty_answer_is_an_answer(v1: V1, fake_api: FakeAPI) -> None:
    """Claude Code asks with `max_tokens: 1` whether a key works."""
    fake_api.script(text="", finish="length", times=None)
    answer = await v1.anthropic.messages.create(**{**ASK, "max_tokens": 1})
    assert (answer.stop_reason, answer.content) == ("max_tokens", [])


async def test_failures_have_anthropics_shape_and_status(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(error="rate_limit", retry_after=4000, times=2)
    for stream in (False, True):
        with pytest.raises(anthropic.RateLimitError):
            await v1.anthropic.messages.create(**ASK, stream=stream)
    fake_api.script(text="one two three", error="overloaded", error_after=1, times=None)
    with pytest.raises(anthropic.APIStatusError, match="overloaded"):
        async with v1.anthropic.messages.stream(**ASK) as stream:
            await stream.get_final_message()


CALL = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
PNG = {"type": "base64", "media_type": "image/png", "data": "%%%"}
WRONG: list[dict[str, Any]] = [
    {"messages": []},
    {"max_tokens": None},
    {"tools": {}},
    {"tools": ""},
    {"max_tokens": 0},
    {"max_token": 1},
    {"temperature": 2},
    {"top_k": -1},
    {"stop_sequences": [" "]},
    {"thinking": {"type": "enabled", "budget_tokens": 5}},
    {"tools": [{"name": "look"}]},
    {"tools": [{"name": "lo ok", "input_schema": {}}]},
    {"system": 7},
    {"messages": [{"role": "wizard", "content": "x"}]},
    {"messages": [{"role": "user", "content": []}]},
    {"messages": [{"role": "user", "content": "x", "name": "me"}]},
    {"messages": [{"role": "user", "content": [{"type": "telepathy"}]}]},
    {"messages": [{"role": "user", "content": [RESULT]}]},
    {"messages": [USER, {"role": "assistant", "content": [CALL]}, USER]},
    {"messages": [USER, {"role": "assistant", "content": [CALL]}]},
    {"messages": [USER, {"role": "assistant", "content": [CALL, CALL]}]},
    {"messages": [{"role": "user", "content": [{"type": "image", "source": PNG}]}]},
    {"messages": [{"role": "user", "content": [{"type": "image", "source": {**PNG, "data": "aGk="}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}]},
    {"messages": [{"role": "user", "content": " "}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}], "metadata": {"user_id": "u"}},
    {"model": ""},
    {"tools": [*TOOLS, *TOOLS]},
    {"metadata": "x"},
    {"service_tier": 5},
    {"context_management": "x"},
    {"mcp_servers": 5},
]


async def test_bad_requests_are_refused_and_nothing_is_sent(v1: V1, fake_api: FakeAPI) -> None:
    for change in WRONG:
        status, reply = await v1.post("/v1/messages", {**ASK, **change})
        assert (status, reply["type"], reply["error"]["type"]) == (
            400,
            "error",
            "invalid_request_error",
        ), change
    with pytest.raises(anthropic.NotFoundError):
        await v1.anthropic.messages.create(**{**ASK, "model": "claude-9"})
    assert fake_api.calls == []


async def test_places_have_anthropics_names(v1: V1) -> None:
    for change, place in (
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "'messages.0.content.0.text'"),
        ({"messages": [{"role": "user", "content": [5]}]}, "'messages.0.content.0'"),
        ({"tools": [5]}, "'tools.0'"),
        ({"system": [5]}, "'system.0'"),
        ({"messages": [{"content": "x"}]}, "'messages.0.role'"),
    ):
        _, reply = await v1.post("/v1/messages", {**ASK, **change})
        assert place in reply["error"]["message"]


async def test_what_another_vendor_cannot_take_is_refused_and_nothing_is_sent(
    v1: V1, fake_api: FakeAPI
) -> None:
    image = {"type": "image", "source": {"type": "file", "file_id": "file_1"}}
    with_image = {**RESULT, "content": [image]}
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
    messages = [{"role": "user", "content": [document]}]
    code = [{"type": "code_execution_20250825", "name": "code_execution"}]
    search = [{"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["a.example"]}]
    for change, name in (
        ({"messages": messages}, "document"),
        ({"messages": [{"role": "user", "content": [image]}]}, "an image by its file id"),
        (
            {
                "messages": [
                    USER,
                    {"role": "assistant", "content": [CALL]},
                    {"role": "user", "content": [with_image]},
                ]
            },
            "file id",
        ),
        ({"messages": [USER, {"role": "assistant", "content": "{"}]}, "the beginning of its answer"),
        ({"tools": code}, "code_execution_20250825"),
        ({"tools": search}, "web_search_20250305"),
    ):
        status, _ = await v1.post("/v1/messages", {**ASK, **change})
        assert status == 200
        status, reply = await v1.post("/v1/messages", {**ASK, **change, "model": "gpt-5"})
        assert (status, name in reply["error"]["message"]) == (400, True)
    assert len(fake_api.calls) == 6


async def test_tokens_are_counted_without_asking(v1: V1, fake_api: FakeAPI) -> None:
    ask = {name: value for name, value in ASK.items() if name != "max_tokens"}
    few = await v1.anthropic.messages.count_tokens(**ask)
    many = await v1.anthropic.messages.count_tokens(**ask, system="x" * 4000, tools=TOOLS)
    assert 0 < few.input_tokens < 20
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    for source, least in (
        ({"type": "text", "media_type": "text/plain", "data": "word " * 400}, 400),
        (pdf, 1_500),
    ):
        document: Any = {"type": "document", "source": source}
        result: Any = [{"type": "tool_result", "tool_use_id": "t1", "content": [document]}]
        for messages in (
            [{"role": "user", "content": [document]}],
            [USER, {"role": "assistant", "content": [CALL]}, {"role": "user", "content": result}],
        ):
            count = await v1.anthropic.messages.count_tokens(**{**ask, "messages": messages})
            assert count.input_tokens >= least
    assert many.input_tokens - few.input_tokens > 1000
    with pytest.raises(anthropic.BadRequestError):
        await v1.anthropic.messages.count_tokens(**{**ask, "messages": []})
    assert fake_api.calls == []

"""Tools that a vendor runs itself, tools in a namespace, tools with free text: passed on, translated, or left out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fake import FakeAPI
from support.v1 import V1, served

CLAUDE, GPT, GEMINI, DEEPSEEK = "claude-sonnet-4-6", "gpt-5", "gemini-2.5-pro", "deepseek-chat"
LOOK: Any = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
PATCH: Any = {
    "type": "custom",
    "name": "apply_patch",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"},
}
TEAM: Any = {
    "type": "namespace",
    "name": "team",
    "description": "Agents.",
    "tools": [{**LOOK, "name": "close"}],
}


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as client:
        yield client


def _sse(*events: Any) -> str:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def _responses_stream(*items: Any) -> str:
    events = [
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in enumerate(items)
    ]
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    response = {"id": "resp_x", "object": "response", "status": "completed", "model": GPT, "usage": usage}
    return _sse(*events, {"type": "response.completed", "response": {**response, "output": list(items)}})


def _messages_stream(*blocks: Any) -> str:
    message = {"id": "msg_x", "type": "message", "role": "assistant", "model": CLAUDE, "content": []}
    events: list[Any] = [{"type": "message_start", "message": {**message, "usage": {"input_tokens": 1}}}]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}})
    return _sse(*events, {"type": "message_stop"})


SEARCH_CALL = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "cats"},
}
CUSTOM_CALL = {
    "type": "custom_tool_call",
    "id": "ctc_1",
    "call_id": "call_a",
    "name": "apply_patch",
    "input": "*** Begin Patch",
    "status": "completed",
}
TEAM_CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_b",
    "name": "close",
    "namespace": "team",
    "arguments": "{}",
    "status": "completed",
}
SEARCH_USE = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "cats"},
}
SEARCH_RESULT = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "title": "Cats",
            "url": "https://cats.example",
            "encrypted_content": "x",
            "page_age": None,
        }
    ],
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_what_openais_own_tools_did_reaches_a_client_of_its_api(
    v1: V1, fake_api: FakeAPI, stream: bool
) -> None:
    fake_api.script(raw=_responses_stream(SEARCH_CALL, CUSTOM_CALL, TEAM_CALL))
    ask: Any = {"model": GPT, "input": "x", "tools": [LOOK, PATCH, TEAM, {"type": "web_search"}]}
    if stream:
        async with v1.openai.responses.stream(**ask) as events:
            response: Any = await events.get_final_response()
    else:
        response = await v1.openai.responses.create(**ask)
    search, patch, close = response.output
    assert (search.type, search.action.query) == ("web_search_call", "cats")
    assert (patch.type, patch.name, patch.input) == ("custom_tool_call", "apply_patch", "*** Begin Patch")
    assert (close.name, close.namespace, close.call_id) == ("close", "team", "call_b")


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_what_anthropics_own_tools_did_reaches_a_client_of_its_api(
    v1: V1, fake_api: FakeAPI, stream: bool
) -> None:
    fake_api.script(raw=_messages_stream(SEARCH_USE, SEARCH_RESULT, {"type": "text", "text": "Cats."}))
    ask: Any = {
        "model": CLAUDE,
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "web_search_20250305", "name": "web_search"}],
    }
    if stream:
        async with v1.anthropic.messages.stream(**ask) as events:
            message: Any = await events.get_final_message()
    else:
        message = await v1.anthropic.messages.create(**ask)
    use, result, text = message.content
    assert (use.type, use.input) == ("server_tool_use", {"query": "cats"})
    assert (result.type, result.content[0].url) == ("web_search_tool_result", "https://cats.example")
    assert text.text == "Cats."
    answer = [block.model_dump(exclude_none=True) for block in message.content]
    turns = [*ask["messages"], {"role": "assistant", "content": answer}, {"role": "user", "content": "y"}]
    raw = await v1.anthropic.messages.with_raw_response.create(**{**ask, "model": GPT, "messages": turns})
    assert raw.headers["x-counsel-ignored"] == "messages.server_tool_use, messages.web_search_tool_result"
    assert "srvtoolu_1" not in str(fake_api.calls[-1].body), "another vendor gets what came of it, the text"
    await v1.anthropic.messages.create(**{**ask, "messages": turns})
    assert "srvtoolu_1" in str(fake_api.calls[-1].body)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_thinking_that_anthropic_hides_reaches_a_client_of_its_api(
    v1: V1, fake_api: FakeAPI, stream: bool
) -> None:
    block = {"type": "redacted_thinking", "data": "c2VhbGVk"}
    fake_api.script(raw=_messages_stream(block, {"type": "text", "text": "Cats."}))
    ask: Any = {"model": CLAUDE, "max_tokens": 99, "messages": [{"role": "user", "content": "x"}]}
    if stream:
        async with v1.anthropic.messages.stream(**ask) as events:
            message: Any = await events.get_final_message()
    else:
        message = await v1.anthropic.messages.create(**ask)
    thinking, text = message.content
    assert (thinking.type, thinking.data, text.text) == ("redacted_thinking", "c2VhbGVk", "Cats.")


async def test_what_a_vendors_tools_did_is_left_out_with_a_note_for_other_apis(
    v1: V1, fake_api: FakeAPI
) -> None:
    fake_api.script(raw=_messages_stream(SEARCH_USE, SEARCH_RESULT, {"type": "text", "text": "Cats."}))
    answer: Any = await v1.openai.responses.create(model=CLAUDE, input="x", tools=[{"type": "web_search"}])
    assert answer.output_text == "Cats."
    assert answer.counsel["left_out"] == ["server_tool_use", "web_search_tool_result"]
    assert fake_api.calls[0].body["tools"] == [{"type": "web_search_20250305", "name": "web_search"}]


async def test_a_paused_turn_is_continued(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(finish="paused", text="I search.")
    fake_api.script(text="Done.")
    message: Any = await v1.anthropic.messages.create(
        model=CLAUDE,
        max_tokens=99,
        messages=[{"role": "user", "content": "x"}],
        tools=[{"type": "code_execution_20250825", "name": "code_execution"}],
    )
    assert "".join(block.text for block in message.content) == "I search.\n\nDone."
    assert [entry["role"] for entry in fake_api.calls[1].body["messages"]] == ["user", "assistant"]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("model", [CLAUDE, GEMINI, DEEPSEEK])
async def test_codexs_tools_are_translated_for_other_vendors(
    v1: V1, fake_api: FakeAPI, model: str, stream: bool
) -> None:
    fake_api.script(
        tool_calls=[
            {"name": "apply_patch", "arguments": {"input": "*** Begin Patch"}},
            {"name": "team__close", "arguments": {"a": 1}},
        ]
    )
    tools = [LOOK, PATCH, TEAM, {"type": "web_search", "external_web_access": True}, {"type": "tool_search"}]
    items: list[Any] = [{"role": "user", "content": "x"}]
    ask: Any = {"model": model, "tools": tools, "tool_choice": "auto", "store": False}
    if stream:
        async with v1.openai.responses.stream(input=items, **ask) as events:
            kinds = [event.type async for event in events]
            first: Any = await events.get_final_response()
        assert "response.custom_tool_call_input.done" in kinds
    else:
        first = await v1.openai.responses.create(input=items, **ask)
    patch, close = (item for item in first.output if item.type != "reasoning")
    assert (patch.type, patch.name, patch.input) == ("custom_tool_call", "apply_patch", "*** Begin Patch")
    assert (close.type, close.name, close.namespace) == ("function_call", "close", "team")
    assert json.loads(close.arguments) == {"a": 1}
    left_out = first.counsel["ignored"]
    assert "tools.tool_search" in left_out
    assert ("tools.web_search" in left_out) == (model != CLAUDE), "Gemini has no search beside functions"
    answer = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in first.output]
    outputs = [
        {"type": "custom_tool_call_output", "call_id": patch.call_id, "output": "patched"},
        {"type": "function_call_output", "call_id": close.call_id, "output": "closed"},
    ]
    second = await v1.openai.responses.create(input=[*items, *answer, *outputs], **ask)
    assert second.output_text.endswith("says: x")
    request = json.dumps(fake_api.calls[1].body)
    assert all(text in request for text in ("apply_patch", "team__close", "patched", "closed", "Begin Patch"))
    await v1.openai.responses.create(input=[*items, *answer, *outputs], **{**ask, "model": "gpt-5"})
    assert first.id.removeprefix("resp_") not in json.dumps(fake_api.calls[2].body), (
        "OpenAI does not know our ids"
    )


async def test_a_tool_that_the_vendor_cannot_run_is_refused_if_the_client_has_no_other(
    v1: V1, fake_api: FakeAPI
) -> None:
    for model, tools in (
        (CLAUDE, [{"type": "code_interpreter", "container": {"type": "auto"}}]),
        (CLAUDE, [{"type": "web_search", "filters": {"allowed_domains": ["a.example"]}}]),
        (DEEPSEEK, [{"type": "web_search"}]),
    ):
        status, reply = await v1.post("/v1/responses", {"model": model, "input": "x", "tools": tools})
        assert (status, reply["error"]["type"]) == (400, "invalid_request_error")
    body = {
        "model": CLAUDE,
        "input": "x",
        "tools": [LOOK, {"type": "file_search"}],
        "tool_choice": "required",
    }
    assert (await v1.post("/v1/responses", body))[0] == 400
    assert fake_api.calls == []


async def test_sources_of_a_search_are_annotations_of_the_text_also_in_a_stream(
    v1: V1, fake_api: FakeAPI
) -> None:
    fake_api.script(
        text="Cats sleep.", sources=[{"url": "https://cats.example/", "title": "Cats"}], times=None
    )
    ask: Any = {"model": GPT, "input": "x", "tools": [{"type": "web_search"}]}
    async with v1.openai.responses.stream(**ask) as stream:
        events = [event async for event in stream]
        from_stream = await stream.get_final_response()
    plain: Any = await v1.openai.responses.create(**ask)
    annotations = [event for event in events if event.type == "response.output_text.annotation.added"]
    assert [event.model_dump()["annotation"]["url"] for event in annotations] == ["https://cats.example/"]
    for response in (from_stream, plain):
        (note,) = response.output[-1].content[0].annotations
        assert (note.type, note.url, note.title) == ("url_citation", "https://cats.example/", "Cats")

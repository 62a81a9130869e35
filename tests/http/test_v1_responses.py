"""`/v1/responses`, as OpenAI's own SDK sees it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from counsel.http.v1 import responses
from fake import FakeAPI, FakeProcess
from support import v1_views
from support.api_client import running
from support.v1 import V1, address, sdks, served, vendors
from support.v1_views import SHAPES

ASK: dict[str, Any] = {"model": "gpt-5", "input": "hello"}
TOOLS: Any = [
    {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False, "description": ""}
]


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as client:
        yield client


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
async def test_the_sdk_sees_the_vendors_answer(v1: V1, fake_api: FakeAPI, shape: dict[str, Any]) -> None:
    fake_api.script(**shape, times=None)
    ask = {**ASK, "tools": TOOLS}
    ours, theirs = [await client.responses.create(**ask) for client in (v1.openai, v1.openai_vendor)]
    ends, kinds = [], []
    for client in (v1.openai, v1.openai_vendor):
        async with client.responses.stream(**ask) as stream:
            events = [event async for event in stream]
        kinds.append([event.type for event in events])
        ends.append(v1_views.response(events[-1].response))
    if shape.get("finish") != "length":  # the fake's plain answer says `completed`
        assert v1_views.response(ours) == v1_views.response(theirs) == ends[0]
    assert ends[0] == ends[1]
    assert v1_views.without_repetitions(kinds[0]) == v1_views.without_repetitions(kinds[1])


async def test_a_body_is_passed_on_as_it_came_and_the_vendor_stores_nothing(
    v1: V1, fake_api: FakeAPI
) -> None:
    body = {
        **ASK,
        "tools": [*TOOLS, {"type": "web_search"}],
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low"},
        "prompt_cache_key": "mine",
    }
    status, _ = await v1.post("/v1/responses", {**body, "store": True})
    assert status == 200
    include = {"include": ["reasoning.encrypted_content"]}
    assert fake_api.calls[0].body == {**body, **include, "stream": True, "store": False}


async def test_a_response_continues_an_earlier_one(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(thinking="I look.", tool_calls=[{"name": "look", "arguments": {"n": 1}}])
    first = await v1.openai.responses.create(**ASK, tools=TOOLS)
    call = next(item for item in first.output if item.type == "function_call")
    output: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "a cat"}]
    for model in ("gpt-5", "claude-sonnet-4-6"):
        second = await v1.openai.responses.create(
            model=model, input=output, tools=TOOLS, previous_response_id=first.id
        )
        assert second.status == "completed"
        again = await v1.openai.responses.retrieve(second.id)
        assert again.previous_response_id == second.previous_response_id == first.id
        third = await v1.openai.responses.create(
            model=model, input="and?", previous_response_id=second.id, store=False
        )
        assert third.output_text.endswith("says: and?")
    items = fake_api.calls[1].body["input"]
    assert [item.get("type", item.get("role")) for item in items] == [
        "user",
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    assert items[1]["encrypted_content"] == "opaque=="
    claude = fake_api.calls[4].body["messages"]
    assert [message["role"] for message in claude] == ["user", "assistant", "user", "assistant", "user"]
    with pytest.raises(openai.BadRequestError) as missing:
        await v1.openai.responses.create(**ASK, previous_response_id=third.id)
    assert (missing.value.code, missing.value.param) == (
        "previous_response_not_found",
        "previous_response_id",
    )
    assert f"'{third.id}'" in missing.value.message


UNMATCHED: list[tuple[Any, str]] = [
    ([], "No tool output found for function call"),
    ([{"call_id": "nobody"}], "No tool call found for function call output with call_id nobody"),
    ([{}, {"call_id": "nobody"}], "No tool call found for function call output with call_id nobody"),
    ([{}, {}], "Two outputs have the call_id"),
]


@pytest.mark.parametrize("model", ["gpt-5", "auto", "gpt-5, opus"])
async def test_outputs_and_calls_of_a_continued_response_match_or_nothing_is_sent(
    v1: V1, fake_api: FakeAPI, model: str
) -> None:
    fake_api.script(tool_calls=[{"name": "look", "arguments": {"n": 1}}])
    first = await v1.openai.responses.create(**ASK, tools=TOOLS)
    call = next(item for item in first.output if item.type == "function_call")
    count = len(fake_api.calls)
    for outputs, problem in UNMATCHED:
        rows = [
            {"type": "function_call_output", "call_id": call.call_id, "output": "x", **output}
            for output in outputs
        ]
        ask: Any = {"model": model, "tools": TOOLS, "previous_response_id": first.id}
        with pytest.raises(openai.BadRequestError, match=problem) as error:
            await v1.openai.responses.create(input=[*rows, {"role": "user", "content": "x"}], **ask)
        assert str(error.value.param).startswith("input")
    assert len(fake_api.calls) == count


async def test_a_continued_tool_call_keeps_its_tools_name(v1: V1, fake_api: FakeAPI) -> None:
    """The client does not repeat it, and Google wants it with every result."""
    fake_api.script(tool_calls=[{"name": "look", "arguments": {"n": 1}}])
    first = await v1.openai.responses.create(model="gemini-2.5-pro", input="hello", tools=TOOLS)
    call = next(item for item in first.output if item.type == "function_call")
    output: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "a cat"}]
    second = await v1.openai.responses.create(
        model="gemini-2.5-pro", input=output, tools=TOOLS, previous_response_id=first.id
    )
    await v1.openai.responses.create(model="gemini-2.5-pro", input="and?", previous_response_id=second.id)
    for request in fake_api.calls[1:]:
        assert request.body["contents"][2]["parts"][0]["functionResponse"]["name"] == "look"
    with pytest.raises(openai.BadRequestError, match="Two outputs have the call_id"):
        await v1.openai.responses.create(model="gpt-5", input=output, previous_response_id=second.id)


async def test_a_call_with_free_text_is_continued(v1: V1, fake_api: FakeAPI) -> None:
    """OpenAI's own kind of call is stored as OpenAI gave it."""
    call = {
        "type": "custom_tool_call", "id": "ctc_1", "call_id": "call_a", "name": "patch", "input": "*** Begin",
        "status": "completed",
    }  # fmt: skip
    response = {
        "id": "resp_x",
        "object": "response",
        "status": "completed",
        "model": "gpt-5",
        "output": [call],
    }
    events: list[dict[str, Any]] = [
        {"type": "response.output_item.done", "output_index": 0, "item": call},
        {"type": "response.completed", "response": response},
    ]
    fake_api.script(raw="".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events))
    tools: Any = [{"type": "custom", "name": "patch"}]
    first = await v1.openai.responses.create(**ASK, tools=tools)
    output: Any = [{"type": "custom_tool_call_output", "call_id": "call_a", "output": "done"}]
    await v1.openai.responses.create(model="gpt-5", input=output, tools=tools, previous_response_id=first.id)
    items = fake_api.calls[1].body["input"]
    assert [item.get("type", item.get("role")) for item in items] == [
        "user",
        "function_call",
        "function_call_output",
    ]
    assert json.loads(items[1]["arguments"]) == {"input": "*** Begin"}


async def test_what_a_response_was_asked_is_listed(v1: V1) -> None:
    messages: Any = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        CALL,
        OUTPUT,
    ]
    input_items = v1.openai.responses.input_items.list
    first = await v1.openai.responses.create(**ASK)
    (item,) = [item async for item in await input_items(first.id)]
    assert (item.type, item.role, item.content[0].text) == ("message", "user", "hello")
    second = await v1.openai.responses.create(model="gpt-5", input=messages)
    pages = [await input_items(second.id, order="asc", limit=3)]
    assert pages[0].has_more
    pages.append(await pages[0].get_next_page())
    rows: list[Any] = [row for page in pages for row in page.data]
    assert [row.type for row in rows] == ["message", "message", "function_call", "function_call_output"]
    assert [rows[1].role, rows[1].content[0].type, rows[2].call_id] == ["assistant", "output_text", "c1"]
    assert [row.id async for row in await input_items(second.id)] == [row.id for row in reversed(rows)]
    again: Any = [row.model_dump(exclude_none=True) for row in rows]
    await v1.openai.responses.create(model="gpt-5", input=again)  # the vendor does not know our ids
    for name, query in (
        (second.id, {"limit": 0}),
        (second.id, {"order": "x"}),
        (second.id, {"after": "x"}),
        ("resp_x", {}),
    ):
        with pytest.raises((openai.BadRequestError, openai.NotFoundError)):
            await input_items(name, **query)


async def test_a_stored_response_says_when_it_ended(v1: V1, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await v1.openai.responses.create(**ASK)
    monkeypatch.setattr(responses, "time", SimpleNamespace(time=lambda: 4e9))
    again: Any = await v1.openai.responses.retrieve(first.id)
    assert abs(again.completed_at - again.created_at) < 1e6


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("model", ["gpt-5", "deepseek-chat"])
async def test_stored_items_are_sent_by_their_ids(
    v1: V1, fake_api: FakeAPI, model: str, stream: bool
) -> None:
    """Vercel's AI SDK does so. The items of a stream have the ids of the stored response."""
    fake_api.script(
        thinking="I look.", text="Let me look.", tool_calls=[{"name": "look", "arguments": {"n": 1}}]
    )
    ask: Any = {"model": model, "tools": TOOLS}
    if stream:
        async with v1.openai.responses.stream(input="hello", **ask) as events:
            first: Any = await events.get_final_response()
    else:
        first = await v1.openai.responses.create(input="hello", **ask)
    call = next(item for item in first.output if item.type == "function_call")
    items: Any = [
        {"role": "user", "content": "hello"},
        *({"type": "item_reference", "id": item.id} for item in first.output),
        {"type": "function_call_output", "call_id": call.call_id, "output": "fur"},
    ]
    second = await v1.openai.responses.create(input=items, **ask)
    assert second.output_text == f"{model} says: hello"
    request = str(fake_api.calls[1].body)
    assert all(
        text in request for text in ("I look." if model != "gpt-5" else "opaque==", "Let me look.", "fur")
    )
    assert first.id.removeprefix("resp_") not in request, "the vendor does not know our ids"
    missing: Any = [{"type": "item_reference", "id": f"msg_{first.id[5:]}_7"}]
    with pytest.raises(openai.NotFoundError):
        await v1.openai.responses.create(input=missing, **ask)


async def test_a_conversation_of_ours_is_continued(v1: V1, fake_api: FakeAPI) -> None:
    first: Any = await v1.openai.responses.create(model="gpt-5", input="one", conversation="mine")
    for response in (first, await v1.openai.responses.retrieve(first.id)):
        assert response.conversation.id == "mine"
    ask: Any = {"model": "claude-sonnet-4-6", "messages": [{"role": "user", "content": "two"}]}
    await v1.openai.chat.completions.create(**ask, extra_headers={"x-counsel-conversation": "mine"})
    texts = [message["content"][0]["text"] for message in fake_api.calls[1].body["messages"]]
    assert texts == ["one", "gpt-5 says: one", "two"]


async def test_a_background_response_is_fetched_cancelled_and_deleted(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(gate="g", times=None)
    response = await v1.openai.responses.create(**ASK, background=True, metadata={"a": "b"})
    assert (response.status, response.output) == ("queued", [])
    assert (await v1.openai.responses.retrieve(response.id)).status == "in_progress"
    second_response = await v1.openai.responses.create(**ASK, background=True)
    assert (await v1.openai.responses.cancel(second_response.id)).status == "cancelled"
    fake_api.open_gate("g")
    async with v1.session.get(f"/api/jobs/job_{response.id[5:]}/events") as events:
        await events.read()  # until it ends
    result = await v1.openai.responses.retrieve(response.id)
    assert (result.status, result.output_text, result.metadata) == (
        "completed",
        "gpt-5 says: hello",
        {"a": "b"},
    )
    await v1.openai.responses.delete(response.id)
    for name in (response.id, "resp_x", "x"):
        with pytest.raises((openai.NotFoundError, openai.BadRequestError)):
            await v1.openai.responses.retrieve(name)


async def test_a_stored_response_is_streamed_from_its_beginning(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(text="one two three", gate="g", gate_after=1)
    response = await v1.openai.responses.create(**ASK, background=True)
    await fake_api.wait_for(deltas=1)
    stream = await v1.openai.responses.retrieve(response.id, stream=True)
    kinds, text = [], ""
    async for event in stream:
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
            fake_api.open_gate("g")
    assert (kinds[0], kinds[-1], text) == ("response.created", "response.completed", "one two three")
    again = [event async for event in await v1.openai.responses.retrieve(response.id, stream=True)]
    final: Any = again[-1]
    assert (final.response.id, final.response.output_text) == (response.id, "one two three")
    with pytest.raises(openai.BadRequestError, match="starting_after"):
        await v1.openai.responses.retrieve(response.id, stream=True, starting_after=3)
    assert len(fake_api.calls) == 1


CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "x"}
WRONG: list[dict[str, Any]] = [
    {"input": None},
    {"tools": {}},
    {"tools": ""},
    {"tools": [{"type": "namespace", "name": "x", "tools": {}}]},
    {"truncation": {}},
    {"include": ["message.output_text.logprobs"]},
    {"input": []},
    {"input": 7},
    {"inputs": "x"},
    {"temperature": 3},
    {"max_output_tokens": 0},
    {"background": True, "store": False},
    {"tools": [{"type": "function"}]},
    {"input": [{"role": "wizard", "content": "x"}]},
    {
        "input": [
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,%"}]}
        ]
    },
    {"input": [{"type": "function_call_output", "call_id": "c9", "output": "x"}]},
    {"input": [{"role": "user", "content": "x"}, CALL]},
    {"input": [{"type": "item_reference", "id": "x"}]},
    {"previous_response_id": "../x"},
    {"conversation": "a", "previous_response_id": "resp_a"},
    {"conversation": "a b/c"},
    {"conversation": " "},
    {"input": " "},
    {"input": [{"role": "user", "content": [{"type": "input_text", "text": ""}]}]},
    {"input": [{"content": "x"}]},
    {"input": [{"role": "user", "content": "x"}, CALL, CALL, OUTPUT]},
    {"input": [{"role": "user", "content": "x"}, CALL, OUTPUT, OUTPUT]},
    {"metadata": {"a": 1}},
    {"user": 5},
    {"service_tier": 5},
    {"stream_options": "x"},
    {"client_metadata": 5},
    {"max_tool_calls": "x"},
]


async def test_bad_requests_are_refused_and_nothing_is_sent(v1: V1, fake_api: FakeAPI) -> None:
    for change in WRONG:
        status, reply = await v1.post("/v1/responses", {**ASK, **change})
        assert (status, reply["error"]["type"]) == (400, "invalid_request_error"), change
    assert fake_api.calls == []


async def test_a_background_response_survives_a_killed_server_and_a_stream_ends_with_an_error(
    tmp_path: Path, fake_process: FakeProcess
) -> None:
    fake_process.script(text="one two three", gate="g", gate_after=1, times=2)
    env = vendors(fake_process)
    async with running(tmp_path, fake_process, **env) as api, sdks(address(api), fake_process.url) as v1:
        response = await v1.openai.responses.create(**ASK, background=True)
        stream = await v1.openai.responses.create(**ASK, stream=True, store=False)
        async for event in stream:
            if event.type == "response.output_text.delta":
                break
        fake_process.wait_for(count=2, deltas=1)
        api.process.kill()
        await api.process.wait()
        with pytest.raises((openai.APIConnectionError, openai.APIError)):
            _ = [event async for event in stream]
    async with running(tmp_path, fake_process, **env) as api, sdks(address(api), fake_process.url) as v1:
        async with api.session.get(f"/api/jobs/job_{response.id[5:]}/events") as events:
            await events.read()
        result = await v1.openai.responses.retrieve(response.id)
        assert (result.status, result.output_text) == ("completed", "gpt-5 says: hello")

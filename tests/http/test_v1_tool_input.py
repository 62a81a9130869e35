"""The arguments of a client's tools reach it while the vendor writes them, whichever API the two speak."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from counsel.engine.jobs.event_queue import MANY, EventQueue, merged
from counsel.engine.jobs.events import Live
from counsel.http.v1.custom_input import CustomInput
from counsel.job_events import ToolInputAdded
from counsel.types import ToolInput
from fake import FakeAPI
from support.v1 import V1, served

STREAMING = {"claude-sonnet-4-6": 2, "gpt-5": 1, "deepseek-chat": 2}  # deltas up to the first half
WHERE = {"where": "a place far away, behind the hills"}
WHOLE = json.dumps(WHERE)
FIRST, SECOND = WHOLE[: len(WHOLE) // 2], WHOLE[len(WHOLE) // 2 :]
CALL = {"name": "look", "arguments": WHERE, "id": "call_a"}
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
LIMIT = 60  # seconds: against a hang


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as client:
        yield client


def request(path: str, model: str, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"where": {"type": "string"}}}
    turn = {"role": "user", "content": "Look."}
    function = {"name": "look", "description": "Looks."}
    asks: dict[str, dict[str, Any]] = {
        PATHS[0]: {
            "messages": [turn],
            "tools": [{"type": "function", "function": {**function, "parameters": schema}}],
        },
        PATHS[1]: {
            "messages": [turn],
            "max_tokens": 500,
            "tools": [{**function, "input_schema": schema}],
        },
        PATHS[2]: {"input": "Look.", "tools": [{"type": "function", **function, "parameters": schema}]},
    }
    return {"model": model, "stream": True, **asks[path], **more}


def pieces(event: Any) -> list[str]:
    """The pieces of arguments in one event of any of the APIs."""
    if "choices" in event:
        calls = [call for choice in event["choices"] for call in choice["delta"].get("tool_calls") or ()]
        return [call["function"]["arguments"] for call in calls if call["function"].get("arguments")]
    if event.get("type") == "response.function_call_arguments.delta":
        return [event["delta"]]
    if event.get("type") == "content_block_delta":
        return [event["delta"]["partial_json"]] if event["delta"].get("partial_json") else []
    return []


async def events(answer: Any) -> AsyncIterator[Any]:
    async for line in answer.content:
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


async def stream_events(v1: V1, path: str, body: dict[str, Any], **headers: str) -> list[Any]:
    async with asyncio.timeout(LIMIT), v1.session.post(path, json=body, headers=headers) as answer:
        assert answer.status == 200
        return [event async for event in events(answer)]


def arguments(stream: list[Any]) -> str:
    return "".join(piece for event in stream for piece in pieces(event))


@pytest.mark.parametrize("path", PATHS)
async def test_the_first_half_arrives_before_the_second_is_written(
    v1: V1, fake_api: FakeAPI, path: str
) -> None:
    """The fake vendor stops after the first half."""
    for model, before in STREAMING.items():
        fake_api.script(text="", tool_calls=[CALL], gate=model, gate_after=before)
        async with asyncio.timeout(LIMIT), v1.session.post(path, json=request(path, model)) as answer:
            incoming = events(answer)
            early: list[str] = []
            while not early:
                early += pieces(await anext(incoming))
            assert (model, early) == (model, [FIRST])
            fake_api.open_gate(model)
            assert (model, arguments([event async for event in incoming])) == (model, SECOND)


@pytest.mark.parametrize("path", PATHS)
async def test_a_vendor_that_sends_calls_whole_is_passed_on_whole(
    v1: V1, fake_api: FakeAPI, path: str
) -> None:
    fake_api.script(text="", tool_calls=[{"name": "look", "arguments": WHERE}])
    assert json.loads(arguments(await stream_events(v1, path, request(path, "gemini-2.5-pro")))) == WHERE


@pytest.mark.parametrize("path", PATHS)
async def test_nothing_is_tried_again_after_a_piece_was_sent(v1: V1, fake_api: FakeAPI, path: str) -> None:
    """Neither by the same model nor by the next of a chain: the client would get two halves of different calls."""
    for number, (model, half) in enumerate(STREAMING.items()):
        fake_api.script(text="", tool_calls=[CALL], cut_after=half)
        stream = await stream_events(v1, path, request(path, f"{model}, gemini-2.5-pro"))
        assert (model, arguments(stream)) == (model, FIRST)
        assert len(fake_api.requests) == number + 1
        assert "error" in stream[-1] or stream[-1]["type"] == "response.failed"


async def test_a_plain_answer_is_tried_again_as_before(v1: V1, fake_api: FakeAPI) -> None:
    for number, (model, half) in enumerate(STREAMING.items(), 1):
        fake_api.script(text="", tool_calls=[CALL], cut_after=half)
        fake_api.script(text="", tool_calls=[CALL])
        status, answer = await v1.post(PATHS[0], request(PATHS[0], model, stream=False))
        assert status == 200, answer
        (call,) = answer["choices"][0]["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == WHERE
        assert len(fake_api.requests) == 2 * number


@pytest.mark.parametrize("path", PATHS)
async def test_the_same_key_gives_the_same_calls_again(v1: V1, fake_api: FakeAPI, path: str) -> None:
    calls = [CALL, {"name": "look", "arguments": {}, "id": "call_b"}]
    for number, model in enumerate((*STREAMING, "gemini-2.5-pro"), 1):
        fake_api.script(thinking="I look.", text="Let me look.", tool_calls=calls)
        key = {"Idempotency-Key": f"{model}{path}"}
        first, again = [await stream_events(v1, path, request(path, model), **key) for _ in range(2)]
        assert len(fake_api.requests) == number
        assert read_blocks(first) == ["Let me look.", WHERE, {}]
        assert read_blocks(again) == read_blocks(first)


async def test_free_text_arrives_while_it_is_written(v1: V1, fake_api: FakeAPI) -> None:
    """Codex's patches: free text for OpenAI's models, an argument in JSON for others."""
    patch = 'say "hi" \\ to 🦉\r\n' + "line of the patch\n" * 5
    tool = {"type": "custom", "name": "patch", "description": "Edits."}
    body = {"model": "claude-sonnet-4-6", "stream": True, "input": "Edit.", "tools": [tool]}
    call = {"name": "patch", "arguments": {"input": patch}, "id": "call_a"}
    fake_api.script(text="", tool_calls=[call], gate="half", gate_after=2)
    async with asyncio.timeout(LIMIT), v1.session.post(PATHS[2], json=body) as answer:
        incoming = events(answer)
        while (event := await anext(incoming))["type"] != "response.custom_tool_call_input.delta":
            pass
        first = event["delta"]
        assert patch.startswith(first)
        fake_api.open_gate("half")
        stream = [event async for event in incoming]
    rest = [event["delta"] for event in stream if event["type"] == "response.custom_tool_call_input.delta"]
    assert first + "".join(rest) == patch
    last = next(event for event in stream if event["type"] == "response.custom_tool_call_input.done")
    assert last["input"] == patch
    assert stream[-1]["response"]["output"][-1]["input"] == patch


async def test_a_vendors_own_kind_of_call_is_streamed_to_clients_of_its_api(
    v1: V1, fake_api: FakeAPI
) -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "patch", "input": "abcd"}
    open_item = {**item, "input": "", "status": "in_progress"}
    position = {"output_index": 0, "item_id": "ctc_1"}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    response = {
        "object": "response",
        "model": "gpt-5",
        "status": "completed",
        "output": [item],
        "usage": usage,
    }
    rows: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "output_index": 0, "item": open_item},
        {"type": "response.custom_tool_call_input.delta", **position, "delta": "ab"},
        {"type": "response.custom_tool_call_input.delta", **position, "delta": "cd"},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    fake_api.script(raw="".join(f"event: {row['type']}\ndata: {json.dumps(row)}\n\n" for row in rows))
    tool = {"type": "custom", "name": "patch", "description": "Edits."}
    body = {"model": "gpt-5", "stream": True, "input": "Edit.", "tools": [tool]}
    stream = await stream_events(v1, PATHS[2], body)
    deltas = [event["delta"] for event in stream if event["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == "abcd"
    assert [event["item"] for event in stream if event["type"] == "response.output_item.done"] == [item]
    assert stream[-1]["response"]["output"] == [item]


def test_free_text_is_read_from_any_pieces() -> None:
    text = 'a"b\\c\n\t/ü🦉\u2028\x00 end'
    for document in (json.dumps({"input": text}), json.dumps({"input": text}, ensure_ascii=False)):
        for size in range(1, len(document) + 1):
            reader = CustomInput()
            parts = [document[start : start + size] for start in range(0, len(document), size)]
            assert "".join(map(reader.feed, parts)) == text
    assert CustomInput().feed('{"other": "x"}') == ""


def test_pieces_that_wait_for_a_slow_client_are_put_together() -> None:
    live = Live("job_1", ("gpt-5",))
    queue = EventQueue()
    live._listeners.add(queue)
    live.begin("0", "answer")
    for number in range(3 * MANY):
        name = f"call_{number // MANY}"
        live.tool_input("0", ToolInput(name, "look", "x"), "x")
    items: Any = merged(queue._items)
    inputs = [item for item in items if isinstance(item, ToolInputAdded)]
    assert [(item.id, item.offset, item.text) for item in inputs] == [
        (f"call_{number}", 0, "x" * MANY) for number in range(3)
    ]


def read_blocks(stream: list[Any]) -> Any:
    """A stream as a client reads it: texts and calls in their order, whatever pieces they arrive in."""
    blocks: dict[Any, dict[str, str]] = {}
    for event in stream:
        for key, kind, text in _changes(event):
            block = blocks.setdefault(key, {"kind": kind, "text": ""})
            block["text"] += text
    return [
        json.loads(block["text"] or "{}") if block["kind"] == "call" else block["text"]
        for block in blocks.values()
        if block["kind"] != "thinking"
    ]


def _changes(event: Any) -> list[tuple[Any, str, str]]:
    if "choices" in event:
        deltas = [choice["delta"] for choice in event["choices"]]
        texts = [("text", "text", delta["content"]) for delta in deltas if delta.get("content")]
        calls = [call for delta in deltas for call in delta.get("tool_calls") or ()]
        return [*texts, *((call["index"], "call", call["function"].get("arguments", "")) for call in calls)]
    delta: Any = event.get("delta")
    if event.get("type") == "content_block_delta":
        kind = {"text_delta": "text", "input_json_delta": "call"}.get(delta["type"], "thinking")
        return [(event["index"], kind, delta.get("text") or delta.get("partial_json") or "")]
    if event.get("type") == "response.function_call_arguments.delta":
        return [(event["output_index"], "call", delta)]
    return (
        [(event["output_index"], "text", delta)] if event.get("type") == "response.output_text.delta" else []
    )

"""One API's client asks another API's model: tools, images, reasoning, structured output, over two turns."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fake import FakeAPI
from support.v1 import V1, served

CLAUDE, GPT, GEMINI, DEEPSEEK = "claude-sonnet-4-6", "gpt-5", "gemini-2.5-pro", "deepseek-chat"
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as client:
        yield client


def png() -> str:
    data = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(data, "PNG")
    return base64.b64encode(data.getvalue()).decode()


def script_tool_call(fake: FakeAPI) -> None:
    """Reason, say something and call a tool; after its result, answer."""
    fake.script(
        thinking="I must look.",
        text="Let me look.",
        tool_calls=[{"name": "look", "arguments": {"n": 1}, "id": "call_a"}],
    )
    fake.script(text="A cat.")


# ── the clients ──────────────────────────────────────────────────────────────────────────────────────


async def _chat(v1: V1, model: str, *, stream: bool) -> str:
    tools: Any = [
        {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA}}
    ]
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png()}"}},
    ]
    messages: list[Any] = [{"role": "system", "content": "Be short."}, {"role": "user", "content": content}]
    ask: dict[str, Any] = {"model": model, "tools": tools, "tool_choice": "auto", "max_tokens": 500}
    if stream:
        async with v1.openai.chat.completions.stream(messages=messages, **ask) as stream_:
            async for _ in stream_:
                pass
            first = (await stream_.get_final_completion()).choices[0].message
    else:
        first = (await v1.openai.chat.completions.create(messages=messages, **ask)).choices[0].message
    assert first.content == "Let me look."
    assert first.tool_calls
    call = first.tool_calls[0]
    assert (call.function.name, call.function.arguments) == ("look", '{"n": 1}')
    message = first.model_dump(exclude_none=True, exclude={"parsed"})
    for entry in message["tool_calls"]:
        entry["function"].pop("parsed_arguments", None)
        entry.pop("index", None)
    result = {"role": "tool", "tool_call_id": call.id, "content": "fur"}
    last = await v1.openai.chat.completions.create(messages=[*messages, message, result], **ask)
    return last.choices[0].message.content or ""


async def _messages(v1: V1, model: str, *, stream: bool) -> str:
    tools: Any = [{"name": "look", "description": "Looks.", "input_schema": SCHEMA}]
    source = {"type": "base64", "media_type": "image/png", "data": png()}
    content = [{"type": "text", "text": "What is this?"}, {"type": "image", "source": source}]
    messages: list[Any] = [{"role": "user", "content": content}]
    ask: dict[str, Any] = {
        "model": model,
        "tools": tools,
        "tool_choice": {"type": "auto"},
        "max_tokens": 500,
        "system": "Be short.",
    }
    if stream:
        async with v1.anthropic.messages.stream(messages=messages, **ask) as stream_:
            first = await stream_.get_final_message()
    else:
        first = await v1.anthropic.messages.create(messages=messages, **ask)
    assert first.stop_reason == "tool_use"
    assert [block.type for block in first.content if block.type != "thinking"] == ["text", "tool_use"]
    call = first.content[-1]
    assert (call.name, call.input) == ("look", {"n": 1})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "fur"}
    answer = [block.model_dump(exclude_none=True) for block in first.content]
    turns = [{"role": "assistant", "content": answer}, {"role": "user", "content": [result]}]
    last = await v1.anthropic.messages.create(messages=[*messages, *turns], **ask)
    return "".join(block.text for block in last.content if block.type == "text")


async def _responses(v1: V1, model: str, *, stream: bool) -> str:
    tools: Any = [
        {"type": "function", "name": "look", "description": "Looks.", "parameters": SCHEMA, "strict": True}
    ]
    content = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{png()}", "detail": "auto"},
    ]
    items: list[Any] = [{"role": "user", "content": content}]
    ask: dict[str, Any] = {
        "model": model,
        "tools": tools,
        "tool_choice": "auto",
        "store": False,
        "instructions": "Be short.",
        "max_output_tokens": 500,
    }
    if stream:
        async with v1.openai.responses.stream(input=items, **ask) as stream_:
            first: Any = await stream_.get_final_response()
    else:
        first = await v1.openai.responses.create(input=items, **ask)
    call = next(item for item in first.output if item.type == "function_call")
    assert (call.name, call.arguments, first.output_text) == ("look", '{"n": 1}', "Let me look.")
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "fur"}
    answer = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in first.output]
    for item in answer:
        for part in item.get("content") or ():
            part.pop("parsed", None)
    last = await v1.openai.responses.create(input=[*items, *answer, output], **ask)
    return str(last.output_text)


CLIENTS = {"chat": _chat, "messages": _messages, "responses": _responses}


# ── what the vendors get in the second turn ──────────────────────────────────────────────────────────


def _seen_by_claude(body: Any) -> None:
    user, assistant, result = body["messages"]
    assert [block["type"] for block in user["content"]] == ["text", "image"]
    assert user["content"][1]["source"]["data"] == png()
    thinking, text, call = assistant["content"]
    assert (thinking["thinking"], thinking["signature"]) == ("I must look.", "fake-signature")
    assert (text["text"], call["name"], call["input"]) == ("Let me look.", "look", {"n": 1})
    (answer,) = result["content"]
    text_of_result = answer["content"] if isinstance(answer["content"], str) else answer["content"][0]["text"]
    assert (answer["tool_use_id"], text_of_result) == (call["id"], "fur")
    system = body["system"]
    assert (system if isinstance(system, str) else system[0]["text"]) == "Be short."
    assert (body["max_tokens"], body["tools"][0]["input_schema"]) == (500, SCHEMA)
    assert body["tool_choice"]["type"] == "auto"


def _seen_by_gpt(body: Any) -> None:
    user, reasoning, text, call, result = body["input"]
    assert [part["type"] for part in user["content"]] == ["input_text", "input_image"]
    assert user["content"][1]["image_url"].endswith(png())
    assert (reasoning["type"], reasoning["encrypted_content"]) == ("reasoning", "opaque==")
    content = text["content"] if isinstance(text["content"], str) else text["content"][0]["text"]
    assert (content, call["name"], call["arguments"]) == ("Let me look.", "look", '{"n": 1}')
    assert (result["call_id"], result["output"]) == (call["call_id"], "fur")
    assert (body["instructions"], body["max_output_tokens"]) == ("Be short.", 500)
    assert (body["tools"][0]["parameters"], body["tool_choice"], body["store"]) == (SCHEMA, "auto", False)


def _seen_by_gemini(body: Any) -> None:
    user, model, result = body["contents"]
    assert [next(iter(part)) for part in user["parts"]] == ["text", "inlineData"]
    assert user["parts"][1]["inlineData"]["data"] == png()
    text, call = model["parts"]
    assert (text["text"], call["functionCall"]["name"], call["functionCall"]["args"]) == (
        "Let me look.",
        "look",
        {"n": 1},
    )
    assert call["thoughtSignature"] == "ZmFrZQ=="
    assert result["parts"][0]["functionResponse"]["name"] == "look"
    assert body["systemInstruction"]["parts"] == [{"text": "Be short."}]
    assert body["generationConfig"]["maxOutputTokens"] == 500
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO"}}


VENDORS = {CLAUDE: _seen_by_claude, GPT: _seen_by_gpt, GEMINI: _seen_by_gemini}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("model", VENDORS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_tools_images_and_reasoning_make_a_round_trip(
    v1: V1, fake_api: FakeAPI, client: str, model: str, stream: bool
) -> None:
    script_tool_call(fake_api)
    assert await CLIENTS[client](v1, model, stream=stream) == "A cat."
    VENDORS[model](fake_api.calls[1].body)


async def test_calls_of_models_that_number_none_have_different_ids_in_every_turn(
    v1: V1, fake_api: FakeAPI
) -> None:
    """Other vendors refuse the same id twice; Gemini gets back what it sent, which is none."""
    call = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"}
    chunk = {"candidates": [{"content": {"parts": [call]}, "finishReason": "STOP"}]}
    fake_api.script(raw=f"data: {json.dumps(chunk)}\n\n", times=2)
    tools: Any = [{"name": "look", "input_schema": {"type": "object"}}]
    messages: list[Any] = [{"role": "user", "content": "x"}]
    names = []
    for model in (GEMINI, GEMINI, CLAUDE):
        answer = await v1.anthropic.messages.create(
            model=model, max_tokens=99, messages=messages, tools=tools
        )
        for block in answer.content:
            if block.type == "tool_use":
                names.append(block.id)
                result = {"type": "tool_result", "tool_use_id": block.id, "content": "fur"}
                content = [part.model_dump(exclude_none=True) for part in answer.content]
                messages += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    assert len(set(names)) == 2
    _, first, _ = fake_api.calls[1].body["contents"]
    assert first["parts"] == [call]
    assert all(name in str(fake_api.calls[2].body) for name in names)


async def test_reasoning_of_another_vendor_is_not_sent_to_it(v1: V1, fake_api: FakeAPI) -> None:
    """A client that changes the model in the middle."""
    fake_api.script(thinking="Hm.", text="Yes.", times=None)
    first = await v1.anthropic.messages.create(
        model=GPT, max_tokens=100, messages=[{"role": "user", "content": "x"}]
    )
    answer = [block.model_dump(exclude_none=True) for block in first.content]
    turns: Any = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "y"},
    ]
    for model in (CLAUDE, GEMINI, DEEPSEEK):
        await v1.anthropic.messages.create(model=model, max_tokens=100, messages=turns)
        assert "counsel1" not in str(fake_api.calls[-1].body)
        assert "Hm." not in str(fake_api.calls[-1].body)


async def test_structured_output_is_asked_for_in_each_vendors_way(v1: V1, fake_api: FakeAPI) -> None:
    fake_api.script(text='{"n": 1}', times=None)
    response_format: Any = {
        "type": "json_schema",
        "json_schema": {"name": "count", "schema": SCHEMA, "strict": True},
    }
    messages: Any = [{"role": "user", "content": "How many?"}]
    for model in (CLAUDE, GPT, GEMINI):
        answer = await v1.openai.chat.completions.create(
            model=model, messages=messages, response_format=response_format
        )
        assert answer.choices[0].message.content == '{"n": 1}'
    claude, gpt, gemini = [call.body for call in fake_api.calls]
    assert claude["output_config"]["format"] == {"type": "json_schema", "schema": SCHEMA}
    expected = {"type": "json_schema", "name": "count", "schema": SCHEMA, "strict": True}
    assert gpt["text"]["format"] == expected
    assert gemini["generationConfig"]["responseJsonSchema"] == SCHEMA


async def test_settings_are_sent_under_each_vendors_names(v1: V1, fake_api: FakeAPI) -> None:
    messages: Any = [{"role": "user", "content": "x"}]
    ask: dict[str, Any] = {"messages": messages, "stop": ["END"], "temperature": 0.7, "top_p": 0.9}
    for model in (GEMINI, DEEPSEEK):
        await v1.openai.chat.completions.create(model=model, **ask, presence_penalty=0.5)
    gemini, deepseek = [call.body for call in fake_api.calls]
    assert gemini["generationConfig"] == {
        "stopSequences": ["END"],
        "temperature": 0.7,
        "topP": 0.9,
        "presencePenalty": 0.5,
    }
    settings = {name: deepseek.get(name) for name in ("stop", "temperature", "top_p", "presence_penalty")}
    assert settings == {"stop": ["END"], "temperature": 0.7, "top_p": 0.9, "presence_penalty": 0.5}


async def test_an_image_by_address_is_passed_on_and_never_fetched(v1: V1, fake_api: FakeAPI) -> None:
    url = f"{fake_api.url}/secret.png"
    part = {"type": "image_url", "image_url": {"url": url}}
    messages: Any = [{"role": "user", "content": [part]}]
    for model in (CLAUDE, GPT):
        await v1.openai.chat.completions.create(model=model, messages=messages)
        assert url in str(fake_api.calls[-1].body)
    status, reply = await v1.post("/v1/chat/completions", {"model": GEMINI, "messages": messages})
    assert (status, "URL" in reply["error"]["message"]) == (400, True)
    assert len(fake_api.calls) == 2


async def test_images_in_a_tools_result_reach_the_model(v1: V1, fake_api: FakeAPI) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": png()}
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "image", "source": source}]}
    messages: Any = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    for model in (CLAUDE, GPT, GEMINI):
        await v1.anthropic.messages.create(model=model, max_tokens=9, messages=messages)
        assert png() in str(fake_api.calls[-1].body)

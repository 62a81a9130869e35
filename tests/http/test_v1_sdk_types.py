"""Every answer and every event of a stream is valid as the SDKs type it; the SDKs themselves do not check."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from fake import FakeAPI
from support.v1 import V1, served
from support.v1_views import SHAPES

USER = {"role": "user", "content": "hello"}
FUNCTION: dict[str, Any] = {"name": "look", "parameters": {"type": "object"}}
APIS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "/v1/chat/completions": (
        {
            "messages": [USER],
            "tools": [{"type": "function", "function": FUNCTION}],
            "stream_options": {"include_usage": True},
        },
        TypeAdapter(ChatCompletion),
        TypeAdapter(ChatCompletionChunk),
    ),
    "/v1/messages": (
        {
            "messages": [USER],
            "max_tokens": 3_000,
            "tools": [{"name": "look", "input_schema": {"type": "object"}}],
        },
        TypeAdapter(Message),
        TypeAdapter(RawMessageStreamEvent),
    ),
    "/v1/responses": (
        {"input": "hello", "tools": [{"type": "function", "strict": False, **FUNCTION}]},
        TypeAdapter(Response),
        TypeAdapter(ResponseStreamEvent),
    ),
}
ENDINGS: list[dict[str, Any]] = [
    {"finish": "filtered", "text": ""},
    {"text": "one two three", "error": "overloaded", "error_after": 1},
]


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as client:
        yield client


@pytest.mark.parametrize("path", APIS)
@pytest.mark.parametrize("model", ["gpt-5", "claude-sonnet-4-6", "gemini-2.5-pro"])
async def test_everything_is_valid_as_the_sdks_type_it(
    v1: V1, fake_api: FakeAPI, path: str, model: str
) -> None:
    body, answers, events = APIS[path]
    for shape in (*SHAPES, *ENDINGS):
        fake_api.reset()
        fake_api.script(**shape, times=None)
        if "error" not in shape:
            _, reply = await v1.post(path, {**body, "model": model})
            answers.validate_python(reply)
        async with v1.session.post(path, json={**body, "model": model, "stream": True}) as answer:
            lines = (await answer.text()).split("\n")
        stream_events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        for event in stream_events:
            if event.get("type") == "error" or "error" in event:
                continue
            events.validate_python(event)
        if path == "/v1/responses":
            assert [event["sequence_number"] for event in stream_events] == list(range(len(stream_events))), (
                shape
            )

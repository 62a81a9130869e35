"""What a vendor's SDK sees of an answer, without ids and times, which must differ between counsel and the vendor."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import openai
from openai.lib.streaming.chat import ChatCompletionStreamState

# Answers as the fake gives them: `FakeAPI.script(**shape)`.
SHAPES: list[dict[str, Any]] = [
    {},
    {"text": "Grüße 🦉 \u2028 end", "deltas": 7, "comments": True},
    {"thinking": "Let me see.", "text": "Yes."},
    {"tool_calls": [{"name": "look", "arguments": {"where": "here"}}, {"name": "look", "arguments": {}}]},
    {"thinking": "I look.", "text": "Let me look.", "tool_calls": [{"name": "look", "arguments": {"n": 1}}]},
    {"text": "cut", "finish": "length"},
    {"usage": {"input": 50, "output": 20, "reasoning": 7, "cache_read": 40}},
]


def chat(answer: Any) -> Any:
    document = answer.model_dump(exclude_none=True)
    for name in ("id", "created", "counsel", "system_fingerprint", "service_tier"):
        document.pop(name, None)
    for choice in document["choices"]:
        message = choice["message"]
        for name in ("reasoning_details", "annotations", "parsed"):
            message.pop(name, None)
        for call in message.get("tool_calls") or ():
            call.pop("id")
            call.pop("index", None)
    return document


def message(answer: Any) -> Any:
    document = answer.model_dump(exclude_none=True)
    for name in ("id", "counsel"):
        document.pop(name, None)
    for name in ("service_tier", "cache_creation"):
        document["usage"].pop(name, None)
    for block in document["content"]:
        if block["type"] == "tool_use":
            block.pop("id")
    return document


def response(answer: Any) -> Any:
    document = answer.model_dump(exclude_none=True)
    names = ("status", "model", "object", "output", "usage", "incomplete_details", "error")
    for item in document["output"]:
        item.pop("id")
        item.pop("call_id", None)
        for part in item.get("content") or ():
            part.pop("parsed", None)
        item.pop("parsed_arguments", None)
    return {name: document.get(name) for name in names}


async def chat_stream(client: openai.AsyncOpenAI, **ask: Any) -> Any:
    options: Any = {"include_usage": True}
    state = ChatCompletionStreamState()
    async for chunk in await client.chat.completions.create(**ask, stream=True, stream_options=options):
        with suppress(openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
            state.handle_chunk(chunk)
    return chat(state.current_completion_snapshot)


def without_repetitions(kinds: list[str]) -> list[str]:
    """The types of events without repetitions, because deltas may differ in size."""
    return [kind for kind, before in zip(kinds, ["", *kinds], strict=False) if kind != before]

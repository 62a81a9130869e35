"""Every client API with every vendor's wire: the SDK sees what it would see if the vendor spoke the client's API
itself.

The fake vendor gives the same answer in whichever API it is asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fake import FakeAPI
from support import v1_views
from support.v1 import V1, served

pytestmark = pytest.mark.thorough  # left out of `make check`: takes long

MODELS = ["gpt-5.1", "claude-sonnet-4-6", "gemini-2.5-pro", "deepseek-chat"]
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "unicode cut anywhere": {
        "text": 'Grüße 🦉 \u2028 e\u0301nd 👩‍👩‍👧 "q" \\ \t <b>',
        "deltas": 9,
        "split": 3,
    },
    "white space": {"text": "  lead and trail \n\n"},
    "thinking": {"thinking": "Let me see. 🦉", "text": "Yes."},
    "calls in parallel": {
        "tool_calls": [
            {"name": "f", "arguments": {"a": "ü"}},
            {"name": "f", "arguments": {}},
            {"name": "f", "arguments": {"a": {"b": [1, None, True, 1.5]}}},
        ]
    },
    "a call without arguments": {"tool_calls": [{"name": "f", "arguments": {}}]},
    "thinking, text and a call": {
        "thinking": "I look.",
        "text": "Let me look.",
        "tool_calls": [{"name": "f", "arguments": {"n": 1}}],
    },
    "cut": {"text": "cut", "finish": "length"},
    "usage": {"usage": {"input": 50, "output": 20, "cache_read": 40}},
    "long": {"size": 50_000},
}
SCHEMA: Any = {"type": "object", "properties": {}}
TOOLS: dict[str, Any] = {
    "chat": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
    "messages": [{"name": "f", "input_schema": SCHEMA}],
    "responses": [{"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}],
}
ASK: Any = [{"role": "user", "content": "go"}]
# What differs with every vendor; a block of reasoning without text is a signature of its own.
_HIDDEN = ("model", "signature", "encrypted_content", "reasoning_details")
_REASONING = ("thinking", "reasoning")


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as client:
        yield client


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        items = [_comparable(item) for item in value]
        return [item for item in items if not (isinstance(item, dict) and _is_only_signed(item))]
    if not isinstance(value, dict):
        return value
    rows = {name: _comparable(inner) for name, inner in value.items() if name not in _HIDDEN}
    return {name: inner for name, inner in rows.items() if inner not in (0, None, "", {}, [])}


def _is_only_signed(row: dict[str, Any]) -> bool:
    return row.keys() == {"type"} and row["type"] in _REASONING


async def _chat(client: Any, ask: dict[str, Any], *, stream: bool) -> Any:
    if stream:
        return await v1_views.chat_stream(client, messages=ASK, **ask)
    return v1_views.chat(await client.chat.completions.create(messages=ASK, **ask))


async def _messages(client: Any, ask: dict[str, Any], *, stream: bool) -> Any:
    ask = {"messages": ASK, "max_tokens": 4_000, **ask}
    if not stream:
        return v1_views.message(await client.messages.create(**ask))
    async with client.messages.stream(**ask) as events:
        return v1_views.message(await events.get_final_message())


async def _responses(client: Any, ask: dict[str, Any], *, stream: bool) -> Any:
    if not stream:
        return v1_views.response(await client.responses.create(input=ASK, **ask))
    async with client.responses.stream(input=ASK, **ask) as events:
        return v1_views.response([event async for event in events][-1].response)


CLIENTS = {"chat": _chat, "messages": _messages, "responses": _responses}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("api", CLIENTS)
async def test_a_client_sees_the_answer_as_if_the_vendor_spoke_its_api(
    v1: V1, fake_api: FakeAPI, api: str, model: str
) -> None:
    ours, vendors = (
        (v1.anthropic, v1.anthropic_vendor) if api == "messages" else (v1.openai, v1.openai_vendor)
    )
    for name, shape in SHAPES.items():
        fake_api.reset()
        fake_api.script(**shape, times=None)
        ask = {"model": model, **({"tools": TOOLS[api]} if "tool_calls" in shape else {})}
        for stream in (False, True):
            if (api, name, stream) == ("responses", "cut", False):
                continue  # the fake's plain responses are always complete
            actual, expected = [
                _comparable(await CLIENTS[api](client, ask, stream=stream)) for client in (ours, vendors)
            ]
            assert (name, stream, actual) == (name, stream, expected)

"""Every field of a request with a wrong value: refused in the API's own shape, or answered; never a failure of ours."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from counsel.errors import CounselError
from counsel.http.v1.chat import ChatCompletions
from counsel.http.v1.messages import Messages
from counsel.http.v1.responses import Responses
from fake import FakeAPI
from support.v1 import V1, served

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA: Any = {"type": "object", "properties": {"n": {"type": "integer"}}}
CHAT: Any = {
    "model": "gpt-5",
    "messages": [
        {"role": "system", "content": "s"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "x"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PNG}},
            ],
        },
        {
            "role": "assistant",
            "content": "y",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            "reasoning_details": [{"data": "x"}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "r"}]},
    ],
    "stream": False,
    "stream_options": {"include_usage": True},
    "temperature": 0.5,
    "top_p": 0.5,
    "max_tokens": 5,
    "max_completion_tokens": 5,
    "stop": ["a"],
    "tools": [
        {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True},
        }
    ],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "parallel_tool_calls": True,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "a", "schema": SCHEMA, "strict": True},
    },
    "reasoning_effort": "low",
    "store": False,
    "verbosity": "low",
    "frequency_penalty": 0.1,
    "presence_penalty": 0.1,
    "modalities": ["text"],
    "n": 1,
    "user": "u",
    "metadata": {"a": "b"},
    "prediction": {},
    "seed": None,
    "logprobs": False,
    "logit_bias": {},
}
MESSAGES: Any = {
    "model": "claude-sonnet-4-6",
    "max_tokens": 5,
    "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "x"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                {"type": "document", "source": {"type": "text", "data": "x"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "t", "signature": "sig"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "text", "text": "y"},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [
                        {"type": "text", "text": "r"},
                        {"type": "image", "source": {"type": "url", "url": "https://a/b"}},
                    ],
                    "is_error": False,
                }
            ],
        },
    ],
    "stream": False,
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 3,
    "stop_sequences": ["a"],
    "tools": [
        {"name": "f", "description": "d", "input_schema": SCHEMA, "strict": True},
        {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["a"]},
        {"type": "code_execution_1", "name": "c"},
    ],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
    "metadata": {"user_id": "u"},
    "container": None,
    "mcp_servers": [],
    "context_management": {},
    "service_tier": "auto",
}
RESPONSES: Any = {
    "model": "gpt-5",
    "instructions": "i",
    "input": [
        {"role": "developer", "content": "d"},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "x"},
                {"type": "input_image", "image_url": "data:image/png;base64," + PNG},
            ],
        },
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "y"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "namespace": "team"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "p", "input": "i"},
        {"type": "web_search_call", "id": "ws"},
        {"type": "function_call_output", "call_id": "c1", "output": "o"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "o"}]},
    ],
    "stream": False,
    "temperature": 0.5,
    "top_p": 0.5,
    "max_output_tokens": 5,
    "tools": [
        {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False, "description": "d"},
        {"type": "custom", "name": "p", "format": {"type": "grammar", "definition": "x"}},
        {
            "type": "namespace",
            "name": "team",
            "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}],
        },
        {"type": "web_search", "filters": {"allowed_domains": []}, "external_web_access": True},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "text": {
        "format": {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": True},
        "verbosity": "low",
    },
    "reasoning": {"effort": "low", "summary": "auto"},
    "include": ["reasoning.encrypted_content"],
    "store": False,
    "background": False,
    "previous_response_id": None,
    "conversation": None,
    "truncation": "disabled",
    "metadata": {"a": "b"},
    "user": "u",
    "stream_options": {},
    "client_metadata": {},
    "max_tool_calls": None,
}

APIS: dict[str, tuple[Any, Any]] = {
    "/v1/chat/completions": (ChatCompletions(), CHAT),
    "/v1/messages": (Messages(), MESSAGES),
    "/v1/responses": (Responses(), RESPONSES),
}
WRONG: list[Any] = [
    None, True, False, 0, -1, 10**30, 1.5, "", "x", "x" * 300, "\ud800",
    [], {}, [[]], [None], [1], ["x"], [{}], {"a": 1},
]  # fmt: skip


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path, fake_api) as client:
        yield client


def _paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in rows:
        yield from _paths(inner, (*at, name))


def _with_value(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    result = inner = copy.deepcopy(body)
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return result


def _is_accepted(api: Any, body: Any) -> bool:
    try:
        api.parse(body, {})
    except CounselError:
        return False
    return True


@pytest.mark.parametrize("path", APIS)
async def test_a_wrong_value_anywhere_is_refused_or_answered(v1: V1, fake_api: FakeAPI, path: str) -> None:
    api, body = APIS[path]
    assert _is_accepted(api, copy.deepcopy(body))
    fake_api.script(text="yes", times=None)
    refusals = 0
    for where in _paths(body):
        changes = (_with_value(body, where, value) for value in WRONG)
        valid = [change for change in changes if _is_accepted(api, copy.deepcopy(change))]
        refusals += len(WRONG) - len(valid)
        # of those that the parser accepts, one for each field is asked: the rest is the same for all
        for change in valid[:1]:
            for model in ("gpt-5", "claude-sonnet-4-6"):
                status, reply = await v1.post(path, {**change, "model": model})
                assert status in {200, 400, 404}, (where, model, reply)
                assert (status == 200) != ("error" in reply and bool(reply["error"])), (where, reply)
    assert refusals > 500

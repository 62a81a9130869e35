"""What becomes of a request in each of the three APIs (tests/golden/v1_requests.txt): a call, or a refusal that names
the field.

`COUNSEL_GOLDEN=write pytest …` rewrites the file: only for an intended change.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from counsel.errors import CounselError
from counsel.http.v1 import messages_request, opaque, reading, responses_request
from counsel.http.v1.chat import ChatCompletions
from counsel.http.v1.messages import Messages
from counsel.http.v1.responses import Responses
from counsel.types import Image, Thought

GOLDEN = Path(__file__).parent.parent / "golden" / "v1_requests.txt"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DATA_URL = f"data:image/png;base64,{PNG}"
SCHEMA: dict[str, object] = {"type": "object", "properties": {"n": {"type": "integer"}}}
OURS = opaque.encode("gemini", {"signature": "s"})
APIS: dict[str, Any] = {"chat": ChatCompletions(), "messages": Messages(), "responses": Responses()}
HEADERS = {b"anthropic-version": "2023-06-01", b"anthropic-beta": "context", b"cookie": "secret"}
MINIMAL: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
    "responses": {"model": "m", "input": "hi"},
}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any = None, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


def function(name: Any = "look", **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **fields}}


def chat_call(name: str = "c1", arguments: Any = '{"a": 1}', **fields: Any) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "look", "arguments": arguments}, **fields}


def output(name: str = "c1", content: Any = "seen") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": content}


LOOK = [function(description="Looks.", parameters=SCHEMA, strict=True), function("find")]
CHAT: list[dict[str, Any]] = [
    {},
    {"model": " m "}, {"model": " "}, {"model": None}, {"model": 5}, {"unknown": 1},
    {"messages": []}, {"messages": None}, {"messages": "hi"}, {"messages": ["hi"]}, {"messages": [{"role": "robot"}]},
    {"messages": [{"role": "system", "content": "s1"}, {"role": "developer", "content": "s2"}, user("hi")]},
    {"messages": [{"role": "system", "content": "s1"}, {"role": "developer", "content": "s2"}]},
    {"messages": [{"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
    {"messages": [{"role": "system", "content": [{"type": "image_url"}]}]},
    {"messages": [user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])]},
    {"messages": [user([
        {"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "auto"}},
        {"type": "text", "text": "b"}, {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "high"}},
    ])]},
    {"messages": [user([{"type": "image_url", "image_url": {"url": "ftp://a/b.png"}}])]},
    {"messages": [user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,%%"}}])]},
    {"messages": [user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}])]},
    {"messages": [user([{"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{PNG}"}}])]},
    {"messages": [user([{"type": "image_url", "image_url": "https://a/b.png"}])]},
    {"messages": [user([{"type": "input_audio"}])]}, {"messages": [user([{"type": "text"}])]},
    {"messages": [user([{}])]}, {"messages": [user([])]}, {"messages": [user(None)]}, {"messages": [user([5])]},
    {"messages": [user("\ud800x")]},
    {"messages": [{"role": "user", "content": "hi", "name": "ada", "mood": "good", "empty": ""}]},
    {"messages": [{"role": "user", "content": "hi", "name": 5}]},
    {"messages": [user("hi"), assistant("yes"), user("go on")]},
    {"messages": [user("hi"), assistant("yes", id="x", refusal="", reasoning="hm", parsed={}, annotations=[])]},
    {"messages": [user("hi"), assistant(refusal="no")]}, {"messages": [user("hi"), assistant("")]},
    {"messages": [user("hi"), assistant([{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}])]},
    {"messages": [user("hi"), assistant()]}, {"messages": [user("hi"), assistant("x", function_call={})]},
    {"messages": [user("hi"), assistant("x", reasoning_details=[{"data": OURS}, {"data": "theirs"}, 5])]},
    {"messages": [user("hi"), assistant("x", reasoning_details="theirs")]},
    {"messages": [user("hi"), assistant(tool_calls=[chat_call(), chat_call("c2", "")]), output("c2"), output()]},
    {"messages": [
        user("hi"), assistant(tool_calls=[chat_call()]), output(content=[{"type": "text", "text": "a"}]), user("so"),
    ]},
    {"messages": [user("hi"), assistant(tool_calls=[chat_call()])]},
    {"messages": [user("hi"), assistant(tool_calls=[chat_call(), chat_call("c2")]), output(), user("so")]},
    {"messages": [user("hi"), assistant(tool_calls=[chat_call(), chat_call()])]},
    {"messages": [user("hi"), output()]}, {"messages": [user("hi"), {"role": "tool", "content": "x"}]},
    {"messages": [user("hi"), assistant(tool_calls=[chat_call(arguments="{")])]},
    {"messages": [user("hi"), assistant(tool_calls=[chat_call(arguments="[]")])]},
    {"messages": [user("hi"), assistant(tool_calls=[chat_call(arguments={"a": 1})])]},
    {"messages": [user("hi"), assistant(tool_calls=[chat_call(type="custom")])]},
    {"messages": [user("hi"), assistant(tool_calls=[{"id": "c1", "function": {"name": "look", "arguments": ""}}]), output()]},
    {"messages": [user("hi"), assistant(tool_calls=[{"function": {"name": "look", "arguments": ""}}])]},
    {"messages": [user("hi"), assistant(tool_calls=[{"id": "c1"}])]},
    {"tools": LOOK}, {"tools": []}, {"tools": [{}]}, {"tools": [{"type": "function"}]}, {"tools": [function(None)]},
    {"tools": [function("x" * reading.LONGEST_TOOL_NAME)]}, {"tools": [function("x" * (reading.LONGEST_TOOL_NAME + 1))]},
    {"tools": [function("a b")]}, {"tools": [function("")]}, {"tools": [function("a.b:c/d_e-9")]},
    {"tools": [function(description=5)]}, {"tools": [function(parameters=[])]}, {"tools": [function(strict=1)]},
    {"tools": LOOK, "tool_choice": "auto"}, {"tools": LOOK, "tool_choice": "none"},
    {"tools": LOOK, "tool_choice": "required"}, {"tools": LOOK, "tool_choice": "any"}, {"tools": LOOK, "tool_choice": 5},
    {"tools": LOOK, "tool_choice": {"type": "function", "function": {"name": "find"}}},
    {"tools": LOOK, "tool_choice": {"type": "function", "function": {"name": "lose"}}},
    {"tools": LOOK, "tool_choice": {"type": "function", "name": "find"}}, {"tools": LOOK, "tool_choice": {"type": "tool"}},
    {"tool_choice": "auto"}, {"tool_choice": "none"}, {"tool_choice": "required"},
    {"tools": LOOK, "tool_choice": {"type": "allowed_tools", "allowed_tools": {
        "mode": "required", "tools": [{"type": "function", "function": {"name": "find"}}]}}},
    {"tools": LOOK, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
    {"tools": LOOK, "tool_choice": {"type": "allowed_tools", "allowed_tools": {
        "mode": "none", "tools": [{"type": "function", "function": {"name": "find"}}]}}},
    {"tools": LOOK, "tool_choice": {"type": "allowed_tools", "allowed_tools": {
        "mode": "auto", "tools": [{"type": "function", "function": {"name": "lose"}}]}}},
    {"n": 1}, {"n": 2}, {"n": 0}, {"modalities": ["text"]}, {"modalities": ["audio"]}, {"stream": True}, {"stream": 1},
    {"stream": True, "stream_options": {"include_usage": True}}, {"stream_options": {"include_usage": 1}},
    {"stream_options": {"include_usage": False}}, {"stream_options": []},
    {"temperature": 0}, {"temperature": 2}, {"temperature": 2.1}, {"temperature": -0.1}, {"temperature": True},
    {"top_p": 1}, {"top_p": 1.01}, {"max_tokens": 5}, {"max_tokens": 1}, {"max_tokens": 0}, {"max_completion_tokens": 7},
    {"max_tokens": 5, "max_completion_tokens": 7}, {"max_tokens": 1.5},
    {"frequency_penalty": -2}, {"frequency_penalty": 2.5}, {"presence_penalty": 2}, {"presence_penalty": -2.5},
    {"stop": "END"}, {"stop": ["a", "", "b"]}, {"stop": ["a", "b", "c", "d"]}, {"stop": ["a"] * 5}, {"stop": [5]},
    {"parallel_tool_calls": False}, {"parallel_tool_calls": "no"},
    {"reasoning_effort": "none"}, {"reasoning_effort": "minimal"}, {"reasoning_effort": "xhigh"},
    {"reasoning_effort": "max"}, {"reasoning_effort": "lots"}, {"verbosity": "low"}, {"verbosity": "loud"},
    {"response_format": {"type": "text"}}, {"response_format": {"type": "json_object"}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}},
    {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
    {"response_format": {"type": "json_schema"}}, {"response_format": {"type": "xml"}}, {"response_format": {}},
    {"store": True}, {"store": False}, {"store": "yes"},
    {"user": "u", "metadata": {"a": "b"}, "service_tier": "auto", "prediction": None}, {"user": 5},
    {"metadata": {"a": 5}}, {"metadata": []},
    {"seed": 0}, {"seed": None}, {"logprobs": False}, {"logprobs": True}, {"top_logprobs": 2}, {"logit_bias": {}},
    {"logit_bias": {"5": 1}}, {"web_search_options": {}}, {"functions": []}, {"functions": [{}]}, {"audio": {"voice": "x"}},
]  # fmt: skip


def tool_use(number: str = "t1", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": number, "name": "look", "input": {"a": 1}, **fields}


def tool_result(name: str = "t1", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, **fields}


def turns(*blocks: Any) -> dict[str, Any]:
    """The user's question, an answer with these blocks, and the user's next message."""
    return {"messages": [user("hi"), assistant(list(blocks)), user("go on")]}


def results(*blocks: Any) -> dict[str, Any]:
    return {"messages": [user("hi"), assistant([tool_use()]), user(list(blocks))]}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
OWN_LOOK = [
    {"name": "look", "description": "Looks.", "input_schema": SCHEMA, "strict": True, "cache_control": {}}
]
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
MESSAGES: list[dict[str, Any]] = [
    {},
    {"model": " "}, {"model": None}, {"unknown": 1}, {"max_tokens": None}, {"max_tokens": 0}, {"max_tokens": 1},
    {"max_tokens": "x"}, {"messages": []}, {"messages": None}, {"messages": [5]}, {"messages": [{"role": "robot"}]},
    {"messages": [{"role": "user", "content": "hi", "name": "x"}]}, {"messages": [user([])]}, {"messages": [user("")]},
    {"messages": [user("  ")]}, {"messages": [{"role": "system", "content": "s"}]}, {"messages": [assistant([])]},
    {"messages": [{"role": "system", "content": "late"}, user("hi")], "system": "early"},
    {"messages": [user("hi"), {"role": "system", "content": [IMAGE]}]},
    {"messages": [user("hi"), assistant("It is")]}, {"messages": [user("hi"), assistant([])]},
    {"messages": [user([{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}])]},
    {"messages": [user([{"type": "image", "source": {"type": "url", "url": "https://a/b.png"}}])]},
    {"messages": [user([{"type": "image", "source": {"type": "url", "url": "file:///b.png"}}])]},
    {"messages": [user([{"type": "image", "source": {"type": "file", "file_id": "f_1"}}])]},
    {"messages": [user([{"type": "image", "source": {"type": "file"}}])]}, {"messages": [user([{"type": "image"}])]},
    {"messages": [user([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "%"}}])]},
    {"messages": [user([{"type": "image", "source": {"type": "base64", "media_type": "image/jpg", "data": PNG}}])]},
    {"messages": [user([{"type": "document", "source": {}}])]}, {"messages": [user([{"type": "text"}])]},
    {"messages": [user([{"type": "document", "source": {}}, {"type": "text", "text": "a"}])]},
    {"messages": [user([{"type": "search_result"}, {"type": "container_upload"}])]},
    {"messages": [user([{"type": "video"}])]},
    turns({"type": "text", "text": "a"}, {"type": "text", "text": "b"}),
    turns({"type": "thinking", "thinking": "t", "signature": "theirs"}, {"type": "text", "text": "a"}),
    turns({"type": "thinking", "thinking": "t", "signature": ""}, {"type": "text", "text": "a"}),
    turns({"type": "thinking", "thinking": "t", "signature": OURS}, {"type": "text", "text": "a"}),
    turns({"type": "redacted_thinking", "data": "theirs"}, {"type": "redacted_thinking", "data": OURS}),
    turns({"type": "thinking", "thinking": "t", "signature": OURS}),
    turns({"type": "server_tool_use", "id": "s"}, {"type": "web_search_tool_result"}, {"type": "text", "text": "a"}),
    turns({"type": "compaction"}, {"type": "fallback"}, {"type": "computer_use"}), turns({"type": "video"}), turns({}),
    turns(tool_use()), turns(tool_use(), tool_use()), turns(tool_use(id=None)), turns(tool_use(input="x")),
    turns(tool_use(name="a b")),
    results(tool_result(content="seen")), results(tool_result()), results(tool_result(is_error=True, content="bad")),
    results(tool_result(content=[{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}])),
    results(tool_result(content=[{"type": "document"}, {"type": "image", "source": {"type": "file", "file_id": "f"}}])),
    results(tool_result(content=[{"type": "video"}])), results(tool_result(is_error="no")),
    results({"type": "text", "text": "so"}, tool_result(content="seen"), IMAGE), results(tool_result("t2")),
    results({"type": "text", "text": "so"}), results(tool_result(), tool_result()), results({"type": "tool_result"}),
    {"messages": [user("hi"), assistant([tool_use()]), assistant("x")]},
    {"messages": [user("hi"), assistant([tool_use("t1"), tool_use("t2")]), user([tool_result("t2"), tool_result("t1")])]},
    {"system": "s"}, {"system": ""}, {"system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"system": [IMAGE]}, {"system": 5}, {"system": []},
    {"temperature": 1}, {"temperature": 1.1}, {"top_p": 0.5}, {"top_p": -1}, {"top_k": 0}, {"top_k": -1}, {"stream": True},
    {"stop_sequences": ["a", "b"]}, {"stop_sequences": [" "]}, {"stop_sequences": [5]}, {"stop_sequences": "a"},
    {"thinking": {"type": "enabled", "budget_tokens": 1024}}, {"thinking": {"type": "enabled", "budget_tokens": 1023}},
    {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}, {"thinking": {"type": "adaptive"}},
    {"thinking": {"type": "between_tools"}}, {"thinking": {"type": "adaptive", "display": "omitted"}},
    {"thinking": {"type": "deep"}}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
    {"output_config": {"effort": "xhigh"}}, {"output_config": {"effort": "lots"}},
    {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}, "task_budget": {"total": 1}}},
    {"output_config": {"format": {"type": "xml"}}}, {"output_format": {"type": "json_schema", "schema": SCHEMA}},
    {"output_format": {"type": "json_schema"}},
    {"tools": OWN_LOOK}, {"tools": [*OWN_LOOK, *OWN_LOOK]}, {"tools": [{"name": "look"}]}, {"tools": [{"input_schema": {}}]},
    {"tools": [{"type": "custom", "name": "look", "input_schema": SCHEMA, "defer_loading": True, "examples": []}]},
    {"tools": [SEARCH]}, {"tools": [{**SEARCH, "allowed_domains": ["a"]}]}, {"tools": [{**SEARCH, "blocked_domains": ["a"]}]},
    {"tools": [*OWN_LOOK, {"type": "code_execution_1", "name": "c"}]}, {"tools": [{"type": "bash_1", "name": "b"}]},
    {"tools": [*OWN_LOOK, {"type": "bash_1"}], "tool_choice": {"type": "any"}},
    {"tools": [*OWN_LOOK, {"type": "bash_1"}], "tool_choice": {"type": "auto"}},
    {"tools": [SEARCH], "tool_choice": {"type": "any"}}, {"tools": [SEARCH], "tool_choice": {"type": "auto"}},
    {"tools": [SEARCH, *OWN_LOOK], "tool_choice": {"type": "any"}},
    {"tools": OWN_LOOK, "tool_choice": {"type": "tool", "name": "look"}},
    {"tools": OWN_LOOK, "tool_choice": {"type": "tool", "name": "find"}},
    {"tools": OWN_LOOK, "tool_choice": {"type": "tool"}}, {"tools": OWN_LOOK, "tool_choice": {"type": "none"}},
    {"tools": OWN_LOOK, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    {"tools": OWN_LOOK, "tool_choice": {"type": "auto", "disable_parallel_tool_use": False}},
    {"tools": OWN_LOOK, "tool_choice": {"type": "some"}}, {"tool_choice": {"type": "any"}}, {"tool_choice": "auto"},
    {"metadata": {"user_id": "u"}, "service_tier": "auto"}, {"metadata": 5}, {"mcp_servers": []}, {"mcp_servers": [{}]},
    {"mcp_servers": {}}, {"container": "c"}, {"compaction": {"on": True}}, {"thread": 5}, {"fallbacks": [1]},
]  # fmt: skip


def call(number: str = "c1", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": number, "name": "look", "arguments": '{"a": 1}', **fields}


def returned(name: str = "c1", value: Any = "seen", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": name, "output": value, **fields}


def items(*values: Any, **fields: Any) -> dict[str, Any]:
    return {"input": [user("hi"), *values], **fields}


FLAT_LOOK = {
    "type": "function",
    "name": "look",
    "description": "Looks.",
    "parameters": SCHEMA,
    "strict": True,
}
PATCH = {
    "type": "custom",
    "name": "patch",
    "description": "Patches.",
    "format": {"type": "grammar", "definition": "G"},
}
TEAM = {"type": "namespace", "name": "team", "tools": [FLAT_LOOK, PATCH]}
WEB = {"type": "web_search"}
ALLOWED = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "look"}]}
RESPONSES: list[dict[str, Any]] = [
    {},
    {"model": ""}, {"unknown": 1}, {"input": None}, {"input": []}, {"input": ""}, {"input": 5}, {"input": ["x"]},
    {"input": "", "instructions": "i"}, {"input": "", "previous_response_id": "resp_1"}, {"input": "", "conversation": "mine"},
    {"instructions": "i"}, {"instructions": 5}, {"input": [user("hi")], "instructions": "i"},
    {"input": [{"role": "system", "content": "s1"}, {"role": "developer", "content": "s2"}, user("hi")], "instructions": "i"},
    {"input": [{"role": "system", "content": "s1"}, {"role": "developer", "content": "s2"}]},
    {"input": [{"role": "tool", "content": "x"}]}, {"input": [{"content": "x"}]}, {"input": [{"type": 5}]},
    {"input": [{"role": "system", "content": [{"type": "input_image"}]}]},
    {"input": [user([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": DATA_URL, "detail": "auto"}])]},
    {"input": [user([{"type": "input_image", "image_url": DATA_URL, "detail": "high"}, {"type": "input_text", "text": "b"}])]},
    {"input": [user([{"type": "input_image", "file_id": "f"}])]}, {"input": [user([{"type": "input_file"}])]},
    {"input": [user([{"type": "input_image", "image_url": 5}])]}, {"input": [user([{"type": "input_video"}])]},
    {"input": [user([{"type": "input_text"}])]}, {"input": [user("  ")]},
    items(assistant("yes")), items(assistant([{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}])),
    items(assistant([{"type": "input_image"}])),
    items(call(), returned()), items(call()), items(call(), call()), items(returned()), items(call(), returned(), returned()),
    items(call(), call("c2"), returned("c2"), returned()), items(returned(), previous_response_id="resp_1"),
    items(call(namespace="team"), returned()), items(call(arguments="[")), items(call(name="a b")), items(call(call_id=None)),
    items({"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "x"},
          {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}),
    items(call(), returned(value=[{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": DATA_URL}])),
    items(call(), returned(value=5)), items(call(), {"type": "function_call_output", "output": "x"}),
    items({"type": "reasoning", "id": "rs_1", "encrypted_content": "theirs"}, assistant("a")),
    items({"type": "reasoning", "id": "rs_1", "encrypted_content": OURS}, assistant("a")),
    items({"type": "reasoning", "id": "rs_1"}, assistant("a")), {"input": [{"type": "reasoning", "id": "rs_1"}]},
    items({"type": "web_search_call", "id": "ws"}, assistant("a")), {"input": [{"type": "web_search_call"}]},
    items({"type": "compaction"}), {"input": [{"type": "compaction"}]},
    items({"type": "item_reference", "id": "x"}), items({"id": "msg_abc_0", "role": "assistant", "content": "a"}),
    {"conversation": "mine"}, {"conversation": {"id": "mine"}}, {"conversation": " "}, {"conversation": {}},
    {"conversation": "mine", "previous_response_id": "resp_1"}, {"previous_response_id": "resp_0a-B"},
    {"previous_response_id": "job_1"}, {"previous_response_id": "resp_"}, {"previous_response_id": f"resp_{'x' * 81}"},
    {"stream": True}, {"background": True}, {"background": True, "store": False}, {"store": False}, {"store": None},
    {"truncation": "auto"}, {"truncation": "disabled"}, {"truncation": "x"}, {"temperature": 2}, {"temperature": 3},
    {"top_p": 0.5}, {"max_output_tokens": 5}, {"max_output_tokens": 0}, {"parallel_tool_calls": False},
    {"metadata": {"a": "b"}}, {"metadata": {"a": 5}}, {"user": "u"}, {"client_metadata": {"a": "b"}}, {"prompt": {"id": "p"}},
    {"reasoning": {"effort": "none"}}, {"reasoning": {"effort": "high", "summary": "auto", "context": "x"}},
    {"reasoning": {"effort": "lots"}}, {"reasoning": 5},
    {"text": {"verbosity": "low"}}, {"text": {"verbosity": "x"}}, {"text": {"format": {"type": "text"}, "mood": "x"}},
    {"text": {"format": {"type": "json_object"}}}, {"text": {"format": {"type": "xml"}}}, {"text": {"format": {}}},
    {"text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA, "strict": False}}},
    {"include": ["reasoning.encrypted_content"]}, {"include": ["web_search_call.results"]}, {"include": [5]},
    {"include": ["message.output_text.logprobs"]}, {"top_logprobs": 2}, {"max_tool_calls": 3}, {"service_tier": "auto"},
    {"tools": []}, {"tools": [FLAT_LOOK]}, {"tools": [PATCH]}, {"tools": [{"type": "custom", "name": "p"}]},
    {"tools": [TEAM]}, {"tools": [{**TEAM, "tools": [{"type": "namespace"}]}]}, {"tools": [{**TEAM, "name": "a b"}]},
    {"tools": [{"type": "function", "name": "x" * 128}]}, {"tools": [{"type": "function", "name": "x" * 129}]},
    {"tools": [{"type": 5}]}, {"tools": [{}]}, {"tools": [FLAT_LOOK] * 1025},
    {"tools": [WEB]}, {"tools": [{"type": "web_search_preview"}]}, {"tools": [{**WEB, "external_web_access": False}]},
    {"tools": [{**WEB, "filters": {"allowed_domains": ["a"]}}]}, {"tools": [{**WEB, "filters": {}}]},
    {"tools": [WEB], "tool_choice": "required"}, {"tools": [WEB], "tool_choice": "auto"}, {"tools": [WEB], "tool_choice": "none"},
    {"tools": [WEB, FLAT_LOOK], "tool_choice": "required"}, {"tools": [WEB, FLAT_LOOK]},
    {"tools": [{"type": "code_interpreter"}]}, {"tools": [{"type": "code_interpreter"}, FLAT_LOOK]},
    {"tools": [{"type": "code_interpreter"}, FLAT_LOOK], "tool_choice": "required"},
    {"tools": [{"type": "code_interpreter"}], "tool_choice": "required"},
    {"tools": [FLAT_LOOK], "tool_choice": {"type": "function", "name": "look"}},
    {"tools": [FLAT_LOOK], "tool_choice": {"type": "function", "name": "lose"}},
    {"tools": [FLAT_LOOK], "tool_choice": {"type": "code_interpreter"}},
    {"tools": [PATCH], "tool_choice": {"type": "custom", "name": "patch"}}, {"tool_choice": "required"},
    {"tools": [FLAT_LOOK, PATCH], "tool_choice": ALLOWED}, {"tools": [FLAT_LOOK], "tool_choice": {**ALLOWED, "mode": "none"}},
    {"tools": [FLAT_LOOK], "tool_choice": {**ALLOWED, "tools": []}},
    {"tools": [FLAT_LOOK], "tool_choice": {**ALLOWED, "tools": [{"type": "web_search"}]}},
]  # fmt: skip
SHORT = {
    PNG: "PNG",
    OURS: "OURS",
    json.dumps(SCHEMA, sort_keys=True): "SCHEMA",
    "x" * 129: "X129",
    "x" * 128: "X128",
    "x" * 81: "X81",
}
CASES: dict[str, list[dict[str, Any]]] = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}


def _json(value: Any) -> str:
    text = json.dumps(value, default=_short, sort_keys=True)
    for long, short in SHORT.items():
        text = text.replace(long, short)
    return text if len(text) < 1_500 else f"{text[:200]}… {len(text)} characters"


def _short(value: Any) -> Any:
    if isinstance(value, Image):
        return f"{value.media_type or 'image'} {value.url or len(value.data)}"
    if isinstance(value, Thought):
        return ["thought", value.wire, value.item]
    if dataclasses.is_dataclass(value):
        return _fields(value)
    return sorted(value) if isinstance(value, set | frozenset) else dict(value)


def _fields(value: Any) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    rows = {}
    for field in dataclasses.fields(value):
        current = getattr(value, field.name)
        default = field.default_factory() if callable(field.default_factory) else field.default
        if field.name != "created" and current != default:
            rows[field.name] = current
    return rows


def _rows(api: str, changes: dict[str, Any]) -> dict[str, str]:
    """What the request becomes: the fields that are set, or the refusal."""
    body = {**MINIMAL[api], **changes}
    try:
        request = APIS[api].parse(dict(body), HEADERS)
    except CounselError as error:
        place, code = error.fields.get("param"), error.fields.get("api_code")
        return {"refused": f"{_json(error.message)} {_json(place)} {_json(code)}"}
    rows = _fields(request)
    completion = _fields(rows.pop("completion"))
    exact = _fields(completion.pop("exact")) if "exact" in completion else {}
    if native := exact.pop("native", None):
        rows["native"] = [
            "the body" if {**native.body} == body else dict(native.body),
            dict(native.headers),
        ]
    if "echo" in rows:  # it has a test of its own
        rows["echo"] = len(rows["echo"])
    return {name: _json(value) for name, value in {**rows, **completion, **exact}.items()}


def _outcome(api: str, changes: dict[str, Any]) -> list[str]:
    """How it differs from what the minimal request becomes."""
    usual, rows = _rows(api, {}) if changes else {}, _rows(api, changes)
    lines = [f"  {name} = {value}" for name, value in rows.items() if usual.get(name) != value]
    if "refused" not in rows:
        lines += [f"  no {name}" for name in usual if name not in rows]
    return lines or ["  as usual"]


def _document() -> str:
    lines = []
    for api, cases in CASES.items():
        for changes in cases:
            lines += [f"# {api} {_json(changes)}", *_outcome(api, changes)]
    return "\n".join(lines) + "\n"


def test_requests_become_the_same_calls_and_refusals_as_before() -> None:
    document = _document()
    if os.environ.get("COUNSEL_GOLDEN") == "write":
        GOLDEN.write_text(document)
    difference = difflib.unified_diff(
        GOLDEN.read_text().splitlines(), document.splitlines(), "golden", "now", "", "", 2
    )
    assert "\n".join(difference) == ""


@pytest.mark.parametrize(("api", "least"), [("chat", 60), ("messages", 50), ("responses", 40)])
def test_refusals_of_each_api_are_among_them(api: str, least: int) -> None:
    """Otherwise a parser that refuses everything, or nothing, could be written down."""
    refusals = sum(
        row.startswith("  refused") for changes in CASES[api] for row in _outcome(api, changes)[:1]
    )
    assert least < refusals < len(CASES[api]) - 30


def test_a_request_that_only_counts_tokens_needs_no_limit_and_takes_no_stream() -> None:
    def counted(body: dict[str, Any], headers: Any) -> Any:
        return messages_request.parse(body, headers, counts=True)

    without = {name: value for name, value in MINIMAL["messages"].items() if name != "max_tokens"}
    assert counted(without, {}).completion.max_output is None
    for name, value in (("max_tokens", 9), ("stream", False)):
        with pytest.raises(CounselError, match="Extra inputs are not permitted"):
            counted({**without, name: value}, {})


def test_what_a_stored_response_repeats_of_its_request() -> None:
    request = responses_request.parse(
        {**MINIMAL["responses"], "temperature": 0.5, "background": True, "conversation": "mine"}, {}
    )
    assert {name: request.echo[name] for name in ("temperature", "background", "store", "conversation", "tools")} == {
        "temperature": 0.5, "background": True, "store": True, "conversation": {"id": "mine"}, "tools": [],
    }  # fmt: skip

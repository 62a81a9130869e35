"""OpenAI Chat Completions: answers and chunks. `chat_request.py` reads the requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal, TypedDict

from counsel import strict_json
from counsel.answer_parts import AnswerPart, ThinkingPart, ToolCallPart
from counsel.errors import CounselError
from counsel.http.v1 import chat_request, errors, opaque
from counsel.http.v1.api import LARGEST, ApiAnswer, ApiRequest
from counsel.job_events import ToolInputAdded
from counsel.types import Usage

FINISH = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "filtered": "content_filter",
    "paused": "stop",
}


class _Head(TypedDict):
    id: str
    object: str
    created: int
    model: str


class _Function(TypedDict):
    name: str
    arguments: str


class _ToolCall(TypedDict):
    id: str
    type: Literal["function"]
    function: _Function


class ChatCompletions:
    largest = LARGEST

    def parse(self, body: dict[str, object], headers: Mapping[bytes, str]) -> ApiRequest:  # noqa: ARG002 (Api)
        return chat_request.parse(body)

    def plain(self, request: ApiRequest, job: str, answer: ApiAnswer) -> dict[str, object]:
        message: dict[str, object] = {
            "role": "assistant",
            "content": answer.text or None,
            "refusal": answer.refusal or None,
            "annotations": [],
        }
        if thinking := "".join(part.get("text", "") for part in answer.parts if part["type"] == "thinking"):
            message["reasoning_content"] = thinking
        if details := _details(answer.parts):
            message["reasoning_details"] = details
        if calls := [_call(part) for part in answer.parts if part["type"] == "tool_call"]:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
        return {
            **_head(request, job, "chat.completion"),
            "choices": [choice],
            "usage": usage(answer.usage),
            "counsel": dict(answer.counsel),
        }

    def renderer(self, request: ApiRequest, job: str) -> ChatRenderer:
        return ChatRenderer(request, job)

    def error(self, error: CounselError, status: int | None = None) -> Mapping[str, object]:
        return errors.openai(error, status)


def _finish(answer: ApiAnswer) -> str:
    """A model that refuses ends its answer itself; a filter cuts the answer off."""
    return "stop" if answer.is_own_refusal else FINISH[answer.reason]


def _head(request: ApiRequest, job: str, kind: str) -> _Head:
    return {
        "id": f"chatcmpl-{job.partition('_')[2]}",
        "object": kind,
        "created": int(request.created),
        "model": request.model,
    }


def _call(part: ToolCallPart) -> _ToolCall:
    function: _Function = {"name": part["name"], "arguments": json.dumps(part["arguments"])}
    return {"id": part["id"], "type": "function", "function": function}


def _details(parts: tuple[AnswerPart, ...]) -> list[dict[str, object]]:
    items = [part for part in parts if part["type"] == "thinking" and "item" in part]
    return [_detail(part, index) for index, part in enumerate(items)]


def _detail(part: ThinkingPart, index: int) -> dict[str, object]:
    """An entry of OpenRouter's field: clients that know the field send it back."""
    return {
        "type": "reasoning.encrypted",
        "data": opaque.encode(part["wire"], part["item"]),
        "format": "counsel1",
        "index": index,
    }


def usage(tokens: Usage) -> dict[str, object]:
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.total,
        "prompt_tokens_details": {
            "cached_tokens": tokens.cache_read,
            "cache_write_tokens": tokens.cache_write,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning, "audio_tokens": 0},
    }


class ChatRenderer:
    keepalive = b": keep-alive\n\n"

    def __init__(self, request: ApiRequest, job: str) -> None:
        self._request = request
        self._head = _head(request, job, "chat.completion.chunk")
        # All chunks with a text delta are the same except for the text.
        before, after = strict_json.encode(self._chunk({"content": "\0"})).split(b'"\\u0000"')
        self._before, self._after = b"data: " + before, after + b"\n\n"
        self._calls: dict[str, int] = {}  # indexes by id
        self._written: set[str] = set()  # ids of calls whose arguments were sent
        self._thoughts = 0

    def start(self) -> bytes:
        return _line(self._chunk({"role": "assistant", "content": ""}))

    def text(self, delta: str) -> bytes:
        return self._before + strict_json.encode(delta) + self._after

    def thinking(self, delta: str) -> bytes:
        return _line(self._chunk({"reasoning_content": delta}))

    def tool_input(self, call: ToolInputAdded) -> bytes:
        if call.item is not None:
            return b""
        first = call.id not in self._calls
        index = self._calls.setdefault(call.id, len(self._calls))
        if call.text.strip():
            self._written.add(call.id)
        function = {"name": call.name, "arguments": call.text} if first else {"arguments": call.text}
        head = {"id": call.id, "type": "function"} if first else {}
        return _line(self._chunk({"tool_calls": [{"index": index, **head, "function": function}]}))

    def _tool_call(self, part: ToolCallPart) -> bytes:
        call = _call(part)
        if part["id"] not in self._calls:
            index = self._calls[part["id"]] = len(self._calls)
            return _line(self._chunk({"tool_calls": [{"index": index, **call}]}))
        if part["id"] in self._written:
            return b""
        rest = {"index": self._calls[part["id"]], "function": {"arguments": call["function"]["arguments"]}}
        return _line(self._chunk({"tool_calls": [rest]}))

    def part(self, part: AnswerPart) -> bytes:
        if part["type"] == "tool_call":
            return self._tool_call(part)
        if part["type"] != "thinking":
            return b""
        index, self._thoughts = self._thoughts, self._thoughts + 1
        return _line(self._chunk({"reasoning_details": [_detail(part, index)]}))

    def end(self, answer: ApiAnswer) -> bytes:
        delta = {"refusal": answer.refusal} if answer.refusal else {}
        lines = _line(self._chunk(delta, _finish(answer), counsel=dict(answer.counsel)))
        if self._request.wants_usage:
            lines += _line({**self._head, "choices": [], "usage": usage(answer.usage)})
        return lines + b"data: [DONE]\n\n"

    def fail(self, error: CounselError) -> bytes:
        return _line(errors.openai(error))

    def _chunk(
        self, delta: Mapping[str, object], finish: str | None = None, **more: object
    ) -> dict[str, object]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage_of_chunk = {"usage": None} if self._request.wants_usage else {}
        return {**self._head, "choices": [choice], **usage_of_chunk, **more}


def _line(document: Mapping[str, object]) -> bytes:
    return b"data: " + strict_json.encode(document) + b"\n\n"

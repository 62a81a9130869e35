"""Anthropic Messages: answers and events. `messages_request.py` reads the requests."""

from __future__ import annotations

from collections.abc import Mapping

from counsel import json_reader as read
from counsel import strict_json
from counsel.answer_parts import AnswerPart, ThinkingPart, ToolCallPart
from counsel.errors import CounselError
from counsel.http.v1 import errors, messages_input, messages_request, opaque
from counsel.http.v1.api import LARGEST, ApiAnswer, ApiRequest, joined
from counsel.job_events import ToolInputAdded
from counsel.types import Usage

WIRE = messages_input.WIRE
STOP = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "filtered": "refusal",
    "paused": "pause_turn",
}


# Of refusals, as in the SDK's types.
_CATEGORIES = ("cyber", "bio", "frontier_llm", "reasoning_extraction", "general_harms")


class Messages:
    largest = LARGEST

    def parse(self, body: dict[str, object], headers: Mapping[bytes, str]) -> ApiRequest:
        return messages_request.parse(body, headers)

    def plain(self, request: ApiRequest, job: str, answer: ApiAnswer) -> dict[str, object]:
        blocks = [block for part in joined(answer.parts, WIRE) for block in _blocks(part)]
        return {
            **_message(request, job),
            "content": blocks,
            **_ending(answer),
            "usage": _usage(answer.usage),
            "counsel": dict(answer.counsel),
        }

    def renderer(self, request: ApiRequest, job: str) -> MessagesRenderer:
        return MessagesRenderer(request, job)

    def error(self, error: CounselError, status: int | None = None) -> Mapping[str, object]:
        return errors.anthropic(error, status)


def _message(request: ApiRequest, job: str) -> dict[str, object]:
    return {
        "id": f"msg_{job.partition('_')[2]}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _ending(answer: ApiAnswer) -> dict[str, object]:
    reason = "stop_sequence" if answer.stopped_by else STOP[answer.reason]
    ending: dict[str, object] = {"stop_reason": reason, "stop_sequence": answer.stopped_by}
    if answer.reason == "filtered":
        details = {
            "type": "refusal",
            "category": answer.refusal_kind if answer.refusal_kind in _CATEGORIES else None,
            "explanation": answer.refusal or None,
            **({"recommended_model": answer.recommended} if answer.recommended else {}),
        }
        ending["stop_details"] = details
    return ending


def _blocks(part: AnswerPart) -> list[dict[str, object]]:
    if part["type"] == "text":
        citations = {"citations": part["citations"]} if part.get("wire") == WIRE and part["citations"] else {}
        return [{"type": "text", "text": part["text"], **citations}] if part["text"] else []
    if part["type"] == "tool_call":
        return [{"type": "tool_use", "id": part["id"], "name": part["name"], "input": part["arguments"]}]
    if part["type"] == "vendor":
        return [part["item"]] if part["wire"] == WIRE else []
    return [_thinking(part)] if part.get("text") or "item" in part else []


def _thinking(part: ThinkingPart) -> dict[str, object]:
    if part.get("wire") == WIRE:
        return part["item"]
    return {"type": "thinking", "thinking": part.get("text", ""), "signature": signature(part)}


def signature(part: ThinkingPart) -> str:
    """Another vendor's block in the place of the signature, which clients send back."""
    return opaque.encode(part["wire"], part["item"]) if "item" in part else ""


def _usage(tokens: Usage) -> dict[str, object]:
    return {
        "input_tokens": tokens.input - tokens.cache_read - tokens.cache_write,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "output_tokens": tokens.output,
        **({"output_tokens_details": {"thinking_tokens": tokens.reasoning}} if tokens.reasoning else {}),
    }


class MessagesRenderer:
    """Blocks are opened by their first delta and closed by the next block."""

    keepalive = b'event: ping\ndata: {"type":"ping"}\n\n'

    def __init__(self, request: ApiRequest, job: str) -> None:
        self._request = request
        self._job = job
        self._index = -1
        self._open = ""  # the type of the open block
        self._calls: dict[str, int] = {}  # the block indexes of open tool calls, by id
        self._written: set[str] = set()  # ids of calls whose arguments were sent
        self._before = b""  # the part of a text delta before its text

    def start(self) -> bytes:
        message = {**_message(self._request, self._job), "usage": _usage(Usage())}
        return _event("message_start", {"message": message})

    def text(self, delta: str) -> bytes:
        opening = b""
        if self._open != "text":
            opening = self._begin("text", {"type": "text", "text": ""})
        return opening + self._before + strict_json.encode(delta) + b"}}\n\n"

    def thinking(self, delta: str) -> bytes:
        opening = b""
        if self._open != "thinking":
            opening = self._begin("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        return opening + self._delta({"type": "thinking_delta", "thinking": delta})

    def part(self, part: AnswerPart) -> bytes:
        if part["type"] == "vendor":
            return self._vendor(part["item"]) if part["wire"] == WIRE else b""
        if part["type"] == "text":
            return self.text(part["text"])
        return self._tool(part) if part["type"] == "tool_call" else self._thought(part)

    def _vendor(self, block: Mapping[str, object]) -> bytes:
        """A block of the vendor's own tool. Its arguments are streamed like those of a client's tool."""
        kind = read.text(block, "type")
        if kind == "citations":
            deltas = (
                self._delta({"type": "citations_delta", "citation": citation})
                for citation in read.values(block, "citations")
            )
            return b"".join(deltas) + self._end_block() if self._open == "text" else b""
        if not kind.endswith("_tool_use"):
            return self._begin(kind, block) + self._end_block()
        arguments = strict_json.dumps(block.get("input") or {})
        return (
            self._begin(kind, {**block, "input": {}})
            + self._delta({"type": "input_json_delta", "partial_json": arguments})
            + self._end_block()
        )

    def tool_input(self, call: ToolInputAdded) -> bytes:
        """The call's block stays open until the call is complete, even if other blocks come in between."""
        if call.item is not None:
            return b""
        opening = b"" if call.id in self._calls else self._begin_tool(call.id, call.name)
        if not call.text:
            return opening
        if call.text.strip():
            self._written.add(call.id)
        return opening + self._input(call.id, call.text)

    def _begin_tool(self, call_id: str, name: str) -> bytes:
        opening = self._begin("tool_use", {"type": "tool_use", "id": call_id, "name": name, "input": {}})
        self._calls[call_id], self._open = self._index, ""
        return opening

    def _input(self, call_id: str, text: str) -> bytes:
        delta = {"type": "input_json_delta", "partial_json": text}
        return _event("content_block_delta", {"index": self._calls[call_id], "delta": delta})

    def _tool(self, part: ToolCallPart) -> bytes:
        name = part["id"]
        data = b"" if name in self._calls else self._begin_tool(name, part["name"])
        if name not in self._written:
            data += self._input(name, strict_json.dumps(part["arguments"]))
        return data + _event("content_block_stop", {"index": self._calls.pop(name)})

    def _thought(self, part: ThinkingPart) -> bytes:
        """The signature of the thinking that was just sent, or a block without such text."""
        item = part["item"]
        own = part["wire"] == WIRE
        if own and item["type"] == "redacted_thinking":
            return self._begin("redacted_thinking", item) + self._end_block()
        value = item.get("signature") or "" if own else signature(part)
        opening = b""
        if self._open != "thinking":
            opening = self._begin("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        return opening + self._delta({"type": "signature_delta", "signature": value}) + self._end_block()

    def end(self, answer: ApiAnswer) -> bytes:
        body = {"delta": _ending(answer), "usage": _usage(answer.usage), "counsel": dict(answer.counsel)}
        return self._end_block() + _event("message_delta", body) + _event("message_stop", {})

    def fail(self, error: CounselError) -> bytes:
        return b"event: error\ndata: " + strict_json.encode(errors.anthropic(error)) + b"\n\n"

    def _begin(self, kind: str, block: Mapping[str, object]) -> bytes:
        ending = self._end_block()
        self._index += 1
        self._open = kind
        self._before = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
            b'"delta":{"type":"text_delta","text":' % self._index
        )
        return ending + _event("content_block_start", {"index": self._index, "content_block": block})

    def _delta(self, delta: Mapping[str, object]) -> bytes:
        return _event("content_block_delta", {"index": self._index, "delta": delta})

    def _end_block(self) -> bytes:
        if not self._open:
            return b""
        self._open = ""
        return _event("content_block_stop", {"index": self._index})


def _event(kind: str, data: Mapping[str, object]) -> bytes:
    return f"event: {kind}\ndata: ".encode() + strict_json.encode({"type": kind, **data}) + b"\n\n"

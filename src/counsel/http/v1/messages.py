"""Anthropic Messages: answers and events. `messages_request.py` reads the requests."""

from __future__ import annotations

from collections.abc import Mapping

from counsel import json_reader as read
from counsel import strict_json
from counsel.answer_parts import AnswerPart, ThinkingPart, ToolCallPart
from counsel.errors import CounselError
from counsel.http.v1 import errors, messages_input, messages_request, opaque
from counsel.http.v1.api import LARGEST, Asked, Ended, joined
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


_CATEGORIES = (
    "cyber",
    "bio",
    "frontier_llm",
    "reasoning_extraction",
    "general_harms",
)  # of refusals, as the SDK has them


class Messages:
    largest = LARGEST

    def parse(self, body: dict[str, object], headers: Mapping[bytes, str]) -> Asked:
        return messages_request.parse(body, headers)

    def plain(self, asked: Asked, job: str, answer: Ended) -> dict[str, object]:
        blocks = [block for part in joined(answer.parts, WIRE) for block in _blocks(part)]
        return {
            **_message(asked, job),
            "content": blocks,
            **_ending(answer),
            "usage": _usage(answer.usage),
            "counsel": dict(answer.about),
        }

    def renderer(self, asked: Asked, job: str) -> MessagesRenderer:
        return MessagesRenderer(asked, job)

    def error(self, error: CounselError, status: int | None = None) -> Mapping[str, object]:
        return errors.anthropic(error, status)


def _message(asked: Asked, job: str) -> dict[str, object]:
    return {
        "id": f"msg_{job.partition('_')[2]}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _ending(answer: Ended) -> dict[str, object]:
    reason = "stop_sequence" if answer.stopped_by else STOP[answer.reason]
    ending: dict[str, object] = {"stop_reason": reason, "stop_sequence": answer.stopped_by}
    if answer.reason == "filtered":
        about = {
            "type": "refusal",
            "category": answer.refusal_kind if answer.refusal_kind in _CATEGORIES else None,
            "explanation": answer.refusal or None,
            **({"recommended_model": answer.recommended} if answer.recommended else {}),
        }
        ending["stop_details"] = about
    return ending


def _blocks(part: AnswerPart) -> list[dict[str, object]]:
    if part["type"] == "text":
        cited = {"citations": part["citations"]} if part.get("wire") == WIRE and part["citations"] else {}
        return [{"type": "text", "text": part["text"], **cited}] if part["text"] else []
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
    """Another vendor's block, where the client sends a signature back."""
    return opaque.encode(part["wire"], part["item"]) if "item" in part else ""


def _usage(used: Usage) -> dict[str, object]:
    return {
        "input_tokens": used.input - used.cache_read - used.cache_write,
        "cache_creation_input_tokens": used.cache_write,
        "cache_read_input_tokens": used.cache_read,
        "output_tokens": used.output,
        **({"output_tokens_details": {"thinking_tokens": used.reasoning}} if used.reasoning else {}),
    }


class MessagesRenderer:
    """Blocks are opened by their first delta and closed by the next block."""

    keepalive = b'event: ping\ndata: {"type":"ping"}\n\n'

    def __init__(self, asked: Asked, job: str) -> None:
        self._asked = asked
        self._job = job
        self._index = -1
        self._open = ""  # the type of the open block
        self._calls: dict[str, int] = {}  # open tool calls, by id: the index of their block
        self._written: set[str] = set()  # calls of which arguments were sent
        self._before = b""  # of a text delta: everything in front of its text

    def start(self) -> bytes:
        message = {**_message(self._asked, self._job), "usage": _usage(Usage())}
        return _event("message_start", {"message": message})

    def text(self, delta: str) -> bytes:
        opened = b""
        if self._open != "text":
            opened = self._begin("text", {"type": "text", "text": ""})
        return opened + self._before + strict_json.encode(delta) + b"}}\n\n"

    def thinking(self, delta: str) -> bytes:
        opened = b""
        if self._open != "thinking":
            opened = self._begin("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        return opened + self._delta({"type": "thinking_delta", "thinking": delta})

    def part(self, part: AnswerPart) -> bytes:
        if part["type"] == "vendor":
            return self._vendor(part["item"]) if part["wire"] == WIRE else b""
        if part["type"] == "text":
            return self.text(part["text"])
        return self._tool(part) if part["type"] == "tool_call" else self._thought(part)

    def _vendor(self, block: Mapping[str, object]) -> bytes:
        """What the vendor's own tool did. Its arguments are streamed like those of a client's tool."""
        kind = read.text(block, "type")
        if kind == "citations":
            deltas = (
                self._delta({"type": "citations_delta", "citation": each})
                for each in read.values(block, "citations")
            )
            return b"".join(deltas) + self._end_block() if self._open == "text" else b""
        if not kind.endswith("_tool_use"):
            return self._begin(kind, block) + self._end_block()
        whole = strict_json.dumps(block.get("input") or {})
        return (
            self._begin(kind, {**block, "input": {}})
            + self._delta({"type": "input_json_delta", "partial_json": whole})
            + self._end_block()
        )

    def tool_input(self, call: ToolInputAdded) -> bytes:
        """The call's block stays open until the call is whole, whatever other blocks come in between."""
        if call.item is not None:
            return b""
        opened = b"" if call.id in self._calls else self._begin_tool(call.id, call.name)
        if not call.text:
            return opened
        if call.text.strip():
            self._written.add(call.id)
        return opened + self._input(call.id, call.text)

    def _begin_tool(self, call_id: str, name: str) -> bytes:
        opened = self._begin("tool_use", {"type": "tool_use", "id": call_id, "name": name, "input": {}})
        self._calls[call_id], self._open = self._index, ""
        return opened

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
        """The signature of the thinking that was just sent; or a block of which nothing was sent."""
        item = part["item"]
        own = part["wire"] == WIRE
        if own and item["type"] == "redacted_thinking":
            return self._begin("redacted_thinking", item) + self._end_block()
        signed = item.get("signature") or "" if own else signature(part)
        opened = b""
        if self._open != "thinking":
            opened = self._begin("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        return opened + self._delta({"type": "signature_delta", "signature": signed}) + self._end_block()

    def end(self, answer: Ended) -> bytes:
        body = {"delta": _ending(answer), "usage": _usage(answer.usage), "counsel": dict(answer.about)}
        return self._end_block() + _event("message_delta", body) + _event("message_stop", {})

    def fail(self, error: CounselError) -> bytes:
        return b"event: error\ndata: " + strict_json.encode(errors.anthropic(error)) + b"\n\n"

    def _begin(self, kind: str, block: Mapping[str, object]) -> bytes:
        closed = self._end_block()
        self._index += 1
        self._open = kind
        self._before = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
            b'"delta":{"type":"text_delta","text":' % self._index
        )
        return closed + _event("content_block_start", {"index": self._index, "content_block": block})

    def _delta(self, delta: Mapping[str, object]) -> bytes:
        return _event("content_block_delta", {"index": self._index, "delta": delta})

    def _end_block(self) -> bytes:
        if not self._open:
            return b""
        self._open = ""
        return _event("content_block_stop", {"index": self._index})


def _event(kind: str, data: Mapping[str, object]) -> bytes:
    return f"event: {kind}\ndata: ".encode() + strict_json.encode({"type": kind, **data}) + b"\n\n"

"""OpenAI Responses: answers and events. `responses_request.py` reads the requests."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from counsel import json_reader as read
from counsel import strict_json
from counsel.answer_parts import AnswerPart, ThinkingPart, ToolCallPart, VendorPart
from counsel.errors import CounselError
from counsel.http.v1 import errors, opaque, responses_request
from counsel.http.v1.api import LARGEST, Asked, Ended, Renamed, joined
from counsel.http.v1.custom_input import CustomInput
from counsel.job_events import ToolInputAdded
from counsel.lazy_dataclass import dataclass
from counsel.text import missing
from counsel.types import Usage

WIRE = responses_request.WIRE
_FIELDS = {  # by the type of a call: the field with its arguments, and the name of their events
    "function_call": ("arguments", "function_call_arguments"),
    "custom_tool_call": ("input", "custom_tool_call_input"),
}
_NO_BLOCK: ThinkingPart = {"type": "thinking"}
_POSITIONS = ("start_index", "end_index")
_BEGINNING = ("response.created", "response.in_progress")
# Of a response that failed. The SDK's type has no other codes than these, besides those of pictures and policies; Codex
# knows the last two.
_CODES = (
    "server_error",
    "rate_limit_exceeded",
    "invalid_prompt",
    "context_length_exceeded",
    "insufficient_quota",
)
_OTHER_CODES = {"budget_exceeded": "insufficient_quota", "content_filter": "invalid_prompt"}
_INCOMPLETE = {"length": "max_output_tokens", "filtered": "content_filter"}


class Responses:
    largest = LARGEST

    def parse(self, body: dict[str, object], headers: Mapping[bytes, str]) -> Asked:
        return responses_request.parse(body, headers)

    def plain(self, asked: Asked, job: str, answer: Ended) -> dict[str, object]:
        names = Names(job)
        items = [item for part in joined(answer.parts, WIRE) for item in _items(part, names, asked)]
        if answer.refusal:
            items.append(_refusal(answer.refusal, names.next("msg")))
        return ended(asked, job, answer, items)

    def renderer(self, asked: Asked, job: str) -> ResponsesRenderer:
        return ResponsesRenderer(asked, job)

    def error(self, error: CounselError, status: int | None = None) -> Mapping[str, object]:
        return errors.openai(error, status)


RESPONSES = Responses()


class Names:
    """The ids of a response's items: a stored item is found again by its kind and its number among those of its kind."""

    def __init__(self, job: str) -> None:
        self._job = job.partition("_")[2]
        self._counts: dict[str, int] = {}

    def next(self, kind: str) -> str:
        number = self._counts.get(kind, 0)
        self._counts[kind] = number + 1
        return f"{kind}_{self._job}_{number}"


def open_response(asked: Asked, job: str, status: str = "in_progress") -> dict[str, object]:
    """A response that has not ended."""
    return {
        "id": f"resp_{job.partition('_')[2]}",
        "object": "response",
        "created_at": int(asked.created),
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": asked.model,
        "output": [],
        "usage": None,
        **asked.echo,
    }


def ended(asked: Asked, job: str, answer: Ended, items: list[dict[str, object]]) -> dict[str, object]:
    # A model that refuses has ended its answer; a filter has cut it.
    incomplete = None if answer.says_no else _INCOMPLETE.get(answer.reason)
    return {
        **open_response(asked, job, "incomplete" if incomplete else "completed"),
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "output": items,
        "usage": usage(answer.usage),
        "completed_at": int(asked.finished or time.time()),
        "counsel": dict(answer.about),
    }


def failed(asked: Asked, job: str, error: CounselError) -> dict[str, object]:
    shown = errors.openai(error)["error"]
    status = "cancelled" if error.code == "CANCELLED" else "failed"
    code = shown["code"] if shown["code"] in _CODES else _OTHER_CODES.get(str(shown["code"]), "server_error")
    about = {"code": code, "message": shown["message"]}
    return {
        **open_response(asked, job, status),
        "error": None if status == "cancelled" else about,
        "counsel": {"job_id": job, "code": error.code},
    }


def _items(part: AnswerPart, names: Names, asked: Asked) -> list[dict[str, object]]:
    if part["type"] == "text":
        text, name = part["text"], names.next("msg")
        if part.get("wire") != WIRE:
            return [_message(text, name)] if text else []
        notes = _annotations(part["citations"], part["length"], text)
        return [_message(text, name, notes=notes, phase=part.get("phase"))] if text else []
    if part["type"] == "tool_call":
        return [_call(part, names, asked)]
    if part["type"] == "vendor":
        return [part["item"]] if part["wire"] == WIRE else []
    text = part.get("text", "")
    return [_reasoning(part, text, names.next("rs"))] if text or "item" in part else []


def _annotations(notes: list[dict[str, object]], length: int, text: str) -> list[dict[str, object]]:
    """OpenAI's, with their positions in `text`, which may begin with another message's text."""
    shift = len(text) - length
    return [
        {
            name: value + shift if name in _POSITIONS and isinstance(value, int) else value
            for name, value in note.items()
        }
        for note in notes
    ]


def _message(
    text: str,
    name: str,
    status: str = "completed",
    *,
    notes: list[dict[str, object]] | None = None,
    phase: str | None = None,
) -> dict[str, object]:
    """`phase`: clients send it back, because OpenAI's models answer worse without it."""
    part = {"type": "output_text", "text": text, "annotations": notes or [], "logprobs": []}
    return {
        "type": "message",
        "id": name,
        "role": "assistant",
        "status": status,
        "content": [part] if status == "completed" else [],
        **({"phase": phase} if phase else {}),
    }


def _refusal(text: str, name: str) -> dict[str, object]:
    part = {"type": "refusal", "refusal": text}
    return {
        "type": "message",
        "id": name,
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _call(part: ToolCallPart, names: Names, asked: Asked) -> dict[str, object]:
    """With the name that the client has for the tool."""
    about: Renamed = asked.tools.get(part["name"], {})
    head = {"call_id": part["id"], "name": about.get("name", part["name"]), "status": "completed"}
    namespace = part.get("namespace") or about.get("namespace")
    if namespace:
        head["namespace"] = namespace
    if about.get("custom"):
        return {
            "type": "custom_tool_call",
            "id": names.next("ctc"),
            **head,
            "input": _arguments(part, "input"),
        }
    return {
        "type": "function_call",
        "id": names.next("fc"),
        **head,
        "arguments": _arguments(part, "arguments"),
    }


def _arguments(part: ToolCallPart, field: str) -> str:
    """A tool with free text has it as its only argument."""
    return str(part["arguments"].get("input") or "") if field == "input" else json.dumps(part["arguments"])


def _reasoning(part: ThinkingPart, text: str, name: str) -> dict[str, object]:
    if part.get("wire") == WIRE:
        return {**part["item"], "id": name}
    summary = [{"type": "summary_text", "text": text}] if text else []
    packed = {"encrypted_content": opaque.encode(part["wire"], part["item"])} if "item" in part else {}
    return {"type": "reasoning", "id": name, "summary": summary, **packed}


def usage(used: Usage) -> dict[str, object]:
    return {
        "input_tokens": used.input,
        "input_tokens_details": {
            "cached_tokens": used.cache_read,
            "cache_write_tokens": used.cache_write,
        },
        "output_tokens": used.output,
        "output_tokens_details": {"reasoning_tokens": used.reasoning},
        "total_tokens": used.total,
    }


@dataclass(slots=True)
class _OpenCall:
    """A tool call while its arguments arrive."""

    index: int  # of its item
    item: dict[str, object]
    id: str
    field: str  # of the item, with its arguments
    event: str  # the name of their events
    decoder: CustomInput | None  # its arguments are free text in JSON
    sent: str = ""


class ResponsesRenderer:
    """Items are opened by their first delta and closed by the next item."""

    keepalive = b": keep-alive\n\n"

    def __init__(self, asked: Asked, job: str) -> None:
        self._asked, self._job = asked, job
        self._names = Names(job)
        self._id = ""  # of the open item
        self._sequence = len(_BEGINNING)  # `start` is rendered behind the first piece, and sent before it
        self._items: list[dict[str, object]] = []
        self._calls: dict[str, _OpenCall] = {}
        self._open = ""  # message or reasoning
        self._pieces: list[str] = []  # of the open item

    def start(self) -> bytes:
        response = {"response": open_response(self._asked, self._job)}
        return b"".join(_event(kind, number, response) for number, kind in enumerate(_BEGINNING))

    def text(self, delta: str) -> bytes:
        opened = b""
        if self._open != "message":
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            opened = self._begin("message", _message("", self._names.next("msg"), "in_progress"))
            opened += self._event("response.content_part.added", {**self._there(), "part": part})
        self._pieces.append(delta)
        where = {**self._there(), "delta": delta, "logprobs": []}
        return opened + self._event("response.output_text.delta", where)

    def thinking(self, delta: str) -> bytes:
        opened = b""
        if self._open != "reasoning":
            opened = self._begin("reasoning", _reasoning(_NO_BLOCK, "", self._names.next("rs")))
            part = {"type": "summary_text", "text": ""}
            opened += self._event("response.reasoning_summary_part.added", {**self._there(), "part": part})
        self._pieces.append(delta)
        return opened + self._event(
            "response.reasoning_summary_text.delta", {**self._there(), "delta": delta}
        )

    def part(self, part: AnswerPart) -> bytes:
        if part["type"] == "tool_call":
            return self._call(part)
        if part["type"] == "vendor":
            return self._vendor(part)
        if part["type"] == "text":
            return self.text(part["text"])
        if self._open == "reasoning":
            return self._end_item(part)
        closed = self._end_item()
        return closed + self._whole(_reasoning(part, "", self._names.next("rs")))

    def _vendor(self, part: VendorPart) -> bytes:
        item = part["item"]
        if part["wire"] != WIRE:
            return b""
        if opened := self._calls.pop(read.text(item, "call_id"), None):
            return self._end_call(opened, item)
        if item["type"] != "citations":
            return self._end_item() + self._whole(item)
        if self._open != "message":
            return b""
        text = "".join(self._pieces)
        notes = _annotations(read.parts(item, "citations"), read.integer(item, "length"), text)
        added = [
            self._event(
                "response.output_text.annotation.added",
                {**self._there(), "annotation_index": index, "annotation": note},
            )
            for index, note in enumerate(notes)
        ]
        return b"".join(added) + self._end_item(notes=notes, phase=read.text(item, "phase"))

    def tool_input(self, call: ToolInputAdded) -> bytes:
        """The call's item stays open until the call is whole, whatever other items come in between."""
        data = b""
        opened = self._calls.get(call.id)
        if opened is None:
            part: ToolCallPart = {
                "type": "tool_call",
                "id": call.id,
                "name": call.name,
                "arguments": {},
                "namespace": call.namespace,
            }
            item = call.item or _call(part, self._names, self._asked)
            opened, data = self._begin_call(call.id, item, is_native=call.item is not None)
        new = opened.decoder.feed(call.text) if opened.decoder else call.text
        return data + self._input(opened, new)

    def _begin_call(
        self, call_id: str, item: dict[str, object], *, is_native: bool
    ) -> tuple[_OpenCall, bytes]:
        data = self._end_item()
        kind = read.text(item, "type")
        decoder = CustomInput() if kind == "custom_tool_call" and not is_native else None
        opened = _OpenCall(len(self._items), item, read.text(item, "id"), *_FIELDS[kind], decoder)
        self._calls[call_id] = opened
        self._items.append(item)
        shown = {**item, opened.field: "", "status": "in_progress"}
        return opened, data + self._event(
            "response.output_item.added", {"output_index": opened.index, "item": shown}
        )

    def _input(self, opened: _OpenCall, delta: str) -> bytes:
        if not delta:
            return b""
        opened.sent += delta
        where = {"output_index": opened.index, "item_id": opened.id, "delta": delta}
        return self._event(f"response.{opened.event}.delta", where)

    def _call(self, part: ToolCallPart) -> bytes:
        data = b""
        if part["id"] not in self._calls:
            _, data = self._begin_call(part["id"], _call(part, self._names, self._asked), is_native=True)
        opened = self._calls.pop(part["id"])
        whole = _arguments(part, opened.field)
        if opened.field == "arguments" and opened.sent.strip():
            whole = opened.sent  # as the vendor wrote it
        return data + self._end_call(opened, {**opened.item, opened.field: whole})

    def _end_call(self, opened: _OpenCall, item: dict[str, object]) -> bytes:
        field = opened.field
        rest = self._input(opened, missing(opened.sent, read.text(item, field)))
        inside = {"output_index": opened.index, "item_id": item["id"]}
        name = {"name": item["name"]} if field == "arguments" else {}
        self._items[opened.index] = item
        return (
            rest
            + self._event(f"response.{opened.event}.done", {**inside, **name, field: item[field]})
            + self._event("response.output_item.done", {"output_index": opened.index, "item": item})
        )

    def _whole(self, item: dict[str, object]) -> bytes:
        index = len(self._items)
        self._items.append(item)
        where = {"output_index": index, "item": item}
        return self._event("response.output_item.added", where) + self._event(
            "response.output_item.done", where
        )

    def end(self, answer: Ended) -> bytes:
        data = self._end_item()
        if answer.refusal:
            data += self._whole(_refusal(answer.refusal, self._names.next("msg")))
        response = ended(self._asked, self._job, answer, self._items)
        return data + self._event(f"response.{response['status']}", {"response": response})

    def fail(self, error: CounselError) -> bytes:
        response = {**failed(self._asked, self._job, error), "output": self._items}
        return self._event("response.failed", {"response": {**response, "status": "failed"}})

    def _there(self) -> dict[str, object]:
        index = {"content_index": 0} if self._open == "message" else {"summary_index": 0}
        return {"item_id": self._id, "output_index": len(self._items), **index}

    def _begin(self, kind: str, item: Mapping[str, object]) -> bytes:
        closed = self._end_item()
        self._open = kind
        self._id = read.text(item, "id")
        return closed + self._event(
            "response.output_item.added", {"output_index": len(self._items), "item": item}
        )

    def _end_item(
        self,
        thought: ThinkingPart | None = None,
        *,
        notes: list[dict[str, object]] | None = None,
        phase: str = "",
    ) -> bytes:
        """`thought`: the vendor's block of the reasoning that ends."""
        if not self._open:
            return b""
        text, there = "".join(self._pieces), self._there()
        if self._open == "message":
            item = _message(text, self._id, notes=notes, phase=phase)
            ends = self._event("response.output_text.done", {**there, "text": text, "logprobs": []})
            ends += self._event(
                "response.content_part.done", {**there, "part": read.values(item, "content")[0]}
            )
        else:
            item = _reasoning(thought or _NO_BLOCK, text, self._id)
            part = {"type": "summary_text", "text": text}
            ends = self._event("response.reasoning_summary_text.done", {**there, "text": text})
            ends += self._event("response.reasoning_summary_part.done", {**there, "part": part})
        ends += self._event("response.output_item.done", {"output_index": len(self._items), "item": item})
        self._items.append(item)
        self._open, self._pieces = "", []
        return ends

    def _event(self, kind: str, data: Mapping[str, object]) -> bytes:
        number, self._sequence = self._sequence, self._sequence + 1
        return _event(kind, number, data)


def _event(kind: str, number: int, data: Mapping[str, object]) -> bytes:
    body = strict_json.encode({"type": kind, "sequence_number": number, **data})
    return f"event: {kind}\ndata: ".encode() + body + b"\n\n"

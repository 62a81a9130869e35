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
from counsel.http.v1.api import LARGEST, ApiAnswer, ApiRequest, ClientTool, joined
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
# Of a failed response. The SDK's type has no other codes, except for those about images and policies; Codex knows the
# last two.
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

    def parse(self, body: dict[str, object], headers: Mapping[bytes, str]) -> ApiRequest:
        return responses_request.parse(body, headers)

    def plain(self, request: ApiRequest, job: str, answer: ApiAnswer) -> dict[str, object]:
        names = Names(job)
        items = [item for part in joined(answer.parts, WIRE) for item in _items(part, names, request)]
        if answer.refusal:
            items.append(_refusal(answer.refusal, names.next("msg")))
        return ended_response(request, job, answer, items)

    def renderer(self, request: ApiRequest, job: str) -> ResponsesRenderer:
        return ResponsesRenderer(request, job)

    def error(self, error: CounselError, status: int | None = None) -> Mapping[str, object]:
        return errors.openai(error, status)


RESPONSES = Responses()


class Names:
    """The ids of a response's items: a stored item is found by its kind and its number among items of this kind."""

    def __init__(self, job: str) -> None:
        self._job = job.partition("_")[2]
        self._counts: dict[str, int] = {}

    def next(self, kind: str) -> str:
        number = self._counts.get(kind, 0)
        self._counts[kind] = number + 1
        return f"{kind}_{self._job}_{number}"


def open_response(request: ApiRequest, job: str, status: str = "in_progress") -> dict[str, object]:
    """A response that has not ended."""
    return {
        "id": f"resp_{job.partition('_')[2]}",
        "object": "response",
        "created_at": int(request.created),
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": request.model,
        "output": [],
        "usage": None,
        **request.echo,
    }


def ended_response(
    request: ApiRequest, job: str, answer: ApiAnswer, items: list[dict[str, object]]
) -> dict[str, object]:
    # A model that refuses ends its answer itself; a filter cuts the answer off.
    incomplete = None if answer.is_own_refusal else _INCOMPLETE.get(answer.reason)
    return {
        **open_response(request, job, "incomplete" if incomplete else "completed"),
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "output": items,
        "usage": usage(answer.usage),
        "completed_at": int(request.finished or time.time()),
        "counsel": dict(answer.counsel),
    }


def failed_response(request: ApiRequest, job: str, error: CounselError) -> dict[str, object]:
    failure = errors.openai(error)["error"]
    status = "cancelled" if error.code == "CANCELLED" else "failed"
    code = (
        failure["code"]
        if failure["code"] in _CODES
        else _OTHER_CODES.get(str(failure["code"]), "server_error")
    )
    details = {"code": code, "message": failure["message"]}
    return {
        **open_response(request, job, status),
        "error": None if status == "cancelled" else details,
        "counsel": {"job_id": job, "code": error.code},
    }


def _items(part: AnswerPart, names: Names, request: ApiRequest) -> list[dict[str, object]]:
    if part["type"] == "text":
        text, name = part["text"], names.next("msg")
        if part.get("wire") != WIRE:
            return [_message(text, name)] if text else []
        notes = _annotations(part["citations"], part["length"], text)
        return [_message(text, name, notes=notes, phase=part.get("phase"))] if text else []
    if part["type"] == "tool_call":
        return [_call(part, names, request)]
    if part["type"] == "vendor":
        return [part["item"]] if part["wire"] == WIRE else []
    text = part.get("text", "")
    return [_reasoning(part, text, names.next("rs"))] if text or "item" in part else []


def _annotations(notes: list[dict[str, object]], length: int, text: str) -> list[dict[str, object]]:
    """OpenAI's annotations, with positions in `text`, which may begin with another message's text."""
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


def _call(part: ToolCallPart, names: Names, request: ApiRequest) -> dict[str, object]:
    """The call, with the client's own name for the tool."""
    tool: ClientTool = request.client_tools.get(part["name"], {})
    head = {"call_id": part["id"], "name": tool.get("name", part["name"]), "status": "completed"}
    namespace = part.get("namespace") or tool.get("namespace")
    if namespace:
        head["namespace"] = namespace
    if tool.get("custom"):
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
    """The arguments as text; a free-text tool has its text as the only argument."""
    return str(part["arguments"].get("input") or "") if field == "input" else json.dumps(part["arguments"])


def _reasoning(part: ThinkingPart, text: str, name: str) -> dict[str, object]:
    if part.get("wire") == WIRE:
        return {**part["item"], "id": name}
    summary = [{"type": "summary_text", "text": text}] if text else []
    encrypted_fields = (
        {"encrypted_content": opaque.encode(part["wire"], part["item"])} if "item" in part else {}
    )
    return {"type": "reasoning", "id": name, "summary": summary, **encrypted_fields}


def usage(tokens: Usage) -> dict[str, object]:
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {
            "cached_tokens": tokens.cache_read,
            "cache_write_tokens": tokens.cache_write,
        },
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.total,
    }


@dataclass(slots=True)
class _OpenCall:
    """A tool call while its arguments arrive."""

    index: int  # the item's
    item: dict[str, object]
    id: str
    field: str  # the item's field with the arguments
    event: str  # the name of the arguments' events
    decoder: CustomInput | None  # for arguments that are free text in JSON
    sent: str = ""


class ResponsesRenderer:
    """Items are opened by their first delta and closed by the next item."""

    keepalive = b": keep-alive\n\n"

    def __init__(self, request: ApiRequest, job: str) -> None:
        self._request, self._job = request, job
        self._names = Names(job)
        self._id = ""  # of the open item
        self._sequence = len(_BEGINNING)  # `start` is rendered after the first piece, but sent before it
        self._items: list[dict[str, object]] = []
        self._calls: dict[str, _OpenCall] = {}
        self._open = ""  # message or reasoning
        self._pieces: list[str] = []  # of the open item

    def start(self) -> bytes:
        response = {"response": open_response(self._request, self._job)}
        return b"".join(_event(kind, number, response) for number, kind in enumerate(_BEGINNING))

    def text(self, delta: str) -> bytes:
        opening = b""
        if self._open != "message":
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            opening = self._begin("message", _message("", self._names.next("msg"), "in_progress"))
            opening += self._event("response.content_part.added", {**self._position(), "part": part})
        self._pieces.append(delta)
        where = {**self._position(), "delta": delta, "logprobs": []}
        return opening + self._event("response.output_text.delta", where)

    def thinking(self, delta: str) -> bytes:
        opening = b""
        if self._open != "reasoning":
            opening = self._begin("reasoning", _reasoning(_NO_BLOCK, "", self._names.next("rs")))
            part = {"type": "summary_text", "text": ""}
            opening += self._event(
                "response.reasoning_summary_part.added", {**self._position(), "part": part}
            )
        self._pieces.append(delta)
        return opening + self._event(
            "response.reasoning_summary_text.delta", {**self._position(), "delta": delta}
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
        ending = self._end_item()
        return ending + self._complete_item(_reasoning(part, "", self._names.next("rs")))

    def _vendor(self, part: VendorPart) -> bytes:
        item = part["item"]
        if part["wire"] != WIRE:
            return b""
        if open_call := self._calls.pop(read.text(item, "call_id"), None):
            return self._end_call(open_call, item)
        if item["type"] != "citations":
            return self._end_item() + self._complete_item(item)
        if self._open != "message":
            return b""
        text = "".join(self._pieces)
        notes = _annotations(read.parts(item, "citations"), read.integer(item, "length"), text)
        events = [
            self._event(
                "response.output_text.annotation.added",
                {**self._position(), "annotation_index": index, "annotation": note},
            )
            for index, note in enumerate(notes)
        ]
        return b"".join(events) + self._end_item(notes=notes, phase=read.text(item, "phase"))

    def tool_input(self, call: ToolInputAdded) -> bytes:
        """The call's item stays open until the call is complete, even if other items come in between."""
        data = b""
        open_call = self._calls.get(call.id)
        if open_call is None:
            part: ToolCallPart = {
                "type": "tool_call",
                "id": call.id,
                "name": call.name,
                "arguments": {},
                "namespace": call.namespace,
            }
            item = call.item or _call(part, self._names, self._request)
            open_call, data = self._begin_call(call.id, item, is_native=call.item is not None)
        new = open_call.decoder.feed(call.text) if open_call.decoder else call.text
        return data + self._input(open_call, new)

    def _begin_call(
        self, call_id: str, item: dict[str, object], *, is_native: bool
    ) -> tuple[_OpenCall, bytes]:
        data = self._end_item()
        kind = read.text(item, "type")
        decoder = CustomInput() if kind == "custom_tool_call" and not is_native else None
        open_call = _OpenCall(len(self._items), item, read.text(item, "id"), *_FIELDS[kind], decoder)
        self._calls[call_id] = open_call
        self._items.append(item)
        empty_item = {**item, open_call.field: "", "status": "in_progress"}
        return open_call, data + self._event(
            "response.output_item.added", {"output_index": open_call.index, "item": empty_item}
        )

    def _input(self, open_call: _OpenCall, delta: str) -> bytes:
        if not delta:
            return b""
        open_call.sent += delta
        where = {"output_index": open_call.index, "item_id": open_call.id, "delta": delta}
        return self._event(f"response.{open_call.event}.delta", where)

    def _call(self, part: ToolCallPart) -> bytes:
        data = b""
        if part["id"] not in self._calls:
            _, data = self._begin_call(part["id"], _call(part, self._names, self._request), is_native=True)
        open_call = self._calls.pop(part["id"])
        arguments = _arguments(part, open_call.field)
        if open_call.field == "arguments" and open_call.sent.strip():
            arguments = open_call.sent  # as the vendor wrote it
        return data + self._end_call(open_call, {**open_call.item, open_call.field: arguments})

    def _end_call(self, open_call: _OpenCall, item: dict[str, object]) -> bytes:
        field = open_call.field
        rest = self._input(open_call, missing(open_call.sent, read.text(item, field)))
        position = {"output_index": open_call.index, "item_id": item["id"]}
        name = {"name": item["name"]} if field == "arguments" else {}
        self._items[open_call.index] = item
        return (
            rest
            + self._event(f"response.{open_call.event}.done", {**position, **name, field: item[field]})
            + self._event("response.output_item.done", {"output_index": open_call.index, "item": item})
        )

    def _complete_item(self, item: dict[str, object]) -> bytes:
        index = len(self._items)
        self._items.append(item)
        where = {"output_index": index, "item": item}
        return self._event("response.output_item.added", where) + self._event(
            "response.output_item.done", where
        )

    def end(self, answer: ApiAnswer) -> bytes:
        data = self._end_item()
        if answer.refusal:
            data += self._complete_item(_refusal(answer.refusal, self._names.next("msg")))
        response = ended_response(self._request, self._job, answer, self._items)
        return data + self._event(f"response.{response['status']}", {"response": response})

    def fail(self, error: CounselError) -> bytes:
        response = {**failed_response(self._request, self._job, error), "output": self._items}
        return self._event("response.failed", {"response": {**response, "status": "failed"}})

    def _position(self) -> dict[str, object]:
        index = {"content_index": 0} if self._open == "message" else {"summary_index": 0}
        return {"item_id": self._id, "output_index": len(self._items), **index}

    def _begin(self, kind: str, item: Mapping[str, object]) -> bytes:
        ending = self._end_item()
        self._open = kind
        self._id = read.text(item, "id")
        return ending + self._event(
            "response.output_item.added", {"output_index": len(self._items), "item": item}
        )

    def _end_item(
        self,
        thought: ThinkingPart | None = None,
        *,
        notes: list[dict[str, object]] | None = None,
        phase: str = "",
    ) -> bytes:
        """End the open item. `thought`: the vendor's block, if it is reasoning."""
        if not self._open:
            return b""
        text, position = "".join(self._pieces), self._position()
        if self._open == "message":
            item = _message(text, self._id, notes=notes, phase=phase)
            ends = self._event("response.output_text.done", {**position, "text": text, "logprobs": []})
            ends += self._event(
                "response.content_part.done", {**position, "part": read.values(item, "content")[0]}
            )
        else:
            item = _reasoning(thought or _NO_BLOCK, text, self._id)
            part = {"type": "summary_text", "text": text}
            ends = self._event("response.reasoning_summary_text.done", {**position, "text": text})
            ends += self._event("response.reasoning_summary_part.done", {**position, "part": part})
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

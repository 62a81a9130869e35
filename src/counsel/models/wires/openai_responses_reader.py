"""Reads answers of OpenAI Responses, in pieces or whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from counsel.errors import UpstreamError
from counsel.models.connections import sse
from counsel.models.vendor_errors import ErrorEvent, stated_status
from counsel.models.wires import text_deltas
from counsel.models.wires.openai_shared import (
    citations,
    flat_name,
    parsed_arguments,
    reported_cost,
    source_name,
)
from counsel.models.wires.token_counts import details, number
from counsel.text import missing
from counsel.types import (
    Event,
    Finished,
    FinishReason,
    Json,
    Notice,
    Text,
    Thinking,
    Thought,
    ToolCall,
    ToolInput,
    ToolUse,
    Usage,
    UsageReport,
    VendorBlock,
)

WIRE = "openai_responses"
PartKey: TypeAlias = tuple[str, int, int]  # kind, output_index, index of the part
_KINDS = {
    "response.output_text": "text",
    "response.refusal": "refusal",
    "response.reasoning_summary_text": "summary",
    "response.reasoning_text": "reasoning",
}
_CALLS = frozenset({"function_call", "custom_tool_call"})
_PART_INDEX = {
    "text": "content_index",
    "refusal": "content_index",
    "reasoning": "content_index",
    "summary": "summary_index",
}
_PIECES = {  # event type → kind, the field with the part's index, whether it has the whole part
    f"{name}.{end}": (kind, _PART_INDEX[kind], end == "done")
    for name, kind in _KINDS.items()
    for end in ("delta", "done")
}


_TEXT_DELTA = "response.output_text.delta"
_INCOMPLETE: dict[str, FinishReason] = {"max_output_tokens": "length", "content_filter": "filtered"}


class ResponsesReader:
    def __init__(self, *, streams_tools: bool) -> None:
        self._streams_tools = streams_tools
        self._open_calls: dict[int, ToolInput] = {}  # by the index of their item
        self._items: list[Json] = []
        self._sources: set[str] = set()
        self._parts: dict[PartKey, list[str]] = {}  # texts, thoughts and refusals received so far
        self._refusals: list[str] = []  # the pieces of all refusals
        self._message: int | None = None  # the newest message with text
        self._finished: Finished | None = None

    def feed(self, event: str, data: str) -> list[Event]:
        if data == "[DONE]" or self._finished is not None:
            return []
        payload = sse.document(data)
        if payload.get("object") == "response":  # from a server that does not stream
            return self._completed({"response": payload})
        name = payload.get("type") or event or ("error" if payload.get("error") else "")
        handler = _HANDLERS.get(name)
        return handler(self, payload) if handler else []

    delta_event: str | None = _TEXT_DELTA

    def text_of(self, deltas: list[str]) -> str | None:
        """The joined text of deltas that continue the newest message; None if they do not."""
        pieces = None if self._message is None else self._parts.get(("text", self._message, 0))
        text = pieces and text_deltas.joined(deltas, _TEXT_DELTA, self._message)
        if not text or pieces is None:
            return None
        pieces.append(text)
        return text

    def finish(self) -> list[Event]:
        if self._finished is None:
            raise UpstreamError("The stream ended before the answer was complete.")
        return [self._finished]

    def _text_delta(self, payload: Json) -> list[Event]:
        """`_delta` for the one event that arrives by the thousand."""
        text, message = payload["delta"], payload.get("output_index", 0)
        key = ("text", message, payload.get("content_index", 0))
        pieces = self._parts.get(key)
        if pieces is None or message != self._message:
            return self._piece(key, text)
        if not text:
            return []
        pieces.append(text)
        return [Text(text)]

    def _delta(self, payload: Json) -> list[Event]:
        kind, index, done = _PIECES[payload["type"]]
        key = (kind, payload.get("output_index", 0), payload.get(index, 0))
        if done:
            return self._whole(key, payload.get("text") or payload.get("refusal") or "")
        return self._piece(key, payload["delta"])

    def _whole(self, key: PartKey, text: str) -> list[Event]:
        """The rest of a whole part that did not arrive in pieces."""
        return self._piece(key, missing("".join(self._parts.get(key, ())), text))

    def _piece(self, key: PartKey, text: str) -> list[Event]:
        if not text:
            return []
        kind, message, _ = key
        first = key not in self._parts
        self._parts.setdefault(key, []).append(text)
        if kind == "text":
            return self._text(text, message)
        if kind == "refusal":
            self._refusals.append(text)
            return []
        return (
            [Thinking("\n\n"), Thinking(text)] if kind == "summary" and first and key[2] else [Thinking(text)]
        )

    def _text(self, text: str, message: int) -> list[Event]:
        """Each message of an answer, such as those before and after a search, is a paragraph of its own."""
        before, self._message = self._message, message
        new = before is not None and before != message
        return [Text("\n\n"), Text(text)] if new else [Text(text)]

    def _part(self, payload: Json) -> list[Event]:
        part = payload.get("part") or {}
        return self._content(part, payload.get("output_index", 0), payload.get("content_index", 0))

    def _content(self, part: Json, message: int, index: int) -> list[Event]:
        if part.get("type") == "refusal":
            return self._whole(("refusal", message, index), part.get("refusal") or "")
        if part.get("type") != "output_text":
            return []
        events = self._whole(("text", message, index), part.get("text") or "")
        for note in part.get("annotations") or ():
            events += self._annotation({"annotation": note})
        return events

    def _annotation(self, payload: Json) -> list[Event]:
        note = payload.get("annotation") or {}
        url = note.get("url")
        if not url or url in self._sources:
            return []
        self._sources.add(url)
        return [Notice("source", source_name(note.get("title"), url), {"url": url})]

    def _opened(self, payload: Json) -> list[Event]:
        """A call that begins; its arguments follow in pieces."""
        item = payload["item"]
        if not self._streams_tools or item.get("type") not in _CALLS or not item.get("call_id"):
            return []
        namespace = item.get("namespace") or ""
        name = flat_name(namespace, item["name"]) if namespace else item["name"]
        own = item if item["type"] == "custom_tool_call" else None
        tool_input = self._open_calls[payload.get("output_index", 0)] = ToolInput(
            item["call_id"], name, "", namespace, own
        )
        return [tool_input]

    def _input_delta(self, payload: Json) -> list[Event]:
        tool_input = self._open_calls.get(payload.get("output_index", 0))
        if tool_input is None or not payload["delta"]:
            return []
        return [
            ToolInput(tool_input.id, tool_input.name, payload["delta"], tool_input.namespace, tool_input.item)
        ]

    def _item(self, payload: Json) -> list[Event]:
        item, item_index = payload["item"], payload.get("output_index", len(self._items))
        self._items.append(item)
        if item.get("type") == "function_call":
            namespace = item.get("namespace") or ""
            name = flat_name(namespace, item["name"]) if namespace else item["name"]
            arguments = parsed_arguments(item.get("arguments"))
            return [ToolUse(ToolCall(item["call_id"], name, arguments, namespace))]
        if item.get("type") not in {"message", "reasoning"}:
            return [VendorBlock(WIRE, item)]
        events: list[Event] = []
        if item.get("type") == "message":
            for index, part in enumerate(item.get("content") or ()):
                events += self._content(part, item_index, index)
                notes, phase, text = part.get("annotations"), item.get("phase"), part.get("text")
                if notes or (phase and text):
                    events.append(citations(WIRE, notes or [], text or "", phase))
        elif item.get("type") == "reasoning":
            for kind, parts in (("summary", item.get("summary")), ("reasoning", item.get("content"))):
                for index, part in enumerate(parts or ()):
                    events += self._whole((kind, item_index, index), part.get("text") or "")
            events.append(Thought(WIRE, item))
        return events

    def _completed(self, payload: Json) -> list[Event]:
        response = payload["response"]
        if response.get("status") == "failed":
            return self._failed(payload)
        events: list[Event] = []
        output = response.get("output") or []
        in_deltas_only = not self._items
        unmatched = [
            earlier for earlier in self._items if not any(_is_same(earlier, item) for item in output)
        ]
        for index, item in enumerate(output):
            if in_deltas_only and self._was_streamed(item):
                self._items.append(item)
            elif not self._has(item, unmatched):
                events += self._item({"item": item, "output_index": index})
        self._finished = Finished(
            self._reason(response), response.get("model"), self._items, vendor=self._vendor(response)
        )
        return [*events, *([UsageReport(_usage(response["usage"]))] if response.get("usage") else [])]

    def _has(self, item: Json, unmatched: list[Json]) -> bool:
        """Whether an item of the whole answer has arrived before. Gateways may change its id: see `unmatched`."""
        if any(_is_same(earlier, item) for earlier in self._items):
            return True
        match = next((earlier for earlier in unmatched if earlier.get("type") == item.get("type")), None)
        if match is not None:
            unmatched.remove(match)
        return match is not None

    def _was_streamed(self, item: Json) -> bool:
        """Whether a message arrived in deltas, whatever their index: a gateway may omit earlier items."""
        if item.get("type") != "message":
            return False
        texts = {"".join(pieces) for key, pieces in self._parts.items() if key[0] == "text"}
        return {part.get("text") for part in item.get("content") or ()} <= texts

    def _vendor(self, response: Json) -> dict[str, str]:
        if self._refusals:
            return {"reason": "refusal", "text": "".join(self._refusals)}
        why = (response.get("incomplete_details") or {}).get("reason")
        return {"reason": str(why)} if why else {}

    def _reason(self, response: Json) -> FinishReason:
        incomplete = (response.get("incomplete_details") or {}).get("reason")
        if incomplete:
            return _INCOMPLETE.get(incomplete, "other")
        if response.get("status") in {"incomplete", "cancelled"}:
            return "broken"
        if any(item.get("type") == "function_call" for item in self._items):
            return "tool_calls"
        return "filtered" if self._refusals else "stop"

    def _failed(self, payload: Json) -> list[Event]:
        response = payload.get("response") or payload
        usage = _usage(response["usage"]) if response.get("usage") else None
        body = {"error": response["error"]} if response.get("error") else payload
        raise ErrorEvent(body, stated_status(body), usage=usage)


def _is_same(earlier: Json, item: Json) -> bool:
    return any(item.get(name) and earlier.get(name) == item[name] for name in ("call_id", "id"))


# Functions, not bound methods: a reader that refers to itself keeps a long answer until garbage collection.
_HANDLERS: dict[str, Callable[[ResponsesReader, Json], list[Event]]] = {
    **{f"{name}.{end}": ResponsesReader._delta for name in _KINDS for end in ("delta", "done")},
    "response.output_text.delta": ResponsesReader._text_delta,
    "response.content_part.done": ResponsesReader._part,
    "response.output_text.annotation.added": ResponsesReader._annotation,
    "response.output_item.added": ResponsesReader._opened,
    "response.function_call_arguments.delta": ResponsesReader._input_delta,
    "response.custom_tool_call_input.delta": ResponsesReader._input_delta,
    "response.output_item.done": ResponsesReader._item,
    "response.completed": ResponsesReader._completed,
    "response.incomplete": ResponsesReader._completed,
    "response.cancelled": ResponsesReader._completed,
    "response.failed": ResponsesReader._failed,
    "error": ResponsesReader._failed,
}


def _usage(counts: Json) -> Usage:
    input_details = details(counts, "input_tokens_details")
    return Usage(
        input=number(counts.get("input_tokens")),
        output=number(counts.get("output_tokens")),
        reasoning=number(details(counts, "output_tokens_details").get("reasoning_tokens")),
        cache_read=number(input_details.get("cached_tokens")),
        cache_write=number(input_details.get("cache_write_tokens")),
        cost_usd=reported_cost(counts),
    )

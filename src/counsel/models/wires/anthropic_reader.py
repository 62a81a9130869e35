"""Reads answers of Anthropic Messages, in pieces or whole."""

from __future__ import annotations

from collections.abc import Callable

from counsel.errors import UpstreamError
from counsel.models.connections import sse
from counsel.models.vendor_errors import ErrorEvent, stated_status, stated_type
from counsel.models.wires import anthropic_client, text_deltas
from counsel.models.wires.openai_shared import citations, parsed_arguments
from counsel.models.wires.token_counts import details, merged, number
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

_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "filtered",
    "pause_turn": "paused",
}
_STATUS = {"overloaded_error": 529, "rate_limit_error": 429, "api_error": 500, "authentication_error": 401}


class MessagesReader(text_deltas.OneByOne):
    def __init__(self, *, streams_tools: bool) -> None:
        self._streams_tools = streams_tools
        self._blocks: dict[int, Json] = {}
        self._pieces: dict[int, list[str]] = {}
        self._sources: set[str] = set()
        self._usage: Json = {}
        self._model: str | None = None
        self._reason: str | None = None
        self._details: Json = {}  # of a refusal
        self._stop_sequence: str | None = None
        self._stopped = False
        self._last_type, self._has_text = "", False  # of the newest block; whether there was a text block

    def feed(self, event: str, data: str) -> list[Event]:
        if self._stopped or data == "[DONE]":  # gateways add OpenAI's end
            return []
        payload = sse.document(data)
        name = payload.get("type") or event or ("error" if payload.get("error") else "")
        handler = _HANDLERS.get(name)
        return handler(self, payload) if handler else []

    def finish(self) -> list[Event]:
        if not self._stopped and self._reason is None:
            raise UpstreamError("The stream ended before the answer was complete.")
        left_open = [event for index in sorted(self._pieces) for event in self._close({"index": index})]
        reason = _REASONS.get(self._reason or "", "other")
        native = [self._blocks[index] for index in sorted(self._blocks)]
        return [*left_open, Finished(reason, self._model, native, vendor=self._vendor())]

    def _vendor(self) -> dict[str, str]:
        fields = {
            "reason": self._details.get("category") or self._reason,
            "text": self._details.get("explanation"),
            "recommended_model": self._details.get("recommended_model"),
            "stop_sequence": self._stop_sequence,
        }
        return {name: str(value) for name, value in fields.items() if value}

    def _start(self, payload: Json) -> list[Event]:
        message = payload.get("message") or {}
        self._model = message.get("model")
        self._usage = merged({}, message.get("usage"))
        self._usage.pop("output_tokens", None)  # 1 before anything is written; the last event has all of them
        return [UsageReport(_usage(self._usage))] if self._usage else []

    def _complete_message(self, message: Json) -> list[Event]:
        """The answer of a server that does not stream."""
        events = self._start({"message": message})
        for index, block in enumerate(message.get("content") or ()):
            payload = {"index": index, "content_block": block}
            events += [*self._open(payload), *self._close(payload)]
        self._stopped = True
        return [*events, *self._end({"delta": message, "usage": message.get("usage")})]

    def _open(self, payload: Json) -> list[Event]:
        block = dict(payload["content_block"])
        events = [*self._boundary(block["type"]), *self._paragraph(block["type"])]
        self._blocks[payload["index"]] = block
        self._pieces[payload["index"]] = []
        for citation in block.get("citations") or ():
            events += self._source(citation)
        if block["type"] in {"text", "thinking"} and (first := block.get(block["type"])):
            self._pieces[payload["index"]].append(first)
            events.append(Text(first) if block["type"] == "text" else Thinking(first))
        return [*events, *self._input(block, "")]

    def _input(self, block: Json, delta: str) -> list[Event]:
        if not self._streams_tools or block["type"] != "tool_use":
            return []
        return [ToolInput(block["id"], block["name"], delta)]

    def _boundary(self, kind: str) -> list[Event]:
        """Close a text without citations before the next text begins: otherwise the next text's citations would apply
        to both."""
        last = next(reversed(self._blocks.values()), None) if kind == "text" else None
        if last is None or last["type"] != "text" or not last.get("text") or last.get("citations"):
            return []
        return [citations(anthropic_client.WIRE, [], last["text"])]

    def _paragraph(self, kind: str) -> list[Event]:
        """Consecutive text blocks are one text; those before and after a search are separate paragraphs."""
        separate = kind == "text" and self._last_type not in {"text", ""} and self._has_text
        self._last_type, self._has_text = kind, self._has_text or kind == "text"
        return [Text("\n\n")] if separate else []

    def _delta(self, payload: Json) -> list[Event]:
        index, delta = payload["index"], payload["delta"]
        kind = delta["type"]
        if kind == "text_delta":
            self._pieces[index].append(delta["text"])
            return [Text(delta["text"])]
        if kind == "thinking_delta":
            self._pieces[index].append(delta["thinking"])
            return [Thinking(delta["thinking"])] if delta["thinking"] else []
        if kind == "input_json_delta":
            self._pieces[index].append(delta["partial_json"])
            return self._input(self._blocks[index], delta["partial_json"]) if delta["partial_json"] else []
        if kind == "signature_delta":
            block = self._blocks[index]
            block["signature"] = (block.get("signature") or "") + delta["signature"]
        elif kind == "citations_delta":
            return self._citation(index, delta["citation"])
        return []

    def _close(self, payload: Json) -> list[Event]:
        block, content = self._blocks[payload["index"]], "".join(self._pieces.pop(payload["index"], []))
        if block["type"] in {"text", "thinking"}:
            block[block["type"]] = content or block.get(block["type"], "")
        elif block["type"] in {"tool_use", "server_tool_use", "mcp_tool_use"}:
            block["input"] = parsed_arguments(content) if content else block.get("input") or {}
        if block["type"] == "tool_use":
            return [ToolUse(ToolCall(block["id"], block["name"], block["input"]))]
        if block["type"] == "text":
            return (
                [citations(anthropic_client.WIRE, notes, content)]
                if (notes := block.get("citations"))
                else []
            )
        kind = Thought if block["type"] in {"thinking", "redacted_thinking"} else VendorBlock
        return [kind(anthropic_client.WIRE, block)]

    def _citation(self, index: int, citation: Json) -> list[Event]:
        block = self._blocks[index]
        block["citations"] = block.get("citations") or []
        block["citations"].append(citation)
        return self._source(citation)

    def _source(self, citation: Json) -> list[Event]:
        url = citation.get("url")
        if not url or url in self._sources:
            return []
        self._sources.add(url)
        return [Notice("source", citation.get("title") or url, {"url": url})]

    def _end(self, payload: Json) -> list[Event]:
        delta = payload.get("delta") or {}
        self._reason = delta.get("stop_reason") or self._reason
        self._details = delta.get("stop_details") or self._details
        self._stop_sequence = delta.get("stop_sequence") or self._stop_sequence
        usage = details(payload, "usage")
        self._usage = merged(self._usage, usage)
        return [UsageReport(_usage(self._usage))]

    def _stop(self, _: Json) -> list[Event]:
        self._stopped = True
        return []

    def _error(self, payload: Json) -> list[Event]:
        raise ErrorEvent(payload, _STATUS.get(stated_type(payload)) or stated_status(payload))


# Functions, not bound methods: a reader that refers to itself keeps a long answer until garbage collection.
_HANDLERS: dict[str, Callable[[MessagesReader, Json], list[Event]]] = {
    "message_start": MessagesReader._start,
    "message": MessagesReader._complete_message,
    "content_block_start": MessagesReader._open,
    "content_block_delta": MessagesReader._delta,
    "content_block_stop": MessagesReader._close,
    "message_delta": MessagesReader._end,
    "message_stop": MessagesReader._stop,
    "error": MessagesReader._error,
}


def _usage(counts: Json) -> Usage:
    cache_read, cache_write = (
        number(counts.get("cache_read_input_tokens")),
        number(counts.get("cache_creation_input_tokens")),
    )
    return Usage(
        input=number(counts.get("input_tokens")) + cache_read + cache_write,
        output=number(counts.get("output_tokens")),
        reasoning=number(details(counts, "output_tokens_details").get("thinking_tokens")),
        cache_read=cache_read,
        cache_write=cache_write,
    )

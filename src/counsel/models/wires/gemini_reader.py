"""Reads answers of Gemini, in pieces or whole."""

from __future__ import annotations

from counsel.errors import UpstreamError
from counsel.models.connections import sse
from counsel.models.vendor_errors import ErrorEvent, stated_status
from counsel.models.wires import text_deltas
from counsel.models.wires.token_counts import merged, number
from counsel.text import TextBuffer
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
    ToolUse,
    Usage,
    UsageReport,
)

WIRE = "gemini"
OUR_ID = "gemini_call_"  # for calls of older models, which send no ids; never sent to Google
_REASONS: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        (
            "SAFETY",
            "RECITATION",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "MODEL_ARMOR",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
            "LANGUAGE",
        ),
        "filtered",
    ),
    **dict.fromkeys(
        (
            "UNEXPECTED_TOOL_CALL",
            "MALFORMED_FUNCTION_CALL",
            "MALFORMED_RESPONSE",
            "TOO_MANY_TOOL_CALLS",
            "MISSING_THOUGHT_SIGNATURE",
        ),
        "broken",
    ),
}


_BLOCKED_PROMPT = "PROHIBITED_CONTENT"


class GeminiReader(text_deltas.OneByOne):
    def __init__(self) -> None:
        self._parts: list[Json] = []
        self._tail: TextBuffer | None = None  # the last part's text, if more of it may come
        self._calls = 0
        self._sources: set[str] = set()
        self._reason: str | None = None
        self._model: str | None = None
        self._usage: Json = {}
        self._reported_usage: tuple[object, ...] | None = None
        self._vendor: dict[str, str] = {}  # the vendor's words for why the answer ended

    def feed(self, event: str, data: str) -> list[Event]:  # noqa: ARG002 (Google names no events)
        if data == "[DONE]":  # gateways add OpenAI's end
            return []
        payload = sse.document(data)
        # A server that does not stream sends an array.
        chunks = payload if isinstance(payload, list) else [payload]
        return [event for chunk in chunks for event in self._chunk(chunk)]

    def _chunk(self, chunk: Json) -> list[Event]:
        if chunk.get("error"):
            usage = _usage(self._usage) if self._usage else None
            raise ErrorEvent(chunk, stated_status(chunk), usage)
        self._model = chunk.get("modelVersion") or self._model
        events = [event for item in chunk.get("candidates") or () if item for event in self._candidate(item)]
        feedback = chunk.get("promptFeedback") or {}
        if block_reason := feedback.get("blockReason"):
            self._end(_BLOCKED_PROMPT, str(block_reason), feedback.get("blockReasonMessage"))
        return events + self._new_usage(chunk.get("usageMetadata"))

    def _new_usage(self, counts: Json | None) -> list[Event]:
        """Every chunk has counts, up to its own text. In case the stream breaks off, they are reported whenever a count
        changes that the text does not imply; `finish` reports the last."""
        self._usage = merged(self._usage, counts)
        unseen = tuple(self._usage.get(name) for name in ("promptTokenCount", "thoughtsTokenCount"))
        if not self._usage or unseen == self._reported_usage:
            return []
        self._reported_usage = unseen
        return [UsageReport(_usage(self._usage))]

    def _end(self, reason: str, vendor_reason: str, message: str | None) -> None:
        self._reason = reason
        self._vendor = {"reason": vendor_reason, **({"text": message} if message else {})}

    def finish(self) -> list[Event]:
        if self._reason is None:
            raise UpstreamError("The stream ended before the answer was complete.")
        reason = _REASONS.get(self._reason, "other")
        if self._calls and reason == "stop":
            reason = "tool_calls"
        usage: list[Event] = [UsageReport(_usage(self._usage))] if self._usage else []
        self._close_tail()
        native = {"role": "model", "parts": self._parts}
        return [*usage, Finished(reason, self._model, native, vendor=self._vendor)]

    def _candidate(self, candidate: Json) -> list[Event]:
        events: list[Event] = []
        for part in (candidate.get("content") or {}).get("parts") or ():
            events += self._part(part)
        for source in (candidate.get("groundingMetadata") or {}).get("groundingChunks") or ():
            events += self._source(source.get("web") or {})
        if reason := candidate.get("finishReason"):
            self._end(reason, reason, candidate.get("finishMessage") or _blocked_categories(candidate))
        return events

    def _part(self, part: Json) -> list[Event]:
        part = {name: value for name, value in part.items() if value is not None}  # gateways write nulls
        self._keep(part)
        if "functionCall" in part:
            function = part["functionCall"]
            self._calls += 1
            name = function.get("id") or f"{OUR_ID}{self._calls}"
            signature = part.get("thoughtSignature")
            thoughts = [Thought(WIRE, {"call": name, "thoughtSignature": signature})] if signature else []
            return [*thoughts, ToolUse(ToolCall(name, function["name"], function.get("args") or {}))]
        text = part.get("text")
        if not text:
            return []
        return [Thinking(text) if part.get("thought") else Text(text)]

    def _keep(self, part: Json) -> None:
        """Keep the turn verbatim, except that pieces of text are joined unless a signature is between them."""
        last = self._parts[-1] if self._parts else {}
        plain = {"text"}, {"text", "thought"}
        same = last.keys() == part.keys() and part.get("thought") == last.get("thought")
        if self._tail is not None and same:
            self._tail.append(part["text"])
            return
        self._close_tail()
        self._parts.append(dict(part))
        self._tail = TextBuffer(part["text"]) if part.keys() in plain else None

    def _close_tail(self) -> None:
        if self._tail is not None:
            self._parts[-1]["text"] = self._tail.text()

    def _source(self, page: Json) -> list[Event]:
        url = page.get("uri")
        if not url or url in self._sources:
            return []
        self._sources.add(url)
        return [Notice("source", page.get("title") or url, {"url": url})]


def _blocked_categories(candidate: Json) -> str | None:
    ratings = candidate.get("safetyRatings") or ()
    return ", ".join(str(rating.get("category")) for rating in ratings if rating.get("blocked")) or None


def _usage(counts: Json) -> Usage:
    thoughts = number(counts.get("thoughtsTokenCount"))
    return Usage(
        input=number(counts.get("promptTokenCount")) + number(counts.get("toolUsePromptTokenCount")),
        output=number(counts.get("candidatesTokenCount")) + thoughts,
        reasoning=thoughts,
        cache_read=number(counts.get("cachedContentTokenCount")),
    )

"""Gemini streamGenerateContent."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from counsel.errors import UpstreamError
from counsel.models.connections import sse
from counsel.models.vendor_errors import ErrorEvent, stated_status
from counsel.models.wires import text_deltas
from counsel.models.wires.call_settings import (
    SentSettings,
    joined,
    limited,
    resolve_settings,
    sampling,
    sent_stops,
    wire_options,
    without_none,
)
from counsel.models.wires.token_counts import merged, number
from counsel.text import TextBuffer, is_blank
from counsel.types import (
    Adapted,
    Call,
    Endpoint,
    Event,
    Exact,
    Finished,
    FinishReason,
    Image,
    Json,
    Model,
    Notice,
    Prepared,
    Text,
    Thinking,
    Thought,
    ToolCall,
    ToolResult,
    ToolUse,
    Turn,
    Usage,
    UsageReport,
)

OUR_ID = "gemini_call_"  # for calls of older models, which send no ids; never sent to Google
# Gemini 3 refuses its own tool call when it is sent back without its signature, unless it has this one.
NO_SIGNATURE = b64encode(b"skip_thought_signature_validator").decode()


WIRE = "gemini"
_SAMPLING = {
    "top_p": "topP",
    "top_k": "topK",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


class Gemini:
    models_path = "/v1beta/models"

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        key = {"x-goog-api-key": endpoint.key} if endpoint.key else {}
        return {**key, **endpoint.provider.headers}

    def reader(self, *, streams_tools: bool = False) -> GeminiReader:  # noqa: ARG002 (Wire: calls arrive whole)
        return GeminiReader()

    def prepare(self, call: Call, model: Model, endpoint: Endpoint) -> Prepared:
        options = wire_options(model, endpoint)
        can_search = not call.tools or bool(options.get("search_with_tools"))
        counts_thinking = model.effort_style == "thinking_budget"
        settings = resolve_settings(call, model, can_search=can_search, counts_thinking=counts_thinking)
        shaping, unsent = sampling(call.exact, model, _SAMPLING)
        if call.exact and call.exact.parallel_tool_calls is False:
            unsent = (*unsent, "parallel_tool_calls")
        if call.exact and _wants_json(call) and not _takes_json(call, settings, model):
            unsent = (*unsent, "response_format")
        body: dict[str, object] = {
            "contents": [content for turn in call.turns if (content := _content(turn))],
            "generationConfig": {**_generation(model, settings, call), **shaping},
            **without_none(
                systemInstruction={"parts": [{"text": call.system}]}
                if call.system and not is_blank(call.system)
                else None,
                tools=_tools(call, options, search=settings.web_search) or None,
                toolConfig=_tool_config(call.exact, beside_search=bool(call.tools) and settings.web_search),
            ),
            **options.get("body", {}),
        }
        if isinstance(generation := body["generationConfig"], dict):
            body["generationConfig"] = limited(generation, "maxOutputTokens", call)
        return Prepared(
            _url(model, endpoint),
            {**self.headers(endpoint), **options.get("headers", {})},
            body,
            (*settings.left_out, *unsent),
            (*settings.adapted, *(_other_budget(call.exact, model) if counts_thinking else ())),
        )


def _tool_config(exact: Exact | None, *, beside_search: bool) -> dict[str, object] | None:
    # Without this, Google refuses its search together with our tools. The search arrives as parts, which are sent back
    # as they are.
    config: dict[str, object] = {"includeServerSideToolInvocations": True} if beside_search else {}
    choice = exact.tool_choice if exact else None
    if choice is None:
        return config or None
    if choice.startswith("="):
        mode: dict[str, object] = {"mode": "ANY", "allowedFunctionNames": [choice[1:]]}
    else:
        mode = {"mode": _MODES[choice]}
    return {"functionCallingConfig": mode, **config}


def _url(model: Model, endpoint: Endpoint) -> str:
    # v1beta also serves the preview models; v1, the SDK's default since 3.0, lags behind according to its
    # documentation.
    base = re.sub(r"/v1(beta|alpha)?/?$", "", endpoint.base_url)
    return joined(base, f"/v1beta/models/{quote(model.wire_id, safe='')}:streamGenerateContent?alt=sse")


def _generation(model: Model, settings: SentSettings, call: Call) -> dict[str, object]:
    field = {"thinking_level": "thinkingLevel", "thinking_budget": "thinkingBudget"}.get(model.effort_style)
    thinking = (
        {"includeThoughts": True, field: _in_range(settings.effort, model)}
        if field and settings.effort is not None
        else None
    )
    exact = call.exact or Exact()
    if field == "thinkingBudget" and exact.thinking_budget is not None:
        budget = _in_range(exact.thinking_budget, model)
        thinking = {"includeThoughts": bool(exact.thinking_budget), "thinkingBudget": budget}
    structured = _wants_json(call) and _takes_json(call, settings, model)
    return without_none(
        responseMimeType="application/json" if structured else None,
        responseJsonSchema=call.schema if structured else None,
        stopSequences=sent_stops(exact, WIRE),
        temperature=settings.temperature,
        maxOutputTokens=call.max_output,
        thinkingConfig=thinking,
        mediaResolution=settings.media_resolution,
    )


def _wants_json(call: Call) -> bool:
    return call.schema is not None or (call.exact is not None and call.exact.json_object)


def _takes_json(call: Call, settings: SentSettings, model: Model) -> bool:
    """Before Gemini 3, Google refuses JSON together with its search or with functions."""
    return not (call.tools or settings.web_search) or bool(model.options.get("search_with_tools"))


def _other_budget(exact: Exact | None, model: Model) -> tuple[Adapted, ...]:
    """A client's thinking budget that is not sent as it is."""
    budget = exact.thinking_budget if exact else None
    if budget is None or (sent_budget := _in_range(budget, model)) == budget:
        return ()
    why = f"{model.id} thinks with another budget: {sent_budget} tokens were sent instead of {budget}."
    return (Adapted("thinking", str(budget), str(sent_budget), why),)


def _in_range(effort: str | int, model: Model) -> str | int:
    """A thinking budget within the model's range; 0 is no thinking, which some models refuse."""
    if not isinstance(effort, int) or "thinking_range" not in model.options:
        return effort
    if not effort and not model.options.get("always_thinks"):
        return effort
    low, high = model.options["thinking_range"]
    return int(min(max(effort, low), high))


def _tools(call: Call, options: Mapping[str, Any], *, search: bool) -> list[dict[str, object]]:
    built_in: list[Json] = [{options.get("web_search_tool", "googleSearch"): {}}] if search else []
    own = [
        {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema}
        for tool in call.tools
    ]
    return [*built_in, *([{"functionDeclarations": own}] if own else [])]


def _content(turn: Turn) -> dict[str, object] | None:
    if turn.native is not None:
        native = [part for part in turn.native["parts"] if not _is_blank(part)]
        return {**turn.native, "parts": native} if native else None
    signatures = _signatures(turn)
    parts = [
        *(_result(result) for result in turn.tool_results),
        *(_image(image) for result in turn.tool_results for image in result.images),
        *([] if is_blank(turn.text) else [{"text": turn.text}]),
        *(_image(image) for image in turn.images),
        *(
            _call(call, signatures.get(call.id) or (NO_SIGNATURE if index == 0 else None))
            for index, call in enumerate(turn.tool_calls)
        ),
    ]
    return {"role": "model" if turn.role == "assistant" else "user", "parts": parts} if parts else None


def _is_blank(part: Json) -> bool:
    return part.keys() <= {"text", "thought"} and is_blank(part.get("text") or "")


def _image(image: Image) -> dict[str, object]:
    return {"inlineData": {"mimeType": image.media_type, "data": b64encode(image.data).decode()}}


def _signatures(turn: Turn) -> dict[str, str]:
    """By tool call: the signature that came with it."""
    items = [thought.item for thought in turn.thoughts if thought.wire == WIRE]
    return {str(item.get("call")): str(item.get("thoughtSignature")) for item in items if item.get("call")}


def _call(call: ToolCall, signature: str | None) -> dict[str, object]:
    extra = {"thoughtSignature": signature} if signature else {}
    return {"functionCall": {**_id(call.id), "name": call.name, "args": call.arguments}, **extra}


def _result(result: ToolResult) -> Json:
    response = {"error" if result.is_error else "output": result.text}
    return {"functionResponse": {**_id(result.call_id), "name": result.name, "response": response}}


def _id(call_id: str) -> dict[str, object]:
    return {} if call_id.startswith(OUR_ID) else {"id": call_id}


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

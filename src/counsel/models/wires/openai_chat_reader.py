"""Reads answers of Chat Completions, in pieces or whole."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from counsel import strict_json
from counsel.errors import UpstreamError
from counsel.models.connections import sse
from counsel.models.vendor_errors import ErrorEvent, stated_status
from counsel.models.wires import text_deltas, think_tags
from counsel.models.wires.openai_shared import parsed_arguments, reported_cost, source_name
from counsel.models.wires.think_tags import ThinkTags
from counsel.models.wires.token_counts import details, merged, number
from counsel.text import TextBuffer, missing
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
    Withdrawn,
)

WIRE = "openai_chat"
_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "model_length": "length",  # Mistral
    "content_filter": "filtered",
    "sensitive": "filtered",  # Zhipu
    **dict.fromkeys(
        ("safety", "recitation", "blocklist", "prohibited_content", "spii"), "filtered"
    ),  # Google's
    **dict.fromkeys(
        ("error", "abort", "insufficient_system_resource", "network_error"), "broken"
    ),  # OpenRouter, vLLM, DeepSeek, Zhipu
    **dict.fromkeys(("eos_token", "stop_sequence"), "stop"),  # Hugging Face's TGI
    **dict.fromkeys(
        ("end_turn", "complete", "completed"), "stop"
    ),  # Anthropic's and Cohere's, through gateways
    "max_tokens": "length",
    "tool_use": "tool_calls",
    **dict.fromkeys(("refusal", "guardrail_intervened", "content_filtered"), "filtered"),  # and Bedrock's
}


class ChatReader(text_deltas.OneByOne):
    def __init__(self, *, streams_tools: bool) -> None:
        self._streams_tools = streams_tools
        self._reported: dict[str, object] = {}  # the reasoning that was passed on as a `Thought`
        self._streamed: set[int] = set()  # tool calls that are passed on in pieces
        self._called: set[int] = set()  # tool calls that were passed on as a whole
        self._text: list[str] = []  # as received, for the turn that is sent back
        self._refusal: list[str] = []
        self._tags = ThinkTags()
        self._thoughts: dict[str, list[str]] = {}  # by the name of their field
        self._details = ReasoningDetails()
        self._calls: dict[int, Json] = {}
        self._arguments: dict[int, TextBuffer] = {}
        self._own_indexes: dict[Any, int] = {}  # of calls in progress, by the server's index
        self._counts: Json = {}
        self._sources: set[str] = set()
        self._reason: str | None = None
        self._native_reason: str | None = None  # the upstream vendor's reason, as OpenRouter reports it
        self._model: str | None = None
        self._done = False

    def feed(self, event: str, data: str) -> list[Event]:
        if self._done or data == "[DONE]":
            self._done = True
            return []
        chunk = sse.document(data)
        if chunk.get("error") or event == "error" or chunk.get("object") == "error":  # vLLM, Mistral
            usage = self._new_usage(chunk)
            raise ErrorEvent(chunk, stated_status(chunk), usage)
        self._model = chunk.get("model") or self._model
        choices = chunk.get("choices") or []
        events = []
        if not choices and details(chunk, "base_resp").get("status_code"):  # MiniMax
            raise ErrorEvent(chunk, usage=self._new_usage(chunk))
        if choices and choices[0] is not None:
            if error := choices[0].get("error"):  # OpenRouter
                raise ErrorEvent({"error": error}, stated_status({"error": error}), self._new_usage(chunk))
            events = self._choice(choices[0])
            if "usage" in choices[0] and not chunk.get("usage"):  # Moonshot
                chunk = {**chunk, "usage": choices[0]["usage"]}
        if usage := self._new_usage(chunk):
            events.append(UsageReport(usage))
        for url in chunk.get("citations") or ():
            events += self._source(url, url)
        return events

    def _new_usage(self, chunk: Json) -> Usage | None:
        """The usage so far, if this event reports some. Some servers report it in several, each a part of it."""
        if not chunk.get("usage"):
            return None
        self._counts = merged(self._counts, chunk["usage"])
        return _usage(self._counts)

    def finish(self) -> list[Event]:
        if self._reason is None and not self._done:
            raise UpstreamError("The stream ended before the answer was complete.")
        for index, arguments in self._arguments.items():
            self._calls[index]["function"]["arguments"] = arguments.text()
        calls = [self._complete_call(index) for index in self._calls if index not in self._called]
        reason = _REASONS.get((self._reason or "stop").lower(), "other")
        if self._calls and reason == "stop":
            reason = "tool_calls"  # several compatible servers send "stop" here
        if self._refusal:
            reason = "filtered"
        finished = Finished(reason, self._model, self._native(), vendor=self._vendor())
        rest = [*self._tags.end(), *self._without_lone_end()]
        if rest and self._counts:
            rest.append(UsageReport(_usage(self._counts)))  # again: it counts this text, too
        return [*self._new_thought(), *rest, *(ToolUse(call) for call in calls), finished]

    def _without_lone_end(self) -> list[Event]:
        """Only now is it known that the text began with thinking. A client of the vendor's own API gets all of it."""
        text = "".join(self._text)
        parts = None if self._streams_tools else think_tags.lone_end(text)
        if parts is None:
            return []
        thinking, answer = parts
        withdrawn = Withdrawn(text, "What it wrote before </think> was its reasoning.")
        pieces: list[Text | Thinking] = [Thinking(thinking), Text(answer)]
        return [withdrawn, *(piece for piece in pieces if piece.delta)]

    def _new_thought(self) -> list[Event]:
        """The reasoning so far, unless it was passed on before."""
        reasoning = self._reasoning()
        if not reasoning or reasoning == self._reported:
            return []
        self._reported = reasoning
        return [Thought(WIRE, reasoning)]

    def _vendor(self) -> dict[str, str]:
        if self._refusal:
            return {"reason": "refusal", "text": "".join(self._refusal)}
        reason = self._native_reason or self._reason
        return {"reason": reason} if reason else {}

    def _choice(self, choice: Json) -> list[Event]:
        events = self._delta(choice.get("delta") or {})
        # From a server that does not stream, or that repeats the whole message at the end.
        if message := choice.get("message"):
            events += self._delta(self._missing_parts(message))
        self._reason = choice.get("finish_reason") or self._reason
        self._native_reason = choice.get("native_finish_reason") or self._native_reason
        return events

    def _missing_parts(self, message: Json) -> dict[str, object]:
        """The parts of a whole message that have not arrived in pieces."""
        pieces_by_field = {
            "content": self._text,
            "refusal": self._refusal,
            "reasoning_content": self._thoughts.get("reasoning_content", []),
            "reasoning": self._thoughts.get("reasoning", []),
        }
        new = {**message, "tool_calls": None if self._calls else message.get("tool_calls")}
        for field, pieces in pieces_by_field.items():
            text = message.get(field)
            if pieces:
                new[field] = missing("".join(pieces), text) if isinstance(text, str) else None
        return {**new, "reasoning_details": None} if self._details else new

    def _delta(self, delta: Json) -> list[Event]:
        events: list[Event] = []
        for field in ("reasoning_content", "reasoning"):
            if isinstance(delta.get(field), str) and delta[field]:
                self._thoughts.setdefault(field, []).append(delta[field])
                events.append(Thinking(delta[field]))
                break
        if content := delta.get("content"):
            events += self._content(content)
        if refusal := delta.get("refusal"):
            self._refusal.append(refusal)
        self._details.add(delta.get("reasoning_details") or ())
        for call in delta.get("tool_calls") or ():
            events += self._tool_call(call)
        for note in delta.get("annotations") or ():
            citation = note.get("url_citation") or {}
            events += self._source(citation.get("url"), citation.get("title"))
        return events

    def _content(self, content: Any) -> list[Event]:
        if isinstance(content, str):
            self._text.append(content)
            return self._tags.feed(content)
        return [event for part in content for event in self._part(part)]

    def _part(self, part: Json) -> list[Event]:
        """Mistral's reasoning models send lists of parts."""
        if isinstance(refusal := part.get("refusal"), str):
            self._refusal.append(refusal)
            return []
        if part.get("type") == "thinking":
            return [Thinking(piece["text"]) for piece in part.get("thinking") or () if piece.get("text")]
        return self._content(part["text"]) if part.get("text") else []

    def _tool_call(self, piece: Json) -> list[Event]:
        index = self._index(piece)
        first = index not in self._calls
        call = self._calls.setdefault(
            index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        )
        function = piece.get("function") or {}
        call["id"] = piece.get("id") or call["id"] or f"call_{index}"
        call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
        delta = function.get("arguments") or ""
        if not isinstance(delta, str):  # Ollama's own format, through some gateways
            delta = json.dumps(delta)
        self._arguments.setdefault(index, TextBuffer()).append(delta)
        if "extra_content" in piece:  # Gemini's thought signatures, through its compatible endpoint
            call["extra_content"] = piece["extra_content"]
        return self._input(index, call, delta, first=first) if self._streams_tools else []

    def _index(self, piece: Json) -> int:
        """Which call a piece belongs to. Gateways omit the index, send null, or 0 for all parallel calls."""
        key, new, function = piece.get("index"), len(self._calls), piece.get("function") or {}
        if key is None:
            key = piece.get("id") or (
                None if function.get("name") else next(reversed(self._own_indexes), None)
            )
        index = self._own_indexes.setdefault(key, new)
        call = self._calls.get(index)
        if key is None or (call is not None and self._is_other(call, index, piece, function.get("name"))):
            index = self._own_indexes[key] = new
        return index

    def _is_other(self, call: Json, index: int, piece: Json, name: str | None) -> bool:
        """Whether a piece with the index of this call begins another one: its id and name are new."""
        if not name or piece.get("id") in {None, "", call["id"]}:
            return False
        return name != call["function"]["name"] or _is_object(self._arguments[index].text())

    def _input(self, index: int, call: Json, delta: str, *, first: bool) -> list[Event]:
        name = call["function"]["name"]
        if first:
            self._streamed |= {index} if name else set()
            events = [*self._new_thought(), *self._complete_calls()]
            return [*events, ToolInput(call["id"], name, delta)] if name else events
        is_open = index in self._streamed and index not in self._called
        return [ToolInput(call["id"], name, delta)] if is_open and delta else []

    def _complete_calls(self) -> list[Event]:
        """The calls before the newest whose arguments are complete JSON, so that nothing can follow."""
        before = [index for index in self._calls if index not in self._called][:-1]
        complete = [index for index in before if _is_object(self._arguments[index].text())]
        self._called.update(complete)
        return [ToolUse(self._complete_call(index)) for index in complete]

    def _complete_call(self, index: int) -> ToolCall:
        call = self._calls[index]
        arguments = parsed_arguments(self._arguments[index].text())
        return ToolCall(call["id"], call["function"]["name"], arguments)

    def _source(self, url: str | None, title: str | None) -> list[Event]:
        if not url or url in self._sources:
            return []
        self._sources.add(url)
        return [Notice("source", source_name(title, url), {"url": url})]

    def _reasoning(self) -> dict[str, object]:
        if self._details:
            return {"reasoning_details": self._details.items()}
        return {field: "".join(pieces) for field, pieces in self._thoughts.items()}

    def _native(self) -> dict[str, object]:
        return {
            "role": "assistant",
            "content": "".join(self._text) or None,
            **self._reasoning(),
            **({"tool_calls": list(self._calls.values())} if self._calls else {}),
        }


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(strict_json.loads(arguments), dict)
    except ValueError:
        return False


class ReasoningDetails:
    """OpenRouter's `reasoning_details` arrive in fragments. A turn is sent back with one item for each index and type:
    Anthropic checks the signature, which arrives with the last fragment, against the whole text.
    """

    def __init__(self) -> None:
        self._items: dict[Any, Json] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, fragments: Iterable[Json]) -> None:
        for fragment in fragments:
            index = fragment.get("index")
            key = (index, fragment.get("type")) if index is not None else len(self._items)
            item = self._items.setdefault(key, {})
            for name, value in fragment.items():
                if name in {"text", "summary"} and isinstance(value, str):
                    item[name] = (item.get(name) or "") + value
                elif value is not None or name not in item:
                    item[name] = value

    def items(self) -> list[dict[str, object]]:
        return list(self._items.values())


def _usage(counts: Json) -> Usage:
    input_details = details(counts, "prompt_tokens_details")
    prompt, completion = number(counts.get("prompt_tokens")), number(counts.get("completion_tokens"))
    reasoning = number(details(counts, "completion_tokens_details").get("reasoning_tokens"))
    # X.AI, and Google's compatible API, bill reasoning and count it in the total, but not in completion_tokens.
    separate = max(0, number(counts.get("total_tokens")) - prompt - completion)
    if not separate and reasoning > completion:
        separate = reasoning
    return Usage(
        input=prompt,
        output=completion + separate,
        reasoning=max(reasoning, separate),
        # DeepSeek counts its cache in fields of its own.
        cache_read=number(input_details.get("cached_tokens") or counts.get("prompt_cache_hit_tokens")),
        cache_write=number(input_details.get("cache_write_tokens")),
        cost_usd=reported_cost(counts),
    )

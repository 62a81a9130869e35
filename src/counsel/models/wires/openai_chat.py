"""OpenAI Chat Completions, and all who imitate it (DeepSeek, Mistral, OpenRouter, Ollama, vLLM, a gateway)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from counsel import jsontext
from counsel.errors import UpstreamError
from counsel.models import sse
from counsel.models.failures import Complained
from counsel.models.wires.wishes import Wishes, given, joined, options, settle
from counsel.textbuffer import TextBuffer
from counsel.types import (
    Call,
    Endpoint,
    Event,
    Finished,
    Image,
    Json,
    Model,
    Notice,
    Prepared,
    Text,
    Thinking,
    ToolCall,
    ToolSpec,
    ToolUse,
    Turn,
    Usage,
    UsageReport,
)


class OpenAIChat:
    models_path = "/models"

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        return bearer(endpoint)

    def reader(self) -> ChatReader:
        return ChatReader()

    def prepare(self, call: Call, model: Model, endpoint: Endpoint) -> Prepared:
        said = options(model, endpoint)
        wishes = settle(call, model, can_search="web_search_tool" in said)
        system = [{"role": said.get("system_role", "system"), "content": call.system}] if call.system else []
        body: Json = {
            "model": model.wire_id,
            "messages": [*system, *(message for turn in call.turns for message in _messages(turn))],
            "stream": True,
            **given(
                stream_options={"include_usage": True} if said.get("stream_usage", True) else None,
                temperature=wishes.temperature,
                verbosity=wishes.verbosity,
                tools=_tools(call, said, search=wishes.web_search) or None,
            ),
            **({said.get("max_tokens_field", "max_tokens"): call.max_output} if call.max_output else {}),
            **_effort(model, wishes),
            **said.get("body", {}),
        }
        return Prepared(
            joined(endpoint.base_url, "/chat/completions"),
            {**self.headers(endpoint), **said.get("headers", {})},
            body,
            wishes.left_out,
        )


def bearer(endpoint: Endpoint) -> dict[str, str]:
    key = {"authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    return {**key, **endpoint.provider.headers}


def _effort(model: Model, wishes: Wishes) -> Json:
    if wishes.effort is None:
        return {}
    forms: dict[str, Json] = {
        "reasoning_effort": {"reasoning_effort": wishes.effort},
        "reasoning": {"reasoning": {"effort": wishes.effort, "enabled": True}},
        "thinking_type": {"thinking": {"type": wishes.effort}},
    }
    return forms[model.effort_style]


def _tools(call: Call, said: Mapping[str, Any], *, search: bool) -> list[Json]:
    built_in = [{"type": said["web_search_tool"]}] if search else []
    return [*built_in, *(_tool(tool) for tool in call.tools)]


def _tool(tool: ToolSpec) -> Json:
    about = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": about}


def _messages(turn: Turn) -> list[Json]:
    if turn.native is not None:
        return [turn.native]
    messages: list[Json] = [
        {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
        for result in turn.tool_results
    ]
    if turn.role == "assistant":
        calls = {"tool_calls": [_call(call) for call in turn.tool_calls]} if turn.tool_calls else {}
        return (
            [*messages, {"role": "assistant", "content": turn.text or None, **calls}]
            if turn.text or calls
            else messages
        )
    if turn.images:
        text = [{"type": "text", "text": turn.text}] if turn.text else []
        messages.append({"role": "user", "content": [*text, *(_image(image) for image in turn.images)]})
    elif turn.text:
        messages.append({"role": "user", "content": turn.text})
    return messages


def _image(image: Image) -> Json:
    data = b64encode(image.data).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{data}"}}


def _call(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def parsed_arguments(raw: str | None) -> Json:
    """A model can be cut off inside its arguments or write no JSON: the tool then says what is missing."""
    try:
        read = jsontext.loads(raw or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


_REASONS: dict[str, Any] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filtered",
}


class ChatReader:
    def __init__(self) -> None:
        self._text: list[str] = []
        self._thoughts: dict[str, list[str]] = {}  # by the name of the field that they came in
        self._details: list[Json] = []
        self._calls: dict[int, Json] = {}
        self._arguments: dict[int, TextBuffer] = {}
        self._sources: set[str] = set()
        self._reason: str | None = None
        self._model: str | None = None
        self._done = False

    def feed(self, event: str, data: str) -> list[Event]:
        if data == "[DONE]":
            self._done = True
            return []
        chunk = sse.document(data)
        if chunk.get("error") or event == "error":
            raise Complained(chunk, _status(chunk.get("error")))
        self._model = chunk.get("model") or self._model
        choices = chunk.get("choices") or []
        events = self._choice(choices[0]) if choices else []
        if chunk.get("usage"):
            events.append(UsageReport(_usage(chunk["usage"])))
        for url in chunk.get("citations") or ():
            events += self._source(url, url)
        return events

    def finish(self) -> list[Event]:
        if self._reason is None and not self._done:
            raise UpstreamError("The stream ended before the answer did.")
        for place, arguments in self._arguments.items():
            self._calls[place]["function"]["arguments"] = arguments.text()
        calls = [
            ToolCall(call["id"], call["function"]["name"], parsed_arguments(call["function"]["arguments"]))
            for call in self._calls.values()
        ]
        reason = _REASONS.get(self._reason or "stop", "other")
        if calls and reason == "stop":
            reason = "tool_calls"  # several imitators say "stop" here
        return [*(ToolUse(call) for call in calls), Finished(reason, self._model, self._native())]

    def _choice(self, choice: Json) -> list[Event]:
        delta = choice.get("delta") or choice.get("message") or {}
        events: list[Event] = []
        for field in ("reasoning_content", "reasoning"):
            if isinstance(delta.get(field), str) and delta[field]:
                self._thoughts.setdefault(field, []).append(delta[field])
                events.append(Thinking(delta[field]))
                break
        if content := delta.get("content") or delta.get("refusal"):
            events += self._content(content)
        for call in delta.get("tool_calls") or ():
            self._tool_call(call)
        self._details += delta.get("reasoning_details") or []
        for note in delta.get("annotations") or ():
            about = note.get("url_citation") or {}
            events += self._source(about.get("url"), about.get("title"))
        self._reason = choice.get("finish_reason") or self._reason
        return events

    def _content(self, content: Any) -> list[Event]:
        if isinstance(content, str):
            self._text.append(content)
            return [Text(content)]
        return [event for part in content for event in self._part(part)]

    def _part(self, part: Json) -> list[Event]:
        """Mistral's reasoning models send lists of parts."""
        if part.get("type") == "thinking":
            return [Thinking(piece["text"]) for piece in part.get("thinking") or () if piece.get("text")]
        return self._content(part["text"]) if part.get("text") else []

    def _tool_call(self, piece: Json) -> None:
        place = piece.get("index", len(self._calls))
        call = self._calls.setdefault(
            place, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        )
        function = piece.get("function") or {}
        call["id"] = piece.get("id") or call["id"] or f"call_{place}"
        call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
        self._arguments.setdefault(place, TextBuffer()).append(function.get("arguments") or "")
        if "extra_content" in piece:  # Gemini's thought signatures, through its compatible endpoint
            call["extra_content"] = piece["extra_content"]

    def _source(self, url: str | None, title: str | None) -> list[Event]:
        if not url or url in self._sources:
            return []
        self._sources.add(url)
        return [Notice("source", title or url, {"url": url})]

    def _native(self) -> Json:
        thoughts = {field: "".join(pieces) for field, pieces in self._thoughts.items()}
        return {
            "role": "assistant",
            "content": "".join(self._text) or None,
            **({} if self._details else thoughts),
            **({"reasoning_details": self._details} if self._details else {}),
            **({"tool_calls": list(self._calls.values())} if self._calls else {}),
        }


def _status(error: Any) -> int | None:
    """OpenRouter puts the HTTP status into `code`."""
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and code >= 400 else None


def _usage(said: Json) -> Usage:
    into = said.get("prompt_tokens_details") or {}
    out = said.get("completion_tokens_details") or {}
    cost = said.get("cost")
    return Usage(
        input=said.get("prompt_tokens") or 0,
        output=said.get("completion_tokens") or 0,
        reasoning=out.get("reasoning_tokens") or 0,
        # DeepSeek counts its cache in fields of its own.
        cache_read=into.get("cached_tokens") or said.get("prompt_cache_hit_tokens") or 0,
        cache_write=into.get("cache_write_tokens") or 0,
        cost_usd=float(cost) if isinstance(cost, (int, float)) else None,
    )

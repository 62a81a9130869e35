"""OpenAI Chat Completions and compatible APIs (DeepSeek, Mistral, OpenRouter, Ollama, vLLM, gateways)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping

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
from counsel.models.wires.openai_chat_reader import WIRE, ChatReader
from counsel.models.wires.openai_shared import bearer, named_schema, tool_choice
from counsel.text import is_blank
from counsel.types import Adapted, Call, Endpoint, Image, Json, Model, Prepared, ToolCall, ToolSpec, Turn

_SAMPLING = {name: name for name in ("top_p", "frequency_penalty", "presence_penalty")}


class OpenAIChat:
    models_path = "/models"

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        return bearer(endpoint)

    def reader(self, *, streams_tools: bool = False) -> ChatReader:
        return ChatReader(streams_tools=streams_tools)

    def prepare(self, call: Call, model: Model, endpoint: Endpoint) -> Prepared:
        options = wire_options(model, endpoint)
        settings = resolve_settings(call, model, can_search="web_search_tool" in options)
        system = (
            [{"role": options.get("system_role", "system"), "content": call.system}]
            if not is_blank(call.system or "")
            else []
        )
        shaping, unsent = sampling(call.exact, model, _SAMPLING)
        body: dict[str, object] = {
            "model": model.wire_id,
            "messages": [*system, *(message for turn in call.turns for message in _messages(turn))],
            "stream": True,
            **without_none(
                stream_options={"include_usage": True} if options.get("stream_usage", True) else None,
                temperature=settings.temperature,
                verbosity=settings.verbosity,
                response_format=_format(call, options),
                tools=_tools(call, options, search=settings.web_search) or None,
                tool_choice=tool_choice(call.exact, nested=True),
                parallel_tool_calls=call.exact.parallel_tool_calls if call.exact else None,
                stop=sent_stops(call.exact, "openai_chat"),
            ),
            **shaping,
            **_effort(model, settings),
            **options.get("body", {}),
            **({options.get("max_tokens_field", "max_tokens"): call.max_output} if call.max_output else {}),
        }
        return Prepared(
            joined(endpoint.base_url, "/chat/completions"),
            {**self.headers(endpoint), **options.get("headers", {})},
            limited(body, options.get("max_tokens_field", "max_tokens"), call),
            (*settings.left_out, *unsent, *(("response_format",) if _lacks_format(call, options) else ())),
            (*settings.adapted, *_other_format(call, model, options)),
            optional=("response_format",),
        )


def _format(call: Call, options: Mapping[str, object]) -> dict[str, object] | None:
    """`structured_output` of the provider's row: `json_schema`, `json_object` (any JSON), or `none`."""
    style = options.get("structured_output", "json_schema")
    is_wanted = call.schema is not None or (call.exact is not None and call.exact.json_object)
    if not is_wanted or style == "none":
        return None
    if style == "json_object" or call.schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": named_schema(call)}


def _lacks_format(call: Call, options: Mapping[str, object]) -> bool:
    """Whether a client asks for JSON and the server has no setting for it."""
    exact = call.exact
    wants = exact is not None and (call.schema is not None or exact.json_object)
    return wants and options.get("structured_output") == "none"


def _other_format(call: Call, model: Model, options: Mapping[str, object]) -> tuple[Adapted, ...]:
    """A client's schema, for a vendor that guarantees JSON but no schema."""
    if call.exact is None or call.schema is None or options.get("structured_output") != "json_object":
        return ()
    why = f"{model.id} does not accept a schema: JSON was requested without it."
    return (Adapted("response_format", "json_schema", "json_object", why),)


def _effort(model: Model, settings: SentSettings) -> dict[str, object]:
    if settings.effort is None:
        return {}
    forms: dict[str, dict[str, object]] = {
        "reasoning_effort": {"reasoning_effort": settings.effort},
        "reasoning": {"reasoning": {"effort": settings.effort, "enabled": True}},
        "thinking_type": {"thinking": {"type": settings.effort}},
    }
    return forms[model.effort_style]


def _tools(call: Call, options: Mapping[str, object], *, search: bool) -> list[dict[str, object]]:
    built_in = [{"type": options["web_search_tool"]}] if search else []
    return [*built_in, *(_tool(tool) for tool in call.tools)]


def _tool(tool: ToolSpec) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    strict = {} if tool.strict is None else {"strict": tool.strict}
    return {"type": "function", "function": {**function, **strict}}


def _messages(turn: Turn) -> list[dict[str, object]]:
    if turn.native is not None:
        return _verbatim(turn.native)
    messages: list[dict[str, object]] = [
        {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
        for result in turn.tool_results
    ]
    if turn.role == "assistant":
        calls = {"tool_calls": [_call(call) for call in turn.tool_calls]} if turn.tool_calls else {}
        text_content = None if is_blank(turn.text) else turn.text
        return (
            [*messages, {"role": "assistant", "content": text_content, **_thoughts(turn), **calls}]
            if text_content or calls
            else messages
        )
    # A tool's message has text only: its images follow in a user's message.
    images = (*(image for result in turn.tool_results for image in result.images), *turn.images)
    if images:
        text = [] if is_blank(turn.text) else [{"type": "text", "text": turn.text}]
        messages.append({"role": "user", "content": [*text, *(_image(image) for image in images)]})
    elif not is_blank(turn.text):
        messages.append({"role": "user", "content": turn.text})
    return messages


def _thoughts(turn: Turn) -> dict[str, object]:
    """The turn's reasoning, in the fields in which the vendor sent it."""
    fields: dict[str, object] = {}
    for thought in turn.thoughts:
        if thought.wire == WIRE:
            fields |= thought.item
    return fields


def _verbatim(message: Json) -> list[dict[str, object]]:
    if not is_blank(message["content"] or ""):
        return [message]
    return [{**message, "content": None}] if message.get("tool_calls") else []


def _image(image: Image) -> dict[str, object]:
    if image.url:
        return {"type": "image_url", "image_url": {"url": image.url}}
    data = b64encode(image.data).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{data}"}}


def _call(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}

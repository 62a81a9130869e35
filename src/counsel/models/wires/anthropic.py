"""Anthropic Messages."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

from counsel.models.wires import anthropic_client
from counsel.models.wires.anthropic_reader import MessagesReader
from counsel.models.wires.call_settings import (
    joined,
    limited,
    resolve_settings,
    sampling,
    sent_stops,
    wire_options,
    without_none,
)
from counsel.text import is_blank
from counsel.types import Call, Endpoint, Image, Json, Model, Native, Prepared, ToolResult, Turn

VERSION = "2026-10-21"
# The newest version refuses `temperature`; models that still accept it do so with the old version.
VERSION_WITH_TEMPERATURE = "2023-06-01"
CACHE = {"type": "ephemeral", "ttl": "1h"}
MIN_BUDGET = 1024  # the vendor's minimum for thinking


WIRE = anthropic_client.WIRE


class Anthropic:
    models_path = "/v1/models"

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        key = {"x-api-key": endpoint.key} if endpoint.key else {}
        return {**key, "anthropic-version": VERSION, **endpoint.provider.headers}

    def reader(self, *, streams_tools: bool = False) -> MessagesReader:
        return MessagesReader(streams_tools=streams_tools)

    def prepare(self, call: Call, model: Model, endpoint: Endpoint) -> Prepared:
        options = wire_options(model, endpoint)
        if call.exact and call.exact.native and call.exact.native.wire == WIRE:
            return self._client_request(call.exact.native, call, model, endpoint)
        settings = resolve_settings(call, model, counts_thinking=True)
        thinking, limit, unsent_thinking = _accepted_thinking(model, settings.effort, call, options)
        # The vendor refuses a temperature together with thinking.
        temperature = None if thinking else settings.temperature
        shaping, unsent = sampling(call.exact, model, {} if thinking else anthropic_client.SAMPLING)
        messages = _messages(call)
        _mark_stable_prefix(messages)
        body: dict[str, object] = {
            "model": model.wire_id,
            "max_tokens": limit,
            "messages": messages,
            "stream": True,
            **without_none(
                system=_system(call),
                temperature=temperature,
                thinking=thinking,
                output_config=_output_config(model, settings.effort, call),
                tools=_tools(call, options, search=settings.web_search) or None,
                tool_choice=anthropic_client.tool_choice(call.exact),
                stop_sequences=sent_stops(call.exact, WIRE),
            ),
            **shaping,
            **options.get("body", {}),
        }
        version = VERSION if temperature is None else VERSION_WITH_TEMPERATURE
        headers = {
            **self.headers(endpoint),
            "anthropic-version": options.get("api_version", version),
            **options.get("headers", {}),
        }
        refused = call.model_settings.temperature is not None and temperature is None
        left_out = (*settings.left_out_and("temperature", requested=refused), *unsent_thinking, *unsent)
        if call.exact and call.exact.json_object:  # Anthropic has schemas only
            left_out = (*left_out, "response_format")
        return Prepared(
            _url(endpoint),
            headers,
            _within_budget(body, call),
            left_out,
            (
                *(change for change in settings.adapted if change.setting not in left_out),
                *anthropic_client.smaller_limit(call, model),
            ),
            optional=("thinking.display", "output_config.format"),
        )

    def _client_request(self, native: Native, call: Call, model: Model, endpoint: Endpoint) -> Prepared:
        """The client's own request, without what this model refuses."""
        options = wire_options(model, endpoint)
        body, left_out = anthropic_client.client_body(native, call, model, options)
        version = {"anthropic-version": options["api_version"]} if "api_version" in options else {}
        headers = {**self.headers(endpoint), **native.headers, **version, **options.get("headers", {})}
        return Prepared(_url(endpoint), headers, _within_budget(body, call), left_out)


def _within_budget(body: dict[str, object], call: Call) -> dict[str, object]:
    """The body within the budget's limit. `max_tokens` includes thinking, and the vendor refuses thinking that leaves
    no room for an answer."""
    body = limited(body, "max_tokens", call)
    thinking, limit = body.get("thinking"), body.get("max_tokens")
    if call.output_limit is None or not isinstance(thinking, dict) or not isinstance(limit, int):
        return body
    budget = thinking.get("budget_tokens")
    if not isinstance(budget, int) or budget < limit:
        return body
    smaller = {**thinking, "budget_tokens": limit // 2} if limit // 2 >= MIN_BUDGET else {"type": "disabled"}
    return {**body, "thinking": smaller}


def _url(endpoint: Endpoint) -> str:
    return joined(endpoint.base_url.rstrip("/").removesuffix("/v1"), "/v1/messages")


def _accepted_thinking(
    model: Model, effort: str | int | None, call: Call, options: Mapping[str, object]
) -> tuple[dict[str, object] | None, int, tuple[str, ...]]:
    """As `_thinking`, and the name of the setting that is left out if the vendor refuses to think."""
    thinking, limit = anthropic_client.requested_thinking(call, model) or _thinking(
        model, effort, call, options
    )
    if not thinking or thinking["type"] != "enabled" or not anthropic_client.refuses_thinking(call):
        return thinking, limit, ()
    return *_thinking(model, None, call, options), ("thinking" if effort is None else "reasoning_effort",)


def _thinking(
    model: Model, effort: str | int | None, call: Call, options: Mapping[str, object]
) -> tuple[dict[str, object] | None, int]:
    """The thinking field, and a max_tokens that leaves room for the answer."""
    max_output, largest = call.max_output, min(model.output, call.output_limit or model.output)
    limit = min(max_output or largest, largest)
    # From Opus 4.7 on, thinking is streamed on request only, and long thinking would look like a dead connection.
    default = "summarized" if model.effort_style == "adaptive" else None
    display = without_none(display=options.get("thinking_display", default))
    if model.effort_style == "adaptive" and effort is not None:
        return {"type": "adaptive", **display}, limit
    if not model.effort_style.startswith("budget") or not isinstance(effort, int) or effort == 0:
        return None, limit
    if max_output is not None:
        limit = min(max_output + effort, largest)
    budget = min(effort, limit // 2 if limit <= effort else effort)
    if budget < MIN_BUDGET:
        return None, limit
    return {"type": "enabled", "budget_tokens": budget, **display}, limit


_EFFORTS_BESIDE_BUDGET = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "max": "high"}


def _output_config(model: Model, effort: str | int | None, call: Call) -> dict[str, object] | None:
    config = _effort_config(model, effort, call) or {}
    if call.schema is not None:
        config["format"] = {"type": "json_schema", "schema": call.schema}
    return config or None


def _effort_config(model: Model, effort: str | int | None, call: Call) -> dict[str, object] | None:
    if effort is None:
        return None
    if model.effort_style == "adaptive":
        return {"effort": effort}
    if model.effort_style == "budget_effort":
        return {"effort": _EFFORTS_BESIDE_BUDGET[call.model_settings.effort or "medium"]}
    return None


def _tools(call: Call, options: Mapping[str, object], *, search: bool) -> list[Json]:
    built_in = (
        [{"type": options.get("web_search_tool", "web_search_20250305"), "name": "web_search"}]
        if search
        else []
    )
    own = [
        {
            "name": tool.name,
            **({"description": tool.description} if tool.description else {}),
            "input_schema": tool.schema,
            **({"strict": tool.strict} if tool.strict is not None else {}),
        }
        for tool in call.tools
    ]
    return [*built_in, *own]


def _system(call: Call) -> list[dict[str, object]] | None:
    if not call.system or is_blank(call.system):
        return None
    return [{"type": "text", "text": call.system, "cache_control": CACHE}]


def _messages(call: Call) -> list[Json]:
    messages = ({"role": _role(turn), "content": _blocks(turn)} for turn in call.turns)
    return [message for message in messages if message["content"]]


def _role(turn: Turn) -> str:
    return "assistant" if turn.role == "assistant" else "user"


def _blocks(turn: Turn) -> list[Json]:
    if turn.native is not None:
        return [dict(block) for block in turn.native if not _is_blank(block)]
    return [
        *(dict(thought.item) for thought in turn.thoughts if thought.wire == WIRE),
        *(_result(result) for result in turn.tool_results),
        *([] if is_blank(turn.text) else [{"type": "text", "text": turn.text}]),
        *(_image(image) for image in turn.images),
        *(
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in turn.tool_calls
        ),
    ]


def _is_blank(block: Json) -> bool:
    """Whether this is a blank text block: the vendor itself sends them, and refuses them when they are sent back."""
    return block.get("type") == "text" and is_blank(block.get("text") or "")


def _result(result: ToolResult) -> Json:
    return {
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "content": [
            *([] if is_blank(result.text) else [{"type": "text", "text": result.text}]),
            *(_image(image) for image in result.images),
        ],
        "is_error": result.is_error,
    }


def _image(image: Image) -> dict[str, object]:
    if image.url:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    data = b64encode(image.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": data}}


def _mark_stable_prefix(messages: list[Json]) -> None:
    """Cache what a conversation will send again: everything up to the last user message before the newest one.

    The newest is not marked: writing to the cache costs twice the price, and most questions are asked once. An
    assistant's turn is not marked either: it is sent back verbatim, and thinking blocks must not be marked.
    """
    earlier = [message for message in messages[:-1] if message["role"] == "user"]
    if earlier:
        blocks = earlier[-1]["content"]
        blocks[-1] = {**blocks[-1], "cache_control": CACHE}

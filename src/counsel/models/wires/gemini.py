"""Gemini streamGenerateContent."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

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
from counsel.models.wires.gemini_reader import OUR_ID, WIRE, GeminiReader
from counsel.text import is_blank
from counsel.types import (
    Adapted,
    Call,
    Endpoint,
    Exact,
    Image,
    Json,
    Model,
    Prepared,
    ToolCall,
    ToolResult,
    Turn,
)

# Gemini 3 refuses its own tool call when it is sent back without its signature, unless it has this one.
NO_SIGNATURE = b64encode(b"skip_thought_signature_validator").decode()


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

"""OpenAI Responses (OpenAI, xAI)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping

from counsel.models.wires.call_settings import (
    joined,
    limited,
    resolve_settings,
    sampling,
    wire_options,
    without_none,
)
from counsel.models.wires.openai_responses_reader import WIRE, ResponsesReader
from counsel.models.wires.openai_shared import bearer, named_schema, tool_choice
from counsel.text import is_blank
from counsel.types import (
    Adapted,
    Call,
    Endpoint,
    Image,
    Json,
    Model,
    Native,
    Prepared,
    ToolCall,
    ToolResult,
    ToolSpec,
    Turn,
)


class OpenAIResponses:
    models_path = "/models"

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        return bearer(endpoint)

    def reader(self, *, streams_tools: bool = False) -> ResponsesReader:
        return ResponsesReader(streams_tools=streams_tools)

    def prepare(self, call: Call, model: Model, endpoint: Endpoint) -> Prepared:
        options = wire_options(model, endpoint)
        can_reason = model.effort_style != "none"
        if call.exact and call.exact.native and call.exact.native.wire == WIRE:
            return self._client_request(call.exact.native, call, model, endpoint)
        settings = resolve_settings(call, model)
        shaping, unsent = sampling(call.exact, model, {"top_p": "top_p"})
        body: dict[str, object] = {
            "model": model.wire_id,
            "input": [item for turn in call.turns for item in _items(turn)],
            "stream": True,
            # The vendor stores nothing, so a tool loop sends its reasoning back, encrypted.
            "store": False,
            **without_none(
                include=[_ENCRYPTED] if options.get("encrypted", can_reason) else None,
                instructions=call.system if not is_blank(call.system or "") else None,
                max_output_tokens=max(call.max_output, LEAST_OUTPUT) if call.max_output else None,
                temperature=settings.temperature,
                reasoning=_reasoning(settings.effort, options),
                text=without_none(verbosity=settings.verbosity, format=_format(call)) or None,
                tools=_tools(call, options, search=settings.web_search) or None,
                tool_choice=tool_choice(call.exact, nested=False),
                parallel_tool_calls=call.exact.parallel_tool_calls if call.exact else None,
            ),
            **shaping,
            **options.get("body", {}),
        }
        return Prepared(
            joined(endpoint.base_url, "/responses"),
            {**self.headers(endpoint), **options.get("headers", {})},
            limited(body, "max_output_tokens", call),
            (*settings.left_out, *unsent),
            (*settings.adapted, *_larger_limit(call, model)),
            optional=("reasoning.summary", "text.format"),
        )

    def _client_request(self, native: Native, call: Call, model: Model, endpoint: Endpoint) -> Prepared:
        """The client's own request. The vendor stores nothing: counsel stores what the client wants stored."""
        options = wire_options(model, endpoint)
        refused = ("temperature", "top_p") if model.temperature is None else ()
        left_out = tuple(name for name in refused if native.body.get(name) is not None)
        body = {name: value for name, value in native.body.items() if name not in left_out}
        body |= {"model": model.wire_id, "stream": True, "store": False}
        if options.get("encrypted", model.effort_style != "none"):
            body["include"] = list(dict.fromkeys([*(body.get("include") or ()), _ENCRYPTED]))
        headers = {**self.headers(endpoint), **native.headers, **options.get("headers", {})}
        body |= options.get("body", {})
        url = joined(endpoint.base_url, "/responses")
        return Prepared(url, headers, limited(body, "max_output_tokens", call), left_out)


_ENCRYPTED = "reasoning.encrypted_content"
LEAST_OUTPUT = 16  # tokens; below: "Invalid 'max_output_tokens': integer below minimum value"


def _larger_limit(call: Call, model: Model) -> tuple[Adapted, ...]:
    """OpenAI's and Anthropic's other APIs accept 1, which clients send to test a model or a key."""
    if not call.max_output or call.max_output >= LEAST_OUTPUT:
        return ()
    why = f"{model.id} takes at least {LEAST_OUTPUT} tokens for an answer, which was sent instead of {call.max_output}."
    return (Adapted("max_tokens", str(call.max_output), str(LEAST_OUTPUT), why),)


def _format(call: Call) -> dict[str, object] | None:
    if call.schema is None:
        return {"type": "json_object"} if call.exact and call.exact.json_object else None
    return {"type": "json_schema", **named_schema(call)}


def _reasoning(effort: str | int | None, options: Mapping[str, object]) -> dict[str, object] | None:
    if effort is None:
        return None
    summary = options.get("reasoning_summary")
    return {"effort": effort, "summary": summary} if summary is not None else {"effort": effort}


def _tools(call: Call, options: Mapping[str, object], *, search: bool) -> list[dict[str, object]]:
    built_in = [{"type": options.get("web_search_tool", "web_search")}] if search else []
    return [*built_in, *(_tool(tool) for tool in call.tools)]


def _tool(tool: ToolSpec) -> dict[str, object]:
    # Without `strict: false`, the API tightens the schema, which breaks schemas of MCP tools.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        "strict": bool(tool.strict),
    }


def _items(turn: Turn) -> list[dict[str, object]]:
    if turn.native is not None:
        return [item for item in turn.native if not _is_blank(item)]
    items: list[dict[str, object]] = [
        {"type": "function_call_output", "call_id": result.call_id, "output": _output(result)}
        for result in turn.tool_results
    ]
    if turn.role == "assistant":
        items += [dict(thought.item) for thought in turn.thoughts if thought.wire == WIRE]
        items += [] if is_blank(turn.text) else [{"role": "assistant", "content": turn.text}]
        return items + [_call(call) for call in turn.tool_calls]
    if turn.images:
        text = [] if is_blank(turn.text) else [{"type": "input_text", "text": turn.text}]
        items.append({"role": "user", "content": [*text, *(_image(image) for image in turn.images)]})
    elif not is_blank(turn.text):
        items.append({"role": "user", "content": turn.text})
    return items


def _output(result: ToolResult) -> str | list[dict[str, object]]:
    if not result.images:
        return result.text
    images = [_image(image) for image in result.images]
    return images if is_blank(result.text) else [{"type": "input_text", "text": result.text}, *images]


def _is_blank(item: Json) -> bool:
    """Whether it is a message without text. (A reasoning item must keep the item that follows it.)"""
    return item.get("type") == "message" and all(
        part.get("type") == "output_text" and is_blank(part.get("text") or "") for part in item["content"]
    )


def _image(image: Image) -> dict[str, object]:
    if image.url:
        return {"type": "input_image", "image_url": image.url, "detail": "auto"}
    data = b64encode(image.data).decode()
    return {"type": "input_image", "image_url": f"data:{image.media_type};base64,{data}", "detail": "auto"}


def _call(call: ToolCall) -> dict[str, object]:
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": json.dumps(call.arguments),
    }

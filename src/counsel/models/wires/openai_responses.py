"""OpenAI Responses (OpenAI, xAI)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from counsel.errors import UpstreamError
from counsel.models import sse
from counsel.models.failures import Complained
from counsel.models.wires.openai_chat import bearer, parsed_arguments
from counsel.models.wires.wishes import given, joined, options, settle
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


class OpenAIResponses:
    models_path = "/models"

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        return bearer(endpoint)

    def reader(self) -> ResponsesReader:
        return ResponsesReader()

    def prepare(self, call: Call, model: Model, endpoint: Endpoint) -> Prepared:
        said = options(model, endpoint)
        wishes = settle(call, model)
        reasons = model.effort_style != "none"
        body: Json = {
            "model": model.wire_id,
            "input": [item for turn in call.turns for item in _items(turn)],
            "stream": True,
            # Nothing is kept at the vendor, so a tool loop carries its reasoning itself, encrypted.
            "store": False,
            **given(
                include=["reasoning.encrypted_content"] if said.get("encrypted", reasons) else None,
                instructions=call.system or None,
                max_output_tokens=call.max_output,
                temperature=wishes.temperature,
                reasoning={"effort": wishes.effort} if wishes.effort is not None else None,
                text={"verbosity": wishes.verbosity} if wishes.verbosity else None,
                tools=_tools(call, said, search=wishes.web_search) or None,
            ),
            **said.get("body", {}),
        }
        return Prepared(
            joined(endpoint.base_url, "/responses"),
            {**self.headers(endpoint), **said.get("headers", {})},
            body,
            wishes.left_out,
        )


def _tools(call: Call, said: Mapping[str, Any], *, search: bool) -> list[Json]:
    built_in = [{"type": said.get("web_search_tool", "web_search")}] if search else []
    return [*built_in, *(_tool(tool) for tool in call.tools)]


def _tool(tool: ToolSpec) -> Json:
    # Without `strict: false` the API tightens the schema, which MCP tools' schemas do not survive.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        "strict": False,
    }


def _items(turn: Turn) -> list[Json]:
    if turn.native is not None:
        return list(turn.native)
    items: list[Json] = [
        {"type": "function_call_output", "call_id": result.call_id, "output": result.text}
        for result in turn.tool_results
    ]
    if turn.role == "assistant":
        items += [{"role": "assistant", "content": turn.text}] if turn.text else []
        return items + [_call(call) for call in turn.tool_calls]
    if turn.images:
        text = [{"type": "input_text", "text": turn.text}] if turn.text else []
        items.append({"role": "user", "content": [*text, *(_image(image) for image in turn.images)]})
    elif turn.text:
        items.append({"role": "user", "content": turn.text})
    return items


def _image(image: Image) -> Json:
    data = b64encode(image.data).decode()
    return {"type": "input_image", "image_url": f"data:{image.media_type};base64,{data}", "detail": "auto"}


def _call(call: ToolCall) -> Json:
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": json.dumps(call.arguments),
    }


class ResponsesReader:
    def __init__(self) -> None:
        self._items: list[Json] = []
        self._sources: set[str] = set()
        self._refused = False
        self._message: int | None = None
        self._finished: Finished | None = None

    def feed(self, event: str, data: str) -> list[Event]:
        if data == "[DONE]":
            return []
        said = sse.document(data)
        read = _READS.get(said.get("type") or event)
        return read(self, said) if read else []

    def finish(self) -> list[Event]:
        if self._finished is None:
            raise UpstreamError("The stream ended before the answer did.")
        return [self._finished]

    def _text(self, said: Json) -> list[Event]:
        """Each message of an answer, such as those before and after a search, is a paragraph of its own."""
        before, self._message = self._message, said.get("output_index")
        new = before is not None and before != self._message
        return [Text("\n\n"), Text(said["delta"])] if new else [Text(said["delta"])]

    def _refusal(self, said: Json) -> list[Event]:
        self._refused = True
        return self._text(said)

    def _thinking(self, said: Json) -> list[Event]:
        return [Thinking(said["delta"])]

    def _next_thought(self, said: Json) -> list[Event]:
        return [Thinking("\n\n")] if said.get("summary_index") else []

    def _annotation(self, said: Json) -> list[Event]:
        note = said.get("annotation") or {}
        url = note.get("url")
        if not url or url in self._sources:
            return []
        self._sources.add(url)
        return [Notice("source", note.get("title") or url, {"url": url})]

    def _item(self, said: Json) -> list[Event]:
        item = said["item"]
        self._items.append(item)
        if item.get("type") != "function_call":
            return []
        return [ToolUse(ToolCall(item["call_id"], item["name"], parsed_arguments(item.get("arguments"))))]

    def _completed(self, said: Json) -> list[Event]:
        response = said["response"]
        self._finished = Finished(
            self._reason(response), response.get("model"), self._items or response.get("output") or []
        )
        return [UsageReport(_usage(response["usage"]))] if response.get("usage") else []

    def _reason(self, response: Json) -> Any:
        why = (response.get("incomplete_details") or {}).get("reason")
        if why:
            return {"max_output_tokens": "length", "content_filter": "filtered"}.get(why, "other")
        if any(item.get("type") == "function_call" for item in self._items):
            return "tool_calls"
        return "filtered" if self._refused else "stop"

    def _failed(self, said: Json) -> list[Event]:
        raise Complained((said.get("response") or said).get("error") or said)


# of functions, not of a reader's own methods: it would hold itself, and with it a long answer until the next collection
_READS: dict[str, Callable[[ResponsesReader, Json], list[Event]]] = {
    "response.output_text.delta": ResponsesReader._text,  # noqa: SLF001 - a table of this module's own
    "response.refusal.delta": ResponsesReader._refusal,  # noqa: SLF001
    "response.reasoning_summary_text.delta": ResponsesReader._thinking,  # noqa: SLF001
    "response.reasoning_text.delta": ResponsesReader._thinking,  # noqa: SLF001
    "response.reasoning_summary_part.added": ResponsesReader._next_thought,  # noqa: SLF001
    "response.output_text.annotation.added": ResponsesReader._annotation,  # noqa: SLF001
    "response.output_item.done": ResponsesReader._item,  # noqa: SLF001
    "response.completed": ResponsesReader._completed,  # noqa: SLF001
    "response.incomplete": ResponsesReader._completed,  # noqa: SLF001
    "response.failed": ResponsesReader._failed,  # noqa: SLF001
    "error": ResponsesReader._failed,  # noqa: SLF001
}


def _usage(said: Json) -> Usage:
    into = said.get("input_tokens_details") or {}
    out = said.get("output_tokens_details") or {}
    return Usage(
        input=said.get("input_tokens") or 0,
        output=said.get("output_tokens") or 0,
        reasoning=out.get("reasoning_tokens") or 0,
        cache_read=into.get("cached_tokens") or 0,
        cache_write=into.get("cache_write_tokens") or 0,
    )

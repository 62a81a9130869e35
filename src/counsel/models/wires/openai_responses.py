"""OpenAI Responses (OpenAI, xAI)."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from counsel.errors import UpstreamError
from counsel.models import sse
from counsel.models.failures import Complained
from counsel.models.wires.call_settings import given, joined, options, settle
from counsel.models.wires.openai_chat import bearer, parsed_arguments, source_name, told_cost
from counsel.pieces import missing
from counsel.text import is_blank
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
                instructions=call.system if not is_blank(call.system or "") else None,
                max_output_tokens=call.max_output,
                temperature=wishes.temperature,
                reasoning=_reasoning(wishes.effort, said),
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
            wishes.adapted,
            optional=("reasoning.summary",),
        )


def _reasoning(effort: str | int | None, said: Mapping[str, Any]) -> Json | None:
    return None if effort is None else given(effort=effort, summary=said.get("reasoning_summary"))


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
        return [item for item in turn.native if not _is_blank(item)]
    items: list[Json] = [
        {"type": "function_call_output", "call_id": result.call_id, "output": result.text}
        for result in turn.tool_results
    ]
    if turn.role == "assistant":
        items += [] if is_blank(turn.text) else [{"role": "assistant", "content": turn.text}]
        return items + [_call(call) for call in turn.tool_calls]
    if turn.images:
        text = [] if is_blank(turn.text) else [{"type": "input_text", "text": turn.text}]
        items.append({"role": "user", "content": [*text, *(_image(image) for image in turn.images)]})
    elif not is_blank(turn.text):
        items.append({"role": "user", "content": turn.text})
    return items


def _is_blank(item: Json) -> bool:
    """A message without a word. (A reasoning item must keep the one that follows it.)"""
    return item.get("type") == "message" and all(
        part.get("type") == "output_text" and is_blank(part.get("text") or "") for part in item["content"]
    )


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


Place: TypeAlias = tuple[str, int, int]  # kind, output_index, index of the part
_KINDS = {
    "response.output_text": "text",
    "response.refusal": "refusal",
    "response.reasoning_summary_text": "summary",
    "response.reasoning_text": "reasoning",
}
_PART_INDEX = {
    "text": "content_index",
    "refusal": "content_index",
    "reasoning": "content_index",
    "summary": "summary_index",
}
_PIECES = {  # an event's type → kind, what names the part, whether it is the whole of it
    f"{name}.{end}": (kind, _PART_INDEX[kind], end == "done")
    for name, kind in _KINDS.items()
    for end in ("delta", "done")
}


class ResponsesReader:
    def __init__(self) -> None:
        self._items: list[Json] = []
        self._sources: set[str] = set()
        self._parts: dict[Place, list[str]] = {}  # of texts, thoughts and refusals: what came so far
        self._message: int | None = None  # the newest one with text
        self._finished: Finished | None = None

    def feed(self, event: str, data: str) -> list[Event]:
        if data == "[DONE]":
            return []
        said = sse.document(data)
        if said.get("object") == "response":  # the answer of a server that does not stream
            return self._completed({"response": said})
        read = _READS.get(said.get("type") or event)
        return read(self, said) if read else []

    def finish(self) -> list[Event]:
        if self._finished is None:
            raise UpstreamError("The stream ended before the answer did.")
        return [self._finished]

    def _delta(self, said: Json) -> list[Event]:
        kind, index, done = _PIECES[said["type"]]
        place = (kind, said.get("output_index", 0), said.get(index, 0))
        if done:
            return self._whole(place, said.get("text") or said.get("refusal") or "")
        return self._piece(place, said["delta"])

    def _whole(self, place: Place, text: str) -> list[Event]:
        """A part as a whole: what of it came in no piece."""
        return self._piece(place, missing("".join(self._parts.get(place, ())), text))

    def _piece(self, place: Place, text: str) -> list[Event]:
        if not text:
            return []
        kind, message, _ = place
        first = place not in self._parts
        self._parts.setdefault(place, []).append(text)
        if kind == "text":
            return self._text(text, message)
        if kind == "summary" and first and place[2]:
            return [Thinking("\n\n"), Thinking(text)]
        return [] if kind == "refusal" else [Thinking(text)]

    def _text(self, text: str, message: int) -> list[Event]:
        """Each message of an answer, such as those before and after a search, is a paragraph of its own."""
        before, self._message = self._message, message
        new = before is not None and before != message
        return [Text("\n\n"), Text(text)] if new else [Text(text)]

    def _part(self, said: Json) -> list[Event]:
        part = said.get("part") or {}
        return self._content(part, said.get("output_index", 0), said.get("content_index", 0))

    def _content(self, part: Json, message: int, index: int) -> list[Event]:
        if part.get("type") == "refusal":
            return self._whole(("refusal", message, index), part.get("refusal") or "")
        if part.get("type") != "output_text":
            return []
        events = self._whole(("text", message, index), part.get("text") or "")
        for note in part.get("annotations") or ():
            events += self._annotation({"annotation": note})
        return events

    def _annotation(self, said: Json) -> list[Event]:
        note = said.get("annotation") or {}
        url = note.get("url")
        if not url or url in self._sources:
            return []
        self._sources.add(url)
        return [Notice("source", source_name(note.get("title"), url), {"url": url})]

    def _item(self, said: Json) -> list[Event]:
        item, place = said["item"], said.get("output_index", len(self._items))
        self._items.append(item)
        if item.get("type") == "function_call":
            return [ToolUse(ToolCall(item["call_id"], item["name"], parsed_arguments(item.get("arguments"))))]
        events: list[Event] = []
        if item.get("type") == "message":
            for index, part in enumerate(item.get("content") or ()):
                events += self._content(part, place, index)
        elif item.get("type") == "reasoning":
            for kind, parts in (("summary", item.get("summary")), ("reasoning", item.get("content"))):
                for index, part in enumerate(parts or ()):
                    events += self._whole((kind, place, index), part.get("text") or "")
        return events

    def _completed(self, said: Json) -> list[Event]:
        response = said["response"]
        events: list[Event] = []
        in_deltas_only = not self._items
        for place, item in enumerate(response.get("output") or ()):
            if in_deltas_only and self._was_said(item):
                self._items.append(item)
            elif not self._has(item, place):
                events += self._item({"item": item, "output_index": place})
        self._finished = Finished(
            self._reason(response), response.get("model"), self._items, vendor=self._vendor(response)
        )
        return [*events, *([UsageReport(_usage(response["usage"]))] if response.get("usage") else [])]

    def _has(self, item: Json, place: int) -> bool:
        """Whether an item of the whole answer came by itself before; gateways may give it another id."""
        for name in ("call_id", "id"):
            if item.get(name) and any(known.get(name) == item[name] for known in self._items):
                return True
        return place < len(self._items) and self._items[place].get("type") == item.get("type")

    def _was_said(self, item: Json) -> bool:
        """Whether a message came in deltas, whatever index they had: a gateway may leave items out that were before it."""
        if item.get("type") != "message":
            return False
        said = {"".join(pieces) for place, pieces in self._parts.items() if place[0] == "text"}
        return {part.get("text") for part in item.get("content") or ()} <= said

    def _vendor(self, response: Json) -> dict[str, str]:
        if refusal := self._refusal():
            return {"reason": "refusal", "text": refusal}
        why = (response.get("incomplete_details") or {}).get("reason")
        return {"reason": str(why)} if why else {}

    def _refusal(self) -> str:
        return "".join(
            piece for place in self._parts if place[0] == "refusal" for piece in self._parts[place]
        )

    def _reason(self, response: Json) -> Any:
        why = (response.get("incomplete_details") or {}).get("reason")
        if why:
            return {"max_output_tokens": "length", "content_filter": "filtered"}.get(why, "other")
        if any(item.get("type") == "function_call" for item in self._items):
            return "tool_calls"
        return "filtered" if self._refusal() else "stop"

    def _failed(self, said: Json) -> list[Event]:
        raise Complained((said.get("response") or said).get("error") or said)


# of functions, not of a reader's own methods: it would hold itself, and with it a long answer until the next collection
_READS: dict[str, Callable[[ResponsesReader, Json], list[Event]]] = {
    **{
        f"{name}.{end}": ResponsesReader._delta  # noqa: SLF001 - a table of this module's own
        for name in _KINDS
        for end in ("delta", "done")
    },
    "response.content_part.done": ResponsesReader._part,  # noqa: SLF001
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
        cost_usd=told_cost(said),
    )

"""The definition of a tool, and the parameters that several tools share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Unpack

from counsel import request_rules
from counsel.argument_schema import Schema
from counsel.lazy_dataclass import dataclass
from counsel.mcp import render, tool_call
from counsel.mcp.tool_call import Call
from counsel.requests import Request
from counsel.results import ToolResult
from counsel.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    description: str
    properties: dict[str, Schema]
    output: Mapping[str, object]
    run: Callable[[Call, Json], Awaitable[ToolResult]]  # gets checked arguments
    required: tuple[str, ...] = ()
    annotations: dict[str, object]
    text: Callable[[Any], str] = render.text  # the result for clients that read text

    @property
    def schema(self) -> Schema:
        schema: Schema = {"type": "object", "properties": self.properties}
        if self.required:
            schema["required"] = list(self.required)
        return {**schema, "additionalProperties": False}

    def listed(self) -> Json:
        """The tool as `tools/list` shows it.

        The output schema requires no field: clients check failures (`error`, `code`) against it, too.
        """
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": _listed(self.schema),
            "outputSchema": {"type": "object", "properties": {**self.output, **FAILURE}},
            "annotations": self.annotations,
        }


def _listed(schema: Any) -> Any:
    """The schema without `minLength`: models do not send empty names, and the engine checks it anyway."""
    if isinstance(schema, Mapping):
        return {name: _listed(value) for name, value in schema.items() if name != "minLength"}
    return [_listed(value) for value in schema] if isinstance(schema, list | tuple) else schema


def string(about: str, **more: Unpack[Schema]) -> Schema:
    return {"type": "string", **more, "description": about}


def argument(name: str, about: str, **more: Unpack[Schema]) -> Schema:
    """An argument with the rule that the engine applies to requests of every interface."""
    return {**request_rules.RULES[name], **more, "description": about}


def switch(about: str, *, default: bool = False) -> Schema:
    return {"type": "boolean", "default": default, "description": about}


def temperature(default: float) -> Schema:
    return argument("temperature", "Randomness.", default=default)


# ── results ──

STRING = request_rules.STRING
INTEGER: dict[str, object] = {"type": "integer"}
BOOLEAN: dict[str, object] = {"type": "boolean"}
COST: dict[str, object] = {"type": ["number", "null"]}  # null: no price is known
OBJECT: dict[str, object] = {"type": "object"}


def fields(**properties: Mapping[str, object]) -> dict[str, object]:
    """An object. Any of these fields may be missing, and there may be others."""
    return {"type": "object", "properties": properties}


def several(item: Mapping[str, object]) -> dict[str, object]:
    return {"type": "array", "items": item}


FAILURE: Mapping[str, Mapping[str, object]] = {"error": STRING, "code": STRING, "hint": STRING}
CONTINUATION = fields(id=STRING, status=STRING, messageCount=INTEGER)
USAGE = fields(input_tokens=INTEGER, output_tokens=INTEGER, total_tokens=INTEGER)
ANSWERED: Mapping[str, Mapping[str, object]] = {
    "content": STRING,
    "continuation": CONTINUATION,
    "metadata": fields(model=STRING, provider=STRING, usage=USAGE, cost_usd=COST, response_time_ms=INTEGER),
    "job_id": STRING,
}
ASKS: dict[str, object] = {"destructiveHint": False, "openWorldHint": True}

FILES = argument("files", "Files to include, absolute or relative paths; path{10:50} for lines.")
IMAGES = argument("images", "Image paths, data: URLs or base64.")
CONTINUE = argument("continuation_id", "Conversation to continue (id of an earlier result).")
EFFORT = argument("reasoning_effort", "Reasoning depth.", default="medium")
MAX_COST = argument("max_cost_usd", "Spend at most this.")
BACKGROUND = switch("Run in the background: returns an id for check_status.")
EXPORT = switch("Save the conversation to a folder.")

# Arguments of a question, under the names of `Question`'s fields.
_QUESTION = (
    *("prompt", "continuation_id", "temperature", "reasoning_effort", "verbosity", "media_resolution"),
    "max_cost_usd",
)
_LISTS = ("files", "images")
_SWITCHES = ("use_websearch", "export")


def question(arguments: Json) -> Json:
    """The keyword arguments of `Question` that the caller gave."""
    fields: dict[str, object] = {
        name: arguments[name] for name in (*_QUESTION, *_SWITCHES) if name in arguments
    }
    fields.update({name: tuple(arguments[name]) for name in _LISTS if name in arguments})
    return fields


def asks(build: Callable[[Json], Request]) -> Callable[[Call, dict[str, object]], Awaitable[ToolResult]]:
    """The handler of a tool that puts a question to models."""

    def run(call: Call, arguments: Json) -> Awaitable[ToolResult]:
        return tool_call.run(call, build(arguments), background=arguments.get("async", False))

    return run

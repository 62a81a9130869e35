"""Tools in OpenAI's Responses: functions, functions in a namespace, free-text tools, and tools that OpenAI runs.

Other vendors have only functions: those of a namespace get a longer name, free text becomes the argument `input`, and
calls are translated back. Codex sends tools of all four kinds with every request.
"""

from __future__ import annotations

from collections.abc import Mapping

from counsel.http.v1 import reading
from counsel.http.v1.api import ClientTool
from counsel.http.v1.chat_request import arguments, function_tool, restrict_tools, tool_choice
from counsel.http.v1.errors import BadRequest
from counsel.lazy_dataclass import dataclass
from counsel.models.wires.openai_shared import flat_name
from counsel.types import ToolCall, ToolSpec

_SEARCH = ("web_search", "web_search_preview")
_RESTRICTIONS = ("filters", "allowed_domains", "blocked_domains")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSet:
    specs: tuple[ToolSpec, ...]
    client_tools: Mapping[str, ClientTool]  # by the name that the model sees
    web_search: bool
    optional: tuple[str, ...]  # OpenAI's own tools, which other vendors do not get
    untranslated: tuple[str, ...]  # the same, if the client has no other tool or demands a call


def read(body: Mapping[str, object]) -> ToolSet:
    rows = reading.rows(body, "tools")
    if len(rows) > reading.MOST_TOOLS:
        raise BadRequest(f"'tools' has {len(rows)} entries; at most {reading.MOST_TOOLS}.", "tools")
    specs: dict[str, ToolSpec] = {}
    client_tools: dict[str, ClientTool] = {}
    vendor_tools: list[str] = []
    searches = False
    for index, row in enumerate(rows):
        where = f"tools[{index}]"
        kind = reading.checked(row.get("type"), str, f"{where}.type")
        if kind in {"function", "custom", "namespace"}:
            _add(row, where, specs, client_tools)
        elif kind.startswith(_SEARCH) and not any(row.get(name) for name in _RESTRICTIONS):
            searches = row.get("external_web_access") is not False
            vendor_tools += [] if searches else [kind]
        else:
            vendor_tools.append(kind[:60])
    is_forced = body.get("tool_choice") not in (None, "auto", "none")
    required_tools = vendor_tools if not specs or is_forced else []
    return ToolSet(
        specs=tuple(specs.values()),
        client_tools=client_tools,
        web_search=searches,
        optional=tuple(f"tools.{kind}" for kind in vendor_tools) if not required_tools else (),
        untranslated=tuple(f"the tool {kind}" for kind in required_tools),
    )


def _add(
    row: Mapping[str, object], where: str, specs: dict[str, ToolSpec], client_tools: dict[str, ClientTool]
) -> None:
    if row["type"] != "namespace":
        spec, client_tool = _tool(row, where)
        specs[spec.name] = spec
        client_tools |= {spec.name: client_tool} if client_tool else {}
        return
    namespace = reading.tool_name(row.get("name"), f"{where}.name")
    for index, inner in enumerate(reading.rows(row, "tools", f"{where}.tools")):
        place = f"{where}.tools[{index}]"
        reading.choice(inner.get("type"), ("function", "custom"), f"{place}.type")
        spec, client_tool = _tool(inner, place)
        flat = flat_name(namespace, spec.name)
        specs[flat] = ToolSpec(flat, spec.description, spec.schema, spec.strict)
        client_tools[flat] = {**client_tool, "namespace": namespace, "name": spec.name}


def _tool(row: Mapping[str, object], where: str) -> tuple[ToolSpec, ClientTool]:
    if row["type"] == "function":
        return function_tool(row, where), {}
    name = reading.tool_name(row.get("name"), f"{where}.name")
    description = reading.optional(row, "description", str, f"{where}.description") or ""
    form = reading.optional(row, "format", dict, f"{where}.format") or {}
    grammar = f"Text in this grammar:\n{form['definition']}" if form.get("definition") else "Free text."
    schema = {
        "type": "object",
        "properties": {"input": {"type": "string", "description": grammar}},
        "required": ["input"],
    }
    return ToolSpec(name, description, schema), {"name": name, "custom": True}


def choice_and_tools(
    body: Mapping[str, object], tools: tuple[ToolSpec, ...]
) -> tuple[object, tuple[ToolSpec, ...]]:
    """The choice and the tools; for `allowed_tools`, its mode and the tools that it allows, if they are the
    client's."""
    value = body.get("tool_choice")
    if not isinstance(value, dict) or value.get("type") != "allowed_tools":
        return value, tools
    rows = reading.objects(value.get("tools"), "tool_choice.tools")
    if any(row.get("type") not in ("function", "custom") for row in rows):
        return value, tools
    return restrict_tools(value.get("mode"), [row.get("name") for row in rows], tools, "tool_choice")


def choice(
    value: object, body: Mapping[str, object], tools: tuple[ToolSpec, ...], untranslated: list[str]
) -> str | None:
    if isinstance(value, dict) and value.get("type") == "custom":
        value = {**value, "type": "function"}
    if isinstance(value, dict) and value.get("type") != "function":
        untranslated.append("tool_choice")
        return None
    if not tools and body.get("tools"):  # OpenAI's own only
        return None
    return tool_choice(value, tools, nested=False)


def call(item: Mapping[str, object], where: str) -> ToolCall:
    """A call of an earlier turn."""
    name = reading.tool_name(item.get("name"), f"{where}.name")
    if namespace := reading.optional(item, "namespace", str, f"{where}.namespace"):
        name = flat_name(namespace, name)
    call_arguments = (
        {"input": reading.text(item.get("input"), f"{where}.input")}
        if item["type"] == "custom_tool_call"
        else arguments(item.get("arguments"), f"{where}.arguments")
    )
    return ToolCall(reading.required(item, "call_id", str, f"{where}.call_id"), name, call_arguments)

"""Tools in OpenAI's Responses: functions, functions in a namespace, tools with free text, and tools that OpenAI runs.

Other vendors have functions only: those of a namespace get a longer name, free text becomes the argument `input`, and
calls are translated back. Codex sends tools of all four kinds with every request.
"""

from __future__ import annotations

from collections.abc import Mapping

from counsel.http.v1 import reading
from counsel.http.v1.api import Renamed
from counsel.http.v1.chat_request import arguments, function_tool, only, tool_choice
from counsel.http.v1.errors import BadRequest
from counsel.lazy_dataclass import dataclass
from counsel.models.wires.openai_responses import flat_name
from counsel.types import ToolCall, ToolSpec

_SEARCH = ("web_search", "web_search_preview")
_RESTRICTIONS = ("filters", "allowed_domains", "blocked_domains")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    specs: tuple[ToolSpec, ...]
    renamed: Mapping[str, Renamed]  # by the name that the model sees
    web_search: bool
    optional: tuple[str, ...]  # tools of OpenAI's own, which other vendors do not get
    untranslated: tuple[
        str, ...
    ]  # the same, if the client has no other tool: it wants the answer of this one


def read(body: Mapping[str, object]) -> Offered:
    rows = reading.rows(body, "tools")
    if len(rows) > reading.MOST_TOOLS:
        raise BadRequest(f"'tools' has {len(rows)} entries; at most {reading.MOST_TOOLS}.", "tools")
    specs: dict[str, ToolSpec] = {}
    renamed: dict[str, Renamed] = {}
    hosted: list[str] = []
    searches = False
    for index, row in enumerate(rows):
        where = f"tools[{index}]"
        kind = reading.checked(row.get("type"), str, f"{where}.type")
        if kind in {"function", "custom", "namespace"}:
            _add(row, where, specs, renamed)
        elif kind.startswith(_SEARCH) and not any(row.get(name) for name in _RESTRICTIONS):
            searches = row.get("external_web_access") is not False
            hosted += [] if searches else [kind]
        else:
            hosted.append(kind[:60])
    is_forced = body.get("tool_choice") not in (None, "auto", "none")
    needed = hosted if not specs or is_forced else []
    return Offered(
        specs=tuple(specs.values()),
        renamed=renamed,
        web_search=searches,
        optional=tuple(f"tools.{kind}" for kind in hosted) if not needed else (),
        untranslated=tuple(f"the tool {kind}" for kind in needed),
    )


def _add(
    row: Mapping[str, object], where: str, specs: dict[str, ToolSpec], renamed: dict[str, Renamed]
) -> None:
    if row["type"] != "namespace":
        spec, about = _tool(row, where)
        specs[spec.name] = spec
        renamed |= {spec.name: about} if about else {}
        return
    namespace = reading.tool_name(row.get("name"), f"{where}.name")
    for index, inner in enumerate(reading.rows(row, "tools", f"{where}.tools")):
        place = f"{where}.tools[{index}]"
        reading.choice(inner.get("type"), ("function", "custom"), f"{place}.type")
        spec, about = _tool(inner, place)
        flat = flat_name(namespace, spec.name)
        specs[flat] = ToolSpec(flat, spec.description, spec.schema, spec.strict)
        renamed[flat] = {**about, "namespace": namespace, "name": spec.name}


def _tool(row: Mapping[str, object], where: str) -> tuple[ToolSpec, Renamed]:
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


def allowed(body: Mapping[str, object], tools: tuple[ToolSpec, ...]) -> tuple[object, tuple[ToolSpec, ...]]:
    """The choice, and the tools. Of `allowed_tools`: its mode, and the tools that it allows, if they are the client's."""
    value = body.get("tool_choice")
    if not isinstance(value, dict) or value.get("type") != "allowed_tools":
        return value, tools
    rows = reading.objects(value.get("tools"), "tool_choice.tools")
    if any(row.get("type") not in ("function", "custom") for row in rows):
        return value, tools
    return only(value.get("mode"), [row.get("name") for row in rows], tools, "tool_choice")


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
    made = (
        {"input": reading.text(item.get("input"), f"{where}.input")}
        if item["type"] == "custom_tool_call"
        else arguments(item.get("arguments"), f"{where}.arguments")
    )
    return ToolCall(reading.required(item, "call_id", str, f"{where}.call_id"), name, made)

"""A request to Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from counsel import json_reader as read
from counsel.http.v1 import opaque, reading
from counsel.http.v1.api import ApiRequest
from counsel.http.v1.errors import BadRequest
from counsel.http.v1.messages_input import WIRE, Messages
from counsel.requests import CompletionRequest
from counsel.types import Effort, Exact, Native, ToolSpec, Turn

UNKNOWN = "{}: Extra inputs are not permitted"
# Fields that only Anthropic's own models understand, and that do not change what an answer says: passed on to these
# models, left out for others.
IGNORED: dict[str, type] = {
    "metadata": dict,
    "service_tier": str,
    "cache_control": dict,
    "diagnostics": dict,
    "inference_geo": str,
    "speed": str,
    "user_profile_id": str,
    "workspace_id": str,
    "context_management": dict,
    "betas": list,
}
# Fields that change the answer, and that no other vendor has.
OWN = ("container", "mcp_servers", "compaction", "fallbacks", "fallback_credit_token", "thread")
_OWN_TYPES: dict[str, type] = {"mcp_servers": list, "compaction": dict, "thread": dict}
FIELDS = frozenset(
    {
        "model", "messages", "max_tokens", "stream", "system", "temperature", "top_p", "top_k", "stop_sequences", "tools",
        "tool_choice", "thinking", "output_config", "output_format", *IGNORED, *OWN,
    }
)  # fmt: skip
COUNTED = FIELDS - {"max_tokens", "stream"}
EFFORTS: dict[str, Effort] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "max",
    "max": "max",
}


class _ToolSettings(TypedDict, total=False):
    """Fields of `Exact`."""

    tool_choice: str
    parallel_tool_calls: bool


_RESTRICTIONS = ("allowed_domains", "blocked_domains")  # for searches: no other vendor has these
_HEADERS = (b"anthropic-version", b"anthropic-beta")
# Of a tool. Cache marks, and how its arguments are streamed, do not change the answer.
_TOOL_FIELDS = frozenset(
    {"type", "name", "description", "input_schema", "strict", "cache_control", "eager_input_streaming"}
)


def parse(body: dict[str, object], headers: Mapping[bytes, str], *, counts: bool = False) -> ApiRequest:
    """Read the request. `counts`: it only counts tokens."""
    reading.check_names(body, COUNTED if counts else FIELDS, UNKNOWN)
    reading.check_types(body, IGNORED)
    reading.check_types(body, _OWN_TYPES)
    untranslated = [name for name in OWN if body.get(name)]
    vendor_tools: list[str] = []
    left_out = [name for name in IGNORED if body.get(name) is not None]
    tools, searches = _tools(body, vendor_tools, left_out)
    left_out += [f"tools.{kind}" for kind in vendor_tools]
    choice = reading.optional(body, "tool_choice", dict) or {}
    forces = choice.get("type", "auto") != "auto"
    if vendor_tools and (not tools or forces):
        untranslated += [f"the tool {kind}" for kind in vendor_tools]
    if searches and not tools and forces:
        left_out.append("tool_choice")
    messages = Messages(untranslated, left_out)
    turns = messages.read(reading.required(body, "messages", list))
    if turns[-1].role == "assistant" and turns[-1].text:
        untranslated.append("the beginning of its answer (the last message is the assistant's)")
    stream = bool(reading.optional(body, "stream", bool))
    thinking, effort = _thinking(body, left_out), _effort(body, left_out)
    if thinking is None and effort is None and read.part(body, "thinking").get("type") == "adaptive":
        effort = "high"  # the vendor's default
    completion = CompletionRequest(
        model=_model(body),
        turns=turns,
        system="\n\n".join(filter(None, (_system(body), *messages.system))) or None,
        tools=tools,
        temperature=reading.number(body, "temperature", 0, 1),
        reasoning_effort=effort,
        max_output=None if counts else _max_tokens(body),
        schema=_schema(body),
        exact=Exact(
            top_p=reading.number(body, "top_p", 0, 1),
            top_k=reading.count(body, "top_k", 0),
            stop=_stop(body),
            **_choice(body, tools),
            thinking_budget=thinking,
            native=Native(WIRE, _own_body(body, turns), _passed_headers(headers)),
        ),
        untranslated=tuple(dict.fromkeys(untranslated)),
        offered=tuple(dict.fromkeys(left_out)),
        web_search=searches,
        is_streamed=stream,
    )
    return ApiRequest(completion=completion, stream=stream)


def _model(body: Mapping[str, object]) -> str:
    name = reading.text(reading.required(body, "model", str), "model").strip()
    if not name:
        raise BadRequest("model: String should have at least 1 character", "model")
    return name


def _max_tokens(body: Mapping[str, object]) -> int:
    if body.get("max_tokens") is None:
        raise BadRequest("max_tokens: Field required", "max_tokens")
    most: int = reading.checked(body["max_tokens"], int, "max_tokens")
    if most < 1:
        raise BadRequest("max_tokens: Input should be greater than or equal to 1", "max_tokens")
    return most


def _passed_headers(headers: Mapping[bytes, str]) -> dict[str, str]:
    return {name.decode(): headers[name] for name in _HEADERS if name in headers}


def _own_body(body: dict[str, object], turns: tuple[Turn, ...]) -> dict[str, object]:
    """The body for the vendor: unchanged, but without other vendors' reasoning, whose signature it would refuse."""
    foreign = any(thought.wire != WIRE for turn in turns for thought in turn.thoughts)
    if not foreign and not _has_unsigned(body):
        return body
    messages = [
        {**message, "content": [block for block in read.parts(message, "content") if not _is_foreign(block)]}
        if isinstance(message.get("content"), list)
        else message
        for message in read.parts(body, "messages")
    ]
    return {**body, "messages": [message for message in messages if message["content"]]}


def _has_unsigned(body: Mapping[str, object]) -> bool:
    return any(
        _is_foreign(block)
        for message in read.parts(body, "messages")
        for block in read.parts(message, "content")
    )


def _is_foreign(block: Mapping[str, object]) -> bool:
    if block.get("type") == "redacted_thinking":
        return opaque.is_ours(block.get("data"))
    if block.get("type") != "thinking":
        return False
    return not block.get("signature") or opaque.is_ours(block["signature"])


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────


def _system(body: Mapping[str, object]) -> str | None:
    value = body.get("system")
    if value is None or isinstance(value, str):
        return reading.text(value, "system") if value else None
    texts = []
    for index, block in enumerate(reading.blocks(value, "system", place=reading.dotted)):
        reading.choice(block.get("type"), ("text",), f"system.{index}.type")
        texts.append(reading.text(block.get("text"), f"system.{index}.text"))
    return "\n\n".join(texts) or None


def _thinking(body: Mapping[str, object], left_out: list[str]) -> int | None:
    settings = reading.optional(body, "thinking", dict)
    if settings is None:
        return None
    kinds = ("enabled", "disabled", "adaptive", "between_tools")
    kind = reading.choice(settings.get("type"), kinds, "thinking.type")
    if settings.get("display") is not None:
        left_out.append("thinking.display")
    if kind == "between_tools":
        left_out.append("thinking")
    if kind in {"adaptive", "between_tools"}:
        return None
    if kind == "disabled":
        return 0
    budget: int = reading.checked(settings.get("budget_tokens"), int, "thinking.budget_tokens")
    if budget < 1024:
        raise BadRequest(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024", "thinking"
        )
    return budget


def _effort(body: Mapping[str, object], left_out: list[str]) -> Effort | None:
    config = reading.optional(body, "output_config", dict) or {}
    left_out += [f"output_config.{name[:60]}" for name in config if name not in {"effort", "format"}]
    level = config.get("effort")
    return None if level is None else EFFORTS[reading.choice(level, EFFORTS, "output_config.effort")]


def _schema(body: Mapping[str, object]) -> dict[str, object] | None:
    config = reading.optional(body, "output_config", dict) or {}
    answer_format = config.get("format") or body.get("output_format")
    if answer_format is None:
        return None
    answer_format = reading.checked(answer_format, dict, "output_config.format")
    reading.choice(answer_format.get("type"), ("json_schema",), "output_config.format.type")
    return reading.checked(answer_format.get("schema"), dict, "output_config.format.schema")


def _stop(body: Mapping[str, object]) -> tuple[str, ...]:
    values = reading.optional(body, "stop_sequences", list) or []
    texts = tuple(reading.text(value, f"stop_sequences.{index}") for index, value in enumerate(values))
    if any(not text.strip() for text in texts):
        raise BadRequest("stop_sequences: each stop sequence must contain non-whitespace", "stop_sequences")
    return texts


def _tools(
    body: Mapping[str, object], vendor_tools: list[str], left_out: list[str]
) -> tuple[tuple[ToolSpec, ...], bool]:
    """The client's own tools, and whether the vendor may search the web. Adds the vendor's other tools to
    `vendor_tools`, and fields that other vendors' tools do not have to `left_out`.
    """
    rows = reading.rows(body, "tools", place=reading.dotted)
    if len(rows) > reading.MOST_TOOLS:
        raise BadRequest(f"tools: at most {reading.MOST_TOOLS} are accepted, not {len(rows)}", "tools")
    specs = []
    searches = False
    for index, row in enumerate(rows):
        where = f"tools.{index}"
        kind = reading.optional(row, "type", str, f"{where}.type")
        if kind not in {None, "custom"}:  # a tool that the vendor runs itself
            if kind.startswith("web_search") and not any(row.get(name) for name in _RESTRICTIONS):
                searches = True
            else:
                vendor_tools.append(kind[:60])
            continue
        left_out += [
            f"tools.{name[:60]}" for name, value in row.items() if value and name not in _TOOL_FIELDS
        ]
        specs.append(
            ToolSpec(
                reading.tool_name(row.get("name"), f"{where}.name"),
                reading.optional(row, "description", str, f"{where}.description") or "",
                reading.required(row, "input_schema", dict, f"{where}.input_schema"),
                reading.optional(row, "strict", bool, f"{where}.strict"),
            )
        )
    if len({spec.name for spec in specs}) < len(specs):
        raise BadRequest("tools: Tool names must be unique.", "tools")
    return tuple(specs), searches


def _choice(body: Mapping[str, object], tools: tuple[ToolSpec, ...]) -> _ToolSettings:
    choice = reading.optional(body, "tool_choice", dict)
    if choice is None:
        return {}
    kind = reading.choice(choice.get("type"), ("auto", "any", "tool", "none"), "tool_choice.type")
    is_single = reading.optional(
        choice, "disable_parallel_tool_use", bool, "tool_choice.disable_parallel_tool_use"
    )
    parallel: _ToolSettings = {} if is_single is None else {"parallel_tool_calls": not is_single}
    rows = read.parts(body, "tools")
    if not rows and kind in {"any", "tool"}:
        raise BadRequest("tool_choice: may only be specified while providing tools", "tool_choice")
    if kind == "tool":
        name = reading.checked(choice.get("name"), str, "tool_choice.name")
        if all(row.get("name") != name for row in rows):
            raise BadRequest(f"tool_choice: tool '{name[:100]}' not found in provided tools", "tool_choice")
    if not tools:
        return {}
    if kind == "tool":
        return {"tool_choice": f"={name}", **parallel}
    return {"tool_choice": {"any": "required"}.get(kind, kind), **parallel}

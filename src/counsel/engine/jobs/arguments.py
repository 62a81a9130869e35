"""Checks the arguments of requests from every interface.

MCP first checks a call against its tool's schema, because only the schema finds unknown and missing arguments; both are
built from `request_rules.RULES` and give the same message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from operator import attrgetter
from typing import Any

from counsel import argument_schema
from counsel.request_rules import LONGEST_MODEL, RULES
from counsel.requests import ChatRequest, ConsensusRequest, Request, ReviewRequest, chain

_HINT = "Nothing was sent. docs/use/tools.md lists the arguments."
_FIELDS: dict[type, list[tuple[str, Any]]] = {
    kind: [(name, field.default) for name in RULES for field in fields(kind) if field.name == name]
    for kind in (ChatRequest, ConsensusRequest, ReviewRequest)
}


_values: dict[type, Callable[[object], tuple[object, ...]]] = {
    kind: attrgetter(*(name for name, _ in rows)) for kind, rows in _FIELDS.items()
}


def checked(request: Request) -> Request:
    """The request, in which `None`, `""` and an empty list for an optional argument mean that it is absent.

    Raises an `InvalidArgument` that names every wrong argument.
    """
    kind = type(request)
    given: dict[str, Any] = {}
    absent: dict[str, Any] = {}
    for (name, default), value in zip(_FIELDS[kind], _values[kind](request), strict=True):
        if value is default:
            continue
        if default is not MISSING and argument_schema.is_blank(value):
            absent[name] = default
        else:
            given[name] = value
    if not isinstance(request, ChatRequest) and request.models != (models := _members(request.models)):
        absent["models"] = given["models"] = models
    argument_schema.refuse(tool_of(request), _problems(given), _HINT)
    return replace(request, **absent) if absent else request


def _members(models: Any) -> Any:
    """The members without their absent parts: `{"model": "opus", "role": null}`."""
    return argument_schema.without_blanks(RULES["models"], models)


def tool_of(request: Request) -> str:
    """The tool's name, even for a request that names an unknown tool: a refusal does not repeat that name."""
    if isinstance(request, ConsensusRequest):
        return "consensus"
    if isinstance(request, ReviewRequest):
        return "review"
    return "askModel" if request.tool == "askModel" else "chat"


_SHORTEST = {  # of arguments that may be any text of at least this length
    name: rule.get("minLength", 0)
    for name, rule in RULES.items()
    if rule.get("type") == "string" and rule.keys() <= {"type", "minLength"}
}


def _problems(given: Mapping[str, Any]) -> Iterator[str]:
    for name, value in given.items():
        is_short_text = type(value) is str and len(value) <= LONGEST_MODEL
        if is_short_text and len(value.strip()) >= _SHORTEST.get(name, LONGEST_MODEL + 1):
            continue  # most arguments
        rule = RULES[name]
        if isinstance(value, list) and rule.get("type") == "array":
            # its owner could change it after the check
            yield f"{name} must be a tuple, not a list"
        else:
            wrong = list(argument_schema.problems(name, rule, value))
            yield from wrong or _long_names(name, value)


def _long_names(name: str, value: Any) -> Iterator[str]:
    """Checked here and not by the tools' schemas, where it would cost every client tokens."""
    if name not in {"model", "models", "judge"} or value is None:
        return
    entries = value if name == "models" else (value,)
    for number, entry in enumerate(entries):
        longest = max(map(len, chain(entry["model"] if isinstance(entry, dict) else entry)))
        if longest > LONGEST_MODEL:
            where = f"{name}[{number}]" if name == "models" else name
            yield f"{where} names a model with {longest:,} characters (at most {LONGEST_MODEL})"

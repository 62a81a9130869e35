"""A validator for exactly the JSON Schema keywords that counsel's arguments use.

Its messages say what is wrong and what is allowed, so that a model can act on them. An unknown keyword in a schema is a
programming error, so that nothing in a schema stays unchecked.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, TypeAlias, TypedDict

from counsel import strict_json
from counsel.errors import InvalidArgument

_Problems: TypeAlias = Iterator[str]


class Schema(TypedDict, total=False):
    """The keywords that the tools' parameters use."""

    type: str
    description: str
    default: object
    enum: Sequence[str]
    minimum: float
    maximum: float
    minLength: int
    minItems: int
    maxItems: int
    items: Schema
    properties: Mapping[str, Schema]
    required: Sequence[str]
    additionalProperties: bool
    anyOf: Sequence[Schema]


MOST_PROBLEMS = 10  # in one message; there may be 100,000
_LARGEST = sys.float_info.max  # whole numbers in JSON can be larger than any float

_TYPES: dict[str, tuple[str, Callable[[object], bool]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "number": ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    "integer": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "array": ("a list", lambda value: isinstance(value, list | tuple)),  # a request has tuples
    "object": ("an object", lambda value: isinstance(value, dict)),
}


class Checker:
    """Checks the arguments of one tool."""

    def __init__(self, tool: str, schema: Schema) -> None:
        self._tool, self._schema = tool, schema
        self._hint = _usage(schema)
        required = set(schema.get("required", ()))
        self._optional = frozenset(schema["properties"].keys() - required)
        self._required = frozenset(required)
        self._loose = frozenset(
            name for name, rule in schema["properties"].items() if rule.get("type") in {"array", *_SCALARS}
        )
        self._texts = {
            name: rule.get("minLength", 0)
            for name, rule in schema["properties"].items()
            if rule.get("type") == "string" and rule.keys() <= _OF_TEXTS
        }

    def check(self, arguments: object) -> dict[str, object]:
        if type(arguments) is dict and self._are_texts(arguments):
            return arguments
        present = {} if arguments is None else self._present(arguments)
        refuse(self._tool, problems("", self._schema, present), self._hint)
        return present

    def _present(self, arguments: object) -> Any:
        if not isinstance(arguments, dict):
            return arguments
        present = {
            name: value
            for name, value in arguments.items()
            if name not in self._optional or not is_blank(value)
        }
        for name in self._loose & present.keys():
            present[name] = without_blanks(self._schema["properties"][name], present[name])
        return present

    def _are_texts(self, arguments: dict[str, object]) -> bool:
        """Whether the arguments are valid texts only, including all required ones: the common case, checked quickly."""
        for name, value in arguments.items():
            least = self._texts.get(name)
            if least is None or type(value) is not str or not value or len(value.strip()) < least:
                return False
        return self._required <= arguments.keys()


def check(tool: str, schema: Schema, arguments: object) -> dict[str, object]:
    """The arguments, or `InvalidArgument` with all problems."""
    return Checker(tool, schema).check(arguments)


def refuse(tool: str, problems: Iterator[str], hint: str) -> None:
    """Raise `InvalidArgument` if there is a problem."""
    messages = list(islice(problems, MOST_PROBLEMS + 1))
    if messages:
        more = ["and more"] if len(messages) > MOST_PROBLEMS else []
        text = "; ".join([*messages[:MOST_PROBLEMS], *more])
        raise InvalidArgument(f"{tool}: {text}.", hint=hint)


def is_blank(value: object) -> bool:
    """Whether an optional argument counts as not given: many clients fill in every field."""
    return value is None or (isinstance(value, str | list | tuple) and not value)


def without_blanks(schema: Schema, value: object) -> Any:
    """The value without blank entries and blank optional fields, with `2.0` as a whole number and text as what it
    stands for."""
    if (kind := schema.get("type")) in _SCALARS:
        return _scalar(value, kind)
    if kind == "array" and isinstance(value, str):
        value = _list(value)
    if isinstance(value, dict) and (fields := _object(schema)):
        required = fields.get("required", ())
        return {name: item for name, item in value.items() if name in required or not is_blank(item)}
    if isinstance(value, list | tuple) and any(isinstance(item, dict) or is_blank(item) for item in value):
        items = schema.get("items", {})
        return type(value)(without_blanks(items, item) for item in value if not is_blank(item))
    return value


_SCALARS = frozenset({"number", "integer", "boolean"})


def _scalar(value: object, kind: str | None) -> object:
    """The value that a text such as `"0.7"`, `"2"` or `"true"` stands for: some callers send every value as text."""
    if isinstance(value, str):
        if kind == "boolean":
            return {"true": True, "false": False}.get(value.strip().lower(), value)
        try:
            number = float(value)
        except ValueError:
            return value
        value = number if math.isfinite(number) else value
    return int(value) if kind == "integer" and isinstance(value, float) and value.is_integer() else value


def _list(text: str) -> object:
    """The list in `'["a.py"]'`: some clients send lists as JSON in a string."""
    if text.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            return strict_json.loads(text)
    return text


def _object(schema: Schema) -> Schema | None:
    """The schema that describes an object: this one, or one of its alternatives."""
    return next(
        (
            alternative
            for alternative in schema.get("anyOf", (schema,))
            if alternative.get("type") == "object"
        ),
        None,
    )


def _usage(schema: Schema) -> str:
    required = schema.get("required", [])
    optional = [name for name in schema["properties"] if name not in required]
    parts = [("required", required), ("optional", optional)]
    return "Arguments: " + "; ".join(f"{kind} {', '.join(names)}" for kind, names in parts if names) + "."


def problems(path: str, schema: Schema, value: object) -> _Problems:
    if "anyOf" in schema:
        yield from _any_of(path, schema["anyOf"], value)
        return
    description, fits = _TYPES[schema["type"]]
    if not fits(value):
        kind = _excerpt(value) if isinstance(value, float) and schema["type"] == "integer" else _kind(value)
        yield f"{path or 'arguments'} must be {description}, not {kind}"
        return
    for keyword, rule in schema.items():
        if keyword not in _CHECKED_ELSEWHERE:
            yield from _KEYWORDS[keyword](path, rule, value, schema)


def _any_of(path: str, schemas: Sequence[Schema], value: object) -> _Problems:
    """The problems with the matching alternative: counsel's alternatives differ in type, so at most one matches."""
    matching = [schema for schema in schemas if _TYPES[schema["type"]][1](value)]
    if matching:
        yield from problems(path, matching[0], value)
    else:
        expected = " or ".join(_TYPES[schema["type"]][0] for schema in schemas)
        yield f"{path} must be {expected}, not {_kind(value)}"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    descriptions = (description for description, fits in _TYPES.values() if fits(value))
    return next(descriptions, type(value).__name__)


def _enum(path: str, choices: Sequence[str], value: object, _: object) -> _Problems:
    if value not in choices:
        yield f"{path} must be one of {', '.join(choices)}, not {_excerpt(value)}"


def _range(path: str, _: object, value: float, schema: Schema) -> _Problems:
    low, high = schema["minimum"], schema.get("maximum")
    if high is not None and not low <= value <= high:  # written this way, the comparison also refuses NaN
        yield f"{path} must be from {low:g} to {high:g}, not {_excerpt(value)}"
    elif high is None and not low <= value <= _LARGEST:
        yield f"{path} must be {low:g} or more, not {_excerpt(value)}"


def _length(path: str, least: int, value: str, _: object) -> _Problems:
    if len(value.strip()) < least:
        yield f"{path} must not be empty"


def _count(path: str, _: object, value: Sequence[object], schema: Schema) -> _Problems:
    low, high = schema["minItems"], schema["maxItems"]
    if not low <= len(value) <= high:
        yield f"{path} must have {low} to {high} entries, not {len(value)}"


def _items(path: str, item: Schema, value: Sequence[object], _: object) -> _Problems:
    for number, entry in enumerate(value):
        yield from problems(f"{path}[{number}]", item, entry)


def _properties(
    path: str, properties: Mapping[str, Schema], value: Mapping[str, object], _: object
) -> _Problems:
    for name, entry in value.items():
        if name in properties:
            yield from problems(_joined_path(path, name), properties[name], entry)


def _required(path: str, names: Sequence[str], value: Mapping[str, object], _: object) -> _Problems:
    for name in names:
        if name not in value:
            yield f"{_joined_path(path, name)} is missing"


def _additional(path: str, _: bool, value: Mapping[str, object], schema: Schema) -> _Problems:
    names = schema["properties"]
    for name in value:
        if name not in names:
            yield f"{_joined_path(path, str(name))} is not known{_nearest(str(name), names)}"


_OF_TEXTS = frozenset({"type", "description", "default", "minLength"})


def _nearest(name: str, names: Mapping[str, Schema]) -> str:
    from difflib import get_close_matches  # needed only after a mistake

    similar = get_close_matches(name[:60], names, 1)
    return f" (did you mean {similar[0]}?)" if similar else ""


def _joined_path(path: str, name: str) -> str:
    return f"{path}.{_excerpt(name, 60)}" if path else _excerpt(name, 60)


def _excerpt(value: object, limit: int = 80) -> str:
    text = str(value)
    if not text.strip():
        return repr(text)
    return text if len(text) <= limit else text[:limit] + "…"


# `type` is checked in `problems`, each maximum with its minimum.
_CHECKED_ELSEWHERE = frozenset({"type", "description", "default", "maximum", "maxItems"})
_KEYWORDS: dict[str, Callable[[str, Any, Any, Schema], _Problems]] = {
    "enum": _enum,
    "minimum": _range,
    "minLength": _length,
    "minItems": _count,
    "items": _items,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
}

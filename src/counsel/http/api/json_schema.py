"""JSON Schema (2020-12) of Python types: TypedDicts and dataclasses become named components, others are written
inline."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

_PLAIN: dict[object, dict[str, object]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Any: {},
    object: {},
}


class Schemas:
    """Collects the components that the schemas refer to."""

    def __init__(self) -> None:
        self.components: dict[str, dict[str, object]] = {}
        self._types: dict[str, object] = {}

    def of(self, kind: Any) -> dict[str, object]:
        if kind in _PLAIN:
            return dict(_PLAIN[kind])
        if is_typeddict(kind) or dataclasses.is_dataclass(kind):
            return self._component(kind)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return {**self.of(arguments[0]), "description": arguments[1]}
        make = _GENERIC.get(origin)
        if make is None:
            raise TypeError(f"{kind} has no JSON Schema")
        return make(self, arguments)

    def _component(self, kind: Any) -> dict[str, object]:
        name = kind.__name__
        if self._types.setdefault(name, kind) is not kind:
            raise TypeError(f"Two types are called {name}")
        if name not in self.components:
            self.components[name] = {}  # a type may contain itself
            self.components[name] = self._object(kind)
        return {"$ref": f"#/components/schemas/{name}"}

    def _object(self, kind: Any) -> dict[str, object]:
        hints = get_type_hints(kind, include_extras=True)
        required = [name for name, hint in hints.items() if _is_required(kind, name, hint)]
        properties = {name: self.of(_without_marks(hint)) for name, hint in hints.items()}
        schema: dict[str, object] = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        if description := _description(kind):
            schema["description"] = description
        return schema

    def _union(self, kinds: Sequence[object]) -> dict[str, object]:
        schemas = [self.of(kind) for kind in kinds]
        if all(schema.keys() == {"type"} for schema in schemas):
            return {"type": [schema["type"] for schema in schemas]}
        return {"anyOf": schemas}


def _is_required(kind: Any, name: str, hint: object) -> bool:
    """Without `__required_keys__`: annotations are strings here, which Python 3.11 does not evaluate for it."""
    if get_origin(hint) in {NotRequired, Required}:
        return get_origin(hint) is Required
    if dataclasses.is_dataclass(kind):
        entry = next(entry for entry in dataclasses.fields(kind) if entry.name == name)
        return entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
    return name in kind.__required_keys__


def _without_marks(hint: object) -> object:
    return get_args(hint)[0] if get_origin(hint) in {NotRequired, Required} else hint


def _description(kind: type) -> str:
    text = vars(kind).get("__doc__") or ""
    return "" if text.startswith(("dict(", f"{kind.__name__}(")) else inspect.cleandoc(text)


def _literal(_: Schemas, values: Sequence[object]) -> dict[str, object]:
    return {"type": "string", "enum": list(values)}


_GENERIC: Mapping[object, Callable[[Schemas, Sequence[Any]], dict[str, object]]] = {
    list: lambda schemas, kinds: {"type": "array", "items": schemas.of(kinds[0])},
    dict: lambda schemas, kinds: {"type": "object", **_values(schemas, kinds[1])},
    Literal: _literal,
    Union: lambda schemas, kinds: schemas._union(kinds),  # noqa: SLF001 - a table of this module's own methods
    UnionType: lambda schemas, kinds: schemas._union(kinds),  # noqa: SLF001 - as above
}


def _values(schemas: Schemas, kind: Any) -> dict[str, object]:
    schema = schemas.of(kind)
    return {"additionalProperties": schema} if schema else {}

"""Python types as JSON Schema, as the OpenAPI document shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

import pytest

from counsel.http.api.json_schema import Schemas


class Point(TypedDict):
    """Where it is."""

    x: int
    label: NotRequired[str]


class Loose(TypedDict, total=False):
    x: Required[int]
    near: list[Loose]


@dataclass
class Row:
    name: str
    size: int = 0
    tags: list[str] = field(default_factory=list)


class Open(TypedDict, total=False):
    x: int


def component(kind: Any) -> dict[str, object]:
    schemas = Schemas()
    assert schemas.of(kind) == {"$ref": f"#/components/schemas/{kind.__name__}"}
    return schemas.components[kind.__name__]


def test_fields_that_may_not_be_missing_are_required() -> None:
    point = component(Point)
    assert point["required"] == ["x"]
    assert point["properties"] == {"x": {"type": "integer"}, "label": {"type": "string"}}
    assert point["type"] == "object"
    assert component(Loose)["required"] == ["x"]
    assert component(Row)["required"] == ["name"]
    assert "required" not in component(Open)


def test_a_types_docstring_is_its_description() -> None:
    assert component(Point)["description"] == "Where it is."
    assert "description" not in component(Open)


def test_a_type_may_contain_itself() -> None:
    near: Any = component(Loose)["properties"]
    assert near["near"] == {"type": "array", "items": {"$ref": "#/components/schemas/Loose"}}


def test_two_types_of_one_name_are_a_mistake() -> None:
    schemas = Schemas()
    schemas.of(Point)
    second_type = type("Point", (dict,), {"__annotations__": {}})
    with pytest.raises(TypeError, match="Two types are called Point"):
        schemas._component(second_type)


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (int | None, {"type": ["integer", "null"]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Annotated[int, "A number."], {"type": "integer", "description": "A number."}),
        (dict[str, Any], {"type": "object"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    ],
)
def test_simple_types(kind: Any, schema: dict[str, Any]) -> None:
    assert Schemas().of(kind) == schema


def test_a_union_with_an_object_is_a_choice() -> None:
    assert Schemas().of(Point | None) == {"anyOf": [{"$ref": "#/components/schemas/Point"}, {"type": "null"}]}


def test_what_has_no_schema_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="has no JSON Schema"):
        Schemas().of(complex)

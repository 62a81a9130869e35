"""The API as an OpenAPI 3.1 document, built from the route table and the types that it names."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from counsel import __version__
from counsel.http.api.documents import events
from counsel.http.api.documents.answers import Failure
from counsel.http.api.endpoint import ApiCall, ApiRoute, Binary, Empty, Events, OneOf, Parameter
from counsel.http.api.json_schema import Schemas
from counsel.types import Json

if TYPE_CHECKING:
    from collections.abc import Iterable

JSON = "application/json"
EVENTS = "text/event-stream"
_ABOUT = (
    "The JSON API of `counsel serve`. Every request needs the token (or the console's cookie). docs/use/http.md explains it. "
    "Answers may have more fields in later releases."
)


async def show(_: ApiCall) -> object:
    return document()


@lru_cache(maxsize=1)
def document() -> Json:
    from counsel.http.api.routes import ROUTES  # this module's own route is one of them

    return openapi_document(ROUTES)


def openapi_document(rows: Iterable[ApiRoute]) -> dict[str, object]:
    schemas = Schemas()
    paths: dict[str, dict[str, object]] = {}
    for row in rows:
        paths.setdefault(path_of(row), {})[row.method.lower()] = _operation(row, schemas)
    failure = _content(Failure, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "counsel", "version": __version__, "description": _ABOUT},
        "servers": [{"url": "http://127.0.0.1:3157"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": {"Failure": {"description": "A failure.", "content": failure}},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def path_of(row: ApiRoute) -> str:
    return row.path.replace(":path}", "}")


def _operation(row: ApiRoute, schemas: Schemas) -> dict[str, object]:
    parameters = [
        *(_parameter(Parameter(name, "", {"type": "string"}), "path") for name in _path_parameters(row.path)),
        *(_parameter(parameter, "query") for parameter in row.query),
        *(_parameter(parameter, "header") for parameter in row.headers),
    ]
    operation: dict[str, object] = {"operationId": _operation_id(row), "summary": row.summary}
    if parameters:
        operation["parameters"] = parameters
    if row.body is not None:
        operation["requestBody"] = {"content": _content(row.body, schemas)}
    answers = {str(status): _answer(status, shape, schemas) for status, shape in row.answers.items()}
    operation["responses"] = {**answers, "default": {"$ref": "#/components/responses/Failure"}}
    return operation


def _answer(status: int, shape: Any, schemas: Schemas) -> dict[str, object]:
    content = {} if isinstance(shape, Empty) else {"content": _content(shape, schemas)}
    return {"description": _phrase(status), **content}


def _operation_id(row: ApiRoute) -> str:
    words = re.findall(r"[a-z]+", row.path.removeprefix("/api").replace(":path", ""))
    return "_".join([row.method.lower(), *words])


def _path_parameters(path: str) -> list[str]:
    return re.findall(r"\{(\w+)(?::\w+)?\}", path)


def _parameter(parameter: Parameter, place: str) -> dict[str, object]:
    default = {} if parameter.default in (None, ()) else {"default": parameter.default}
    entry: dict[str, object] = {
        "name": parameter.name,
        "in": place,
        "schema": {**parameter.schema, **default},
    }
    if place == "path":
        entry["required"] = True
    return {**entry, "description": parameter.description} if parameter.description else entry


def _content(shape: Any, schemas: Schemas) -> dict[str, object]:
    """The media types of a body, each with its schema."""
    if isinstance(shape, Binary):
        return {media_type: {} for media_type in shape.media_types}
    if isinstance(shape, Events):
        job_event = _event(schemas)
        schemas_of_data = [schemas.of(data) for data in shape.data_types.values()]
        return {EVENTS: {"schema": {"anyOf": schemas_of_data} if schemas_of_data else job_event}}
    if isinstance(shape, OneOf) and isinstance(shape.shapes, dict):
        schemas.components.update({name: _plain(schema) for name, schema in shape.shapes.items()})
        return {
            JSON: {"schema": {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in shape.shapes]}}
        }
    if isinstance(shape, OneOf):
        plain = [schemas.of(kind) for kind in shape.shapes if not isinstance(kind, Events)]
        streams = [kind for kind in shape.shapes if isinstance(kind, Events)]
        content: dict[str, object] = {JSON: {"schema": {"anyOf": plain}}}
        return content | (_content(streams[0], schemas) if streams else {})
    return {JSON: {"schema": schemas.of(shape)}}


def _plain(schema: Any) -> Any:
    """Lists instead of tuples, as JSON has them."""
    if isinstance(schema, dict):
        return {name: _plain(value) for name, value in schema.items()}
    return [_plain(value) for value in schema] if isinstance(schema, list | tuple) else schema


def _event(schemas: Schemas) -> dict[str, object]:
    """The schema of each message's `data`. Clients must ignore kinds that later releases add."""
    kinds = [
        {"properties": {"kind": {"const": kind}, "data": schemas.of(data)}, "required": ["kind", "data"]}
        for kind, data in events.DATA.items()
    ]
    schemas.components["JobEvent"] = {
        "type": "object",
        "description": "`data` of a message; the message's `id` is the cursor for `Last-Event-ID`.",
        "properties": {
            "seq": {"type": "integer", "description": "Text has the number of the last event before it."},
            "at": {"type": "number", "description": "Seconds since 1970."},
            "kind": {"type": "string"},
            "slot": {"type": "string", "description": "The model of a consensus; empty: the job itself."},
            "data": {"type": "object"},
        },
        "required": ["seq", "at", "kind", "slot", "data"],
        "anyOf": kinds,
    }
    return {"$ref": "#/components/schemas/JobEvent"}


def _phrase(status: int) -> str:
    return {200: "Done.", 202: "The job has started and is running.", 204: "Done."}[status]

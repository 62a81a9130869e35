"""Compares answers of the API with its OpenAPI document: no undocumented route or field, and none missing."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import aiohttp
import httpx2
import jsonschema

from counsel.http.api import openapi

OPEN = {"Failure", "ErrorDetail", "FailedModel", "ServerProblem"}  # errors have fields of their own
SEEN: set[tuple[str, str, int]] = set()  # method, path and status of the answers that were compared


@cache
def strict() -> Any:
    """The document with closed objects: the published one lets later releases add fields."""
    document = json.loads(json.dumps(openapi.document()))
    for name, schema in document["components"]["schemas"].items():
        if name not in OPEN and schema.get("type") == "object" and "properties" in schema:
            schema["additionalProperties"] = False
    return document


@cache
def _templates() -> list[tuple[re.Pattern[str], str]]:
    paths = sorted(strict()["paths"], key=lambda path: (path.count("{"), -len(path)))
    return [(re.compile(re.sub(r"\\\{\w+\\\}", ".+", re.escape(path))), path) for path in paths]


def operation(method: str, path: str) -> tuple[str, Any] | None:
    """The documented path that answers this request. Names may contain slashes, so the longest template counts."""
    for pattern, template in _templates():
        if pattern.fullmatch(path) and method.lower() in strict()["paths"][template]:
            return template, strict()["paths"][template][method.lower()]
    return None


def check(method: str, path: str, status: int, media_type: str, body: bytes) -> None:
    if not path.startswith("/api"):
        return
    failure = strict()["components"]["responses"]["Failure"]
    match = operation(method, path)
    if match is None:
        assert status in {400, 401, 403, 404, 405, 421, 431, 503}, (method, path, status)
        answer = failure
    else:
        template, spec = match
        SEEN.add((method, template, status))
        answer = spec["responses"].get(str(status), failure)
        assert status >= 400 or str(status) in spec["responses"], (method, path, status)
    if "content" not in answer:  # an answer without a body
        assert not body, (method, path, status, body[:100])
        return
    assert media_type in answer["content"], (method, path, status, media_type)
    if media_type == "application/json":
        validate(json.loads(body), answer["content"][media_type]["schema"])


def check_event(event: Any) -> None:
    validate(event, {"$ref": "#/components/schemas/JobEvent"})


def validate(value: Any, schema: Any) -> None:
    full_schema = {**schema, "components": strict()["components"]}
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(full_schema).iter_errors(value))
    assert error is None, f"{error.json_path}: {error.message[:500]}"


async def checked(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """A middleware of aiohttp's client."""
    response = await handler(request)
    streams = response.content_type == "text/event-stream"
    body = b"" if streams else await response.read()
    check(request.method, request.url.path, response.status, response.content_type, body)
    return response


async def check_httpx(response: httpx2.Response) -> None:
    """A hook of httpx's client."""
    body = await response.aread()
    media_type = response.headers["content-type"].partition(";")[0]
    check(response.request.method, response.url.path, response.status_code, media_type, body)

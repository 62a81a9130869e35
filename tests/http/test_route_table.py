"""Every route of the table: protected, bounded, described, and no route beside it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import pytest
from starlette.routing import Route

from counsel import settings
from counsel.front.json_messages import LARGEST_MESSAGE
from counsel.http import app
from counsel.http.api import openapi, routes
from counsel.http.api.endpoint import LARGEST_BODY, ApiRoute, Binary
from fake import FakeAPI
from support import openapi as strict
from support.api_client import TOKEN, Api, in_process
from support.fake_engine import FakeEngine

ROWS = [pytest.param(row, id=f"{row.method} {row.path}") for row in routes.ROUTES]


@pytest.fixture
async def api(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[Api]:
    async with in_process(tmp_path, fake_api) as client:
        yield client


def address(row: ApiRoute) -> str:
    return re.sub(r"\{.*?\}", "name", row.path)


async def send(api: Api, row: ApiRoute, **headers: str) -> tuple[int, Any]:
    base = {"Authorization": f"Bearer {TOKEN}", **headers}
    async with (
        aiohttp.ClientSession(str(api.session._base_url), middlewares=(strict.checked,)) as session,
        session.request(row.method, address(row), headers=base) as answer,
    ):
        body = await answer.json()
        assert {"error", "code", "hint", "status"} <= body.keys()
        assert body["status"] == answer.status
        return answer.status, body["code"]


async def test_no_route_answers_without_the_token_or_to_another_host_or_page(
    api: Api, fake_api: FakeAPI, tmp_path: Path
) -> None:
    for row in routes.ROUTES:
        assert await send(api, row, Authorization="Bearer wrong") == (401, "AUTHENTICATION_FAILED"), row.path
        assert await send(api, row, Authorization="") == (401, "AUTHENTICATION_FAILED"), row.path
        assert await send(api, row, Host="evil.example") == (421, "INVALID_ARGUMENT"), row.path
        assert await send(api, row, Origin="https://evil.example") == (403, "INVALID_ARGUMENT"), row.path
        assert await send(api, row, Origin="null") == (403, "INVALID_ARGUMENT"), row.path
    assert [path.name for path in tmp_path.iterdir()] == ["counsel"]  # COUNSEL_HOME
    assert fake_api.requests == []


async def test_every_route_bounds_its_body_and_refuses_what_is_no_object(api: Api) -> None:
    rows = [row for row in routes.ROUTES if row.body is not None and not isinstance(row.body, Binary)]
    for row in rows:
        large = b'{"name": "' + b"x" * LARGEST_BODY
        cases = [(b"[]", 400), (b"{", 400), (b'{"a": NaN}', 400), (b"[" * 200, 400)]
        for body, status in [*cases, (large, 413)] if row.largest == LARGEST_BODY else cases:
            async with api.session.request(row.method, address(row), data=io.BytesIO(body)) as answer:
                assert (answer.status, "body" in (await answer.json())["error"]) == (status, True), row.path
    assert {row.path for row in rows if row.largest != LARGEST_BODY} == {"/api/jobs"}
    assert max(row.largest for row in rows) == LARGEST_MESSAGE


async def test_every_route_names_an_unknown_parameter(api: Api) -> None:
    for row in routes.ROUTES:
        async with api.session.request(row.method, address(row), params={"nonsense": "1"}) as answer:
            body = await answer.json()
        assert (answer.status, "nonsense" in body["error"]) == (400, True), row.path


async def test_a_method_or_path_without_a_route_is_a_failure_like_all_others(api: Api) -> None:
    for method, path, status in [
        ("PUT", "/api/jobs", 404),
        ("GET", "/api/nothing", 404),
        ("POST", "/health", 405),
        ("GET", "/nothing", 404),
    ]:
        async with api.session.request(method, path) as answer:
            body = await answer.json()
            assert (answer.status, body["status"]) == (status, status)


# ── the OpenAPI document ─────────────────────────────────────────────────────────────────────────────


def test_the_document_has_every_route_and_no_other(tmp_path: Path) -> None:
    config = settings.load({"COUNSEL_HOME": str(tmp_path)})
    engine: Any = FakeEngine()
    all_routes = app.unguarded(engine, config, routes.routes(engine, config)).app.routes  # type: ignore[attr-defined]
    in_table = {
        (method, route.path.replace(":path}", "}"))
        for route in all_routes
        if isinstance(route, Route) and route.path.startswith("/api")
        for method in (route.methods or ())
        if method != "HEAD"
    }
    catch_all = {(method, "/api/{rest}") for method in ("GET", "POST", "PUT", "PATCH", "DELETE")}  # the 404
    in_document = {
        (method.upper(), path) for path, row in openapi.document()["paths"].items() for method in row
    }
    assert in_table - catch_all == in_document
    assert len(in_document) == len(routes.ROUTES)


def test_the_document_is_sound() -> None:
    document = openapi.document()
    text = json.dumps(document)
    for name in set(re.findall(r"#/components/schemas/(\w+)", text)):
        assert name in document["components"]["schemas"]
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert sorted(set(names)) == sorted(names)
    for operation in operations:
        assert operation["summary"].endswith(".")
        assert {"default"} < operation["responses"].keys()
        for parameter in operation.get("parameters", ()):
            assert parameter["in"] == "path" or parameter["description"]


def test_every_argument_of_a_question_is_described() -> None:
    schemas = openapi.document()["components"]["schemas"]
    for name in ("AskRequest", "ConsensusRequest"):
        for argument, schema in schemas[name]["properties"].items():
            assert schema.get("description"), (name, argument)


async def test_the_server_shows_its_document(api: Api) -> None:
    assert await api.get("/api/openapi.json") == (200, json.loads(json.dumps(openapi.document())))


def test_an_answer_that_the_document_does_not_describe_is_noticed() -> None:
    good = {"deleted": "job_1"}
    strict.check("DELETE", "/api/jobs/job_1", 200, "application/json", json.dumps(good).encode())
    for body in ({}, {"deleted": 7}, {**good, "more": 1}):
        with pytest.raises(AssertionError):
            strict.check("DELETE", "/api/jobs/job_1", 200, "application/json", json.dumps(body).encode())
    with pytest.raises(AssertionError):
        strict.check("DELETE", "/api/jobs/job_1", 201, "application/json", json.dumps(good).encode())
    with pytest.raises(AssertionError):
        strict.check("PUT", "/api/nowhere", 200, "application/json", json.dumps(good).encode())

"""What the tables of routes and tools promise: statuses that HTTP has, limits that mean something, honest hints."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest

from counsel.http.api import routes
from counsel.http.api.endpoint import ApiRoute
from counsel.mcp import client_timeouts
from counsel.mcp.tools import TOOLS

ROWS = [pytest.param(row, id=f"{row.method} {row.path}") for row in routes.ROUTES]


@pytest.mark.parametrize("row", ROWS)
def test_a_route_answers_with_statuses_of_success(row: ApiRoute) -> None:
    assert row.answers
    for status in row.answers:
        assert 200 <= HTTPStatus(status) < 300


@pytest.mark.parametrize("row", ROWS)
def test_a_numbers_default_is_within_its_limits(row: ApiRoute) -> None:
    for parameter in (*row.query, *row.headers):
        if parameter.schema["type"] == "integer" and parameter.default is not None:
            assert isinstance(parameter.default, int)
            assert 0 <= parameter.schema["minimum"] <= parameter.default <= parameter.schema["maximum"]
        elif "enum" in parameter.schema and parameter.default is not None:
            assert parameter.default in parameter.schema["enum"]


@pytest.mark.parametrize("path", ["/api/usage", "/api/usage/series"])
def test_usage_of_a_hundred_years_can_be_asked_for(path: str) -> None:
    (row,) = (row for row in routes.ROUTES if (row.method, row.path) == ("GET", path))
    (seconds,) = (parameter for parameter in row.query if parameter.name == "seconds")
    assert seconds.schema["maximum"] >= 100 * 365 * 24 * 3600


def test_bodies_of_questions_may_be_larger_than_others() -> None:
    assert all(row.largest >= 1024 * 1024 for row in routes.ROUTES)


HINTS: dict[str, dict[str, Any]] = {
    "chat": {"destructiveHint": False, "openWorldHint": True},
    "consensus": {"destructiveHint": False, "openWorldHint": True},
    "askModel": {"destructiveHint": False, "openWorldHint": True},
    "check_status": {"readOnlyHint": True, "openWorldHint": False},
    "cancel_job": {"destructiveHint": True, "idempotentHint": True, "openWorldHint": False},
}


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_says_whether_it_changes_something_and_reaches_the_world(name: str) -> None:
    """Clients ask their users before a destructive tool runs."""
    annotations = TOOLS[name].listed()["annotations"]
    assert {key: value for key, value in annotations.items() if key != "title"} == HINTS[name]
    assert annotations["title"]


@pytest.mark.parametrize("client", client_timeouts.CLIENTS)
def test_every_known_client_waits_at_least_a_minute_over_either_transport(client: str) -> None:
    for transport in ("stdio", "http"):
        seconds = client_timeouts.limit(
            client_timeouts.of(client),
            transport,
            {},
            client_timeouts.Configured(),
        )
        assert 60 <= seconds <= 600


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("McpError: MCP error -32001: Request timed out", True),
        ("timed out after 5s", True),
        ("request timeout", True),
        ("TimeoutError: The operation was aborted due to timeout", True),
        ("deadline exceeded", True),
        ("time-out", True),
        ("MCP response future dropped", False),
        ("AbortError: This operation was aborted", False),
        ("overtime", False),
        (f"{'x' * 1_000} timed out", False),
        (f"{'x' * 980} timed out", True),
        (None, False),
        (5, False),
    ],
)
def test_which_reasons_are_the_clients_own_limit(reason: object, expected: bool) -> None:
    assert client_timeouts.is_timeout(reason) is expected

"""The routes below `/api`, one row each. All of them require the token or the console's session.

A row has the method, the path, the handler, a summary, and the types of its request and its answers; the rows are in
`tables/`. `openapi.py` describes them; tests compare every answer with them.
"""

from __future__ import annotations

from pathlib import Path

from starlette.routing import BaseRoute, Route

from counsel.http.api import openapi
from counsel.http.api.endpoint import METHODS, ApiRoute, Context, not_found, starlette_route
from counsel.http.api.tables import agent_files, asking, limits, machine, team
from counsel.mcp.identity import ClientIdentity
from counsel.models.embedded_process import EmbeddedModel
from counsel.requests import Engine
from counsel.settings import Settings

ROUTES: tuple[ApiRoute, ...] = (
    *asking.ROWS,
    *machine.ROWS,
    *agent_files.ROWS,
    *team.ROWS,
    *limits.ROWS,
    ApiRoute(
        "GET",
        "/api/openapi.json",
        openapi.show,
        "This API as an OpenAPI 3.1 document.",
        answers={200: dict[str, object]},
        team="person",
    ),
)


def routes(engine: Engine, settings: Settings, identity: ClientIdentity | None = None) -> list[BaseRoute]:
    identity = identity or ClientIdentity(env=settings.own_env, cwd=Path.cwd())
    context = Context(engine, identity, EmbeddedModel(settings.home))
    api_routes = [starlette_route(row, context) for row in ROUTES]
    return [*api_routes, Route("/api/{rest:path}", not_found, methods=METHODS)]

"""The routes of `counsel serve` once the engine is open: `/v1`, `/mcp`, `/health`, `/metrics`, `/api`, the
console's page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from counsel.http import probes
from counsel.http.api import endpoint as api
from counsel.http.console import files as console
from counsel.http.guarding import guarded
from counsel.http.loading import HttpApp
from counsel.http.streamable import Streamable
from counsel.http.v1.endpoint import V1
from counsel.mcp.identity import ClientIdentity
from counsel.requests import LocalEngine
from counsel.settings import Settings

if TYPE_CHECKING:
    from counsel.engine.engine import Engine
    from counsel.http.team.access import TeamAccess


def build(
    engine: LocalEngine,
    settings: Settings,
    *,
    host: str,
    secret: str,
    routes: Iterable[BaseRoute] = (),
    identity: ClientIdentity | None = None,
    team: TeamAccess | None = None,
) -> HttpApp:
    """Build the application behind the guard: all but `/health` and the console's page needs the token or a session."""
    inner = unguarded(engine, settings, routes, identity)
    return HttpApp(guarded(inner.app, settings, host=host, secret=secret, team=team), inner.close)


def unguarded(
    engine: LocalEngine,
    settings: Settings,
    routes: Iterable[BaseRoute],
    identity: ClientIdentity | None = None,
) -> HttpApp:
    """Build the application without the guard. `identity`: whose keys and folder to use; default: this process's."""
    identity = identity or ClientIdentity(env=settings.own_env, cwd=Path.cwd())
    engine.register_caller(identity.caller("http"))
    mcp = Streamable(engine, identity)
    v1 = V1(engine, identity)
    closing = asyncio.Event()  # ends streams that have no end of their own
    inner = Starlette(
        routes=[
            Route("/v1/{rest:path}", v1, methods=None),
            Route("/mcp", mcp, methods=["GET", "POST", "DELETE"]),
            *probes.routes(engine, settings, closing.is_set),
            *console.routes(),
            *_login(engine, settings),
            *routes,
        ],
        exception_handlers={404: api.not_found, 405: api.not_allowed, Exception: api.failed},
    )
    inner.state.closing = closing
    inner.state.answering = set()  # results that clients of `POST /api/jobs` wait for

    async def close() -> None:
        closing.set()
        await v1.close()
        await mcp.close()

    return HttpApp(
        inner, close, is_waiting=lambda: v1.is_waiting or mcp.is_waiting or bool(inner.state.answering)
    )


def _login(engine: LocalEngine, settings: Settings) -> list[BaseRoute]:
    """Routes for signing in. A server without a team has links and a token; a team's may have an issuer."""
    routes: list[BaseRoute] = []
    issuer, is_team = None, bool(getattr(engine, "is_team", False))
    if is_team:
        from counsel.http.team import login

        routes, issuer = login.oidc(lambda: cast("Engine", engine).store, settings)

    async def methods(_: Request) -> Response:
        return JSONResponse({"team": is_team, "issuer": issuer}, headers=api.FRESH)

    return [Route("/login/methods", methods), *routes]

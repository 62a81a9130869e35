"""The routes of `counsel serve` once the engine is open: `/v1`, `/mcp`, `/health`, `/metrics`, `/api`, the console's page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from counsel.errors import NotPermitted
from counsel.http.api import endpoint as api
from counsel.http.auth import Guard
from counsel.http.console import files as console
from counsel.http.console.sessions import ConsoleSessions
from counsel.http.loading import HEALTH, HttpApp
from counsel.http.person import check_admin
from counsel.http.proxies import Proxies
from counsel.http.streamable import Streamable
from counsel.http.v1.endpoint import V1
from counsel.mcp.identity import ClientIdentity
from counsel.requests import LocalEngine
from counsel.settings import Settings

if TYPE_CHECKING:
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
    """The whole application: everything but `/health` and the console's page requires the token or a session."""
    inner = unguarded(engine, settings, routes, identity)
    sessions = None if team else ConsoleSessions(settings.home, secret)
    guard = Guard(
        inner.app,
        secret=secret,
        host=host,
        origins=settings.cors_origins,
        sessions=sessions,
        proxies=Proxies.of(settings),
        team=team,
    )
    return HttpApp(guard, inner.close)


def unguarded(
    engine: LocalEngine,
    settings: Settings,
    routes: Iterable[BaseRoute],
    identity: ClientIdentity | None = None,
) -> HttpApp:
    """`identity`: whose keys and folder are used; by default those of this process."""
    identity = identity or ClientIdentity(env=settings.own_env, cwd=Path.cwd())
    engine.register_caller(identity.caller("http"))
    mcp = Streamable(engine, identity)
    v1 = V1(engine, identity)
    inner = Starlette(
        routes=[
            Route("/v1/{rest:path}", v1, methods=None),
            Route("/mcp", mcp, methods=["GET", "POST", "DELETE"]),
            Route("/health", _health),
            Route("/metrics", _metrics(engine)),
            *console.routes(),
            *routes,
        ],
        exception_handlers={404: api.not_found, 405: api.not_allowed, Exception: api.failed},
    )
    inner.state.closing = closing = asyncio.Event()  # ends streams that would not end by themselves

    async def close() -> None:
        closing.set()
        await v1.close()
        await mcp.close()

    return HttpApp(inner, close)


async def _health(_: Request) -> Response:
    return JSONResponse(HEALTH)


def _metrics(engine: LocalEngine) -> Callable[[Request], object]:
    async def metrics(request: Request) -> Response:
        try:
            check_admin(request.scope)
        except NotPermitted as error:
            return api.failed_with(error)
        return PlainTextResponse(await engine.metrics_text(), media_type="text/plain; version=0.0.4")

    return metrics

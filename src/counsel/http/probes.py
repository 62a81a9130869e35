"""`/health`, `/ready` and `/metrics`: what a load balancer, an orchestrator and Prometheus ask.

`/health` says that the process is alive and checks nothing else: an unreachable database is no reason to restart it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from counsel import __version__
from counsel.errors import NotPermitted
from counsel.http.api.endpoint import failed_with
from counsel.http.auth import METRICS_ONLY
from counsel.http.loading import HEALTH
from counsel.http.person import check_admin
from counsel.requests import LocalEngine
from counsel.settings import Settings

KEEP = 1.0  # seconds for which a response of `/ready` is reused, since anybody may request it
_FRESH = {"cache-control": "no-store"}


def routes(engine: LocalEngine, settings: Settings, is_draining: Callable[[], bool]) -> list[BaseRoute]:
    readiness = Readiness(engine, settings, is_draining)

    async def health(_: Request) -> Response:
        return JSONResponse(HEALTH)

    async def metrics(request: Request) -> Response:
        if not request.scope.get(METRICS_ONLY):
            try:
                check_admin(request.scope)
            except NotPermitted as error:
                return failed_with(error)
        text = await engine.metrics_text(people=settings.metrics_people)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    return [
        Route("/health", health),
        Route("/ready", readiness.answer),
        Route("/metrics", metrics),
    ]


class Readiness:
    def __init__(self, engine: LocalEngine, settings: Settings, is_draining: Callable[[], bool]) -> None:
        self._engine = engine
        self._limit = settings.ready_queue_seconds
        self._is_draining = is_draining
        self._cache: tuple[float, list[dict[str, object]]] = (-KEEP, [])

    async def answer(self, _: Request) -> Response:
        return response(await self.reasons())

    async def reasons(self) -> list[dict[str, object]]:
        if self._is_draining():
            return [{"code": "draining", "text": "The server is being stopped: it takes no new jobs."}]
        checked_at, reasons = self._cache
        if time.monotonic() - checked_at >= KEEP:
            reasons = [reason.to_json() for reason in await self._engine.not_ready(self._limit)]
            self._cache = (time.monotonic(), reasons)
        return reasons


def response(reasons: list[dict[str, object]]) -> Response:
    """A slow queue is reported, but is no reason to send requests elsewhere: all servers share it."""
    ready = all(reason["code"] == "queue" for reason in reasons)
    document = {
        "status": "ready" if ready else "not_ready",
        "version": __version__,
        "reasons": reasons,
    }
    return JSONResponse(document, 200 if ready else 503, headers=_FRESH)

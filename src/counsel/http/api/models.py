"""`/api/models` and `/api/agents`: the models and agents that can be asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from counsel.caller import Caller
from counsel.errors import InvalidArgument
from counsel.http.api.routes import answering
from counsel.requests import Engine
from counsel.settings import Settings


def routes(_engine: Engine, settings: Settings) -> list[BaseRoute]:
    async def models(request: Request) -> Any:
        return await asyncio.to_thread(_models, settings, request.query_params.get("provider"))

    async def agents(_: Request) -> object:
        from counsel.overview import agents_overview

        caller = Caller("http", cwd=Path.cwd(), settings=settings)
        return {"agents": await asyncio.to_thread(agents_overview, caller)}

    return [Route("/api/models", answering(models)), Route("/api/agents", answering(agents))]


def _models(settings: Settings, provider: str | None) -> dict[str, object]:
    """What `counsel models --json` prints."""
    from counsel.models import listing
    from counsel.models.catalog import Catalog

    catalog = Catalog.load(settings)
    if provider and not catalog.has_provider(provider):
        raise InvalidArgument(f"There is no provider {provider[:80]!r}.")
    rows = listing.newest_first(catalog, catalog.models(provider))
    return listing.document(catalog, rows, catalog.problems)

"""`/api/models`, `/api/agents` and `/api/doctor`: what can be asked, and what is set up."""

from __future__ import annotations

import asyncio

from counsel.caller import Caller
from counsel.errors import InvalidArgument
from counsel.http.api.endpoint import ApiCall
from counsel.settings import Settings


async def models(call: ApiCall) -> object:
    return await asyncio.to_thread(_models, call.settings, call.query["provider"])


def _models(settings: Settings, provider: str | None) -> dict[str, object]:
    """What `counsel models --json` prints."""
    from counsel.models import listing
    from counsel.models.catalog import Catalog

    catalog = Catalog.load(settings)
    if provider and not catalog.has_provider(provider):
        raise InvalidArgument(f"There is no provider {provider[:80]!r}.")
    rows = listing.newest_first(catalog, catalog.models(provider))
    return listing.document(catalog, rows, catalog.problems)


async def agents(call: ApiCall) -> object:
    from counsel.overview import agents_overview

    return {"agents": await asyncio.to_thread(agents_overview, call.caller(call.query["project"]))}


async def doctor(call: ApiCall) -> object:
    return await asyncio.to_thread(_examined, call.caller(), online=call.query["online"])


def _examined(caller: Caller, *, online: bool) -> object:
    from counsel.doctor import checks

    return checks.document(checks.examine(caller, online=online))

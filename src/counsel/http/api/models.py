"""`/api/models`, `/api/agents` and `/api/doctor`: which models can be asked, and what is set up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from counsel.caller import Caller
from counsel.errors import InvalidArgument
from counsel.http.api import embedded_model
from counsel.http.api.endpoint import ApiCall
from counsel.http.person import caller_of
from counsel.models.catalog import Catalog

if TYPE_CHECKING:  # the catalog is loaded on first use
    from counsel.models.listing import Listing


async def models(call: ApiCall) -> object:
    caller = await caller_of(call.engine, call.caller())
    return await asyncio.to_thread(_models, call, caller, call.query["provider"])


def _models(call: ApiCall, caller: Caller, provider: str | None) -> Listing:
    """The document of `counsel models --json`; here the embedded model is available once it is downloaded."""
    from counsel.models import listing

    catalog = Catalog.load(caller.settings)
    if provider and not catalog.has_provider(provider):
        raise InvalidArgument(
            f"There is no provider {provider[:80]!r}.",
            hint="GET /api/models lists the models of all providers.",
        )
    rows = listing.newest_first(catalog, catalog.models(provider))
    document = listing.document(catalog, rows, catalog.problems)
    for model in document["models"]:
        if model["provider"] == embedded_model.PROVIDER:
            model["embedded"] = True
            if call.context.embedded.is_present:
                model |= {"available": True, "reason": ""}
    return document


async def agents(call: ApiCall) -> object:
    from counsel.overview import agents_overview

    return {"agents": await asyncio.to_thread(agents_overview, call.caller(call.query["project"]))}


async def doctor(call: ApiCall) -> object:
    call.context.identity.read_again()  # people check again right after they have corrected a file
    return await asyncio.to_thread(_examine, call.caller(), online=call.query["online"])


def _examine(caller: Caller, *, online: bool) -> object:
    from counsel.doctor import checks

    return checks.document(checks.examine(caller, online=online))

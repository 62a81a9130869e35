"""`/api/embedded-model`: the tiny model that runs on this machine, for who has no key yet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from counsel import settings
from counsel.caller import Caller
from counsel.errors import ModelNotFound
from counsel.http.api.endpoint import ApiCall
from counsel.models.auto import Needs, candidates
from counsel.models.catalog import Catalog
from counsel.settings import Settings

PROVIDER = "local"
_ADDRESS = "COUNSEL_LOCAL_BASE_URL"


async def show(call: ApiCall) -> object:
    return await asyncio.to_thread(call.context.embedded.status)


async def install(call: ApiCall) -> object:
    """Start its download, or the model itself. The answer is its state; a page asks again for the progress."""
    _start(call)
    return await asyncio.to_thread(call.context.embedded.status)


def _start(call: ApiCall) -> None:
    call.context.embedded.start()
    _end_with_server(call)


def _end_with_server(call: ApiCall) -> None:
    if call.context.ending:
        return

    async def end() -> None:
        await call.request.app.state.closing.wait()
        await call.context.embedded.close()

    call.context.ending.append(asyncio.ensure_future(end()))


async def for_question(call: ApiCall, caller: Caller, models: Iterable[str | None]) -> Caller:
    """The caller; if the question is for the embedded model, with the variables that reach it.

    Not for other questions: a job continues after a restart only with the same settings, and these change each time.
    """
    embedded = call.context.embedded
    if not embedded.is_present or not await asyncio.to_thread(_is_asked, caller.settings, list(models)):
        return caller
    _start(call)
    variables = await embedded.environment()
    loaded = await asyncio.to_thread(settings.load, {**call.context.identity.env, **variables})
    return replace(caller, settings=loaded)


def _is_asked(loaded: Settings, models: list[str | None]) -> bool:
    if loaded.env.get(_ADDRESS):  # another server of the user's
        return False
    catalog = Catalog.load(loaded)
    return any(_is_local(catalog, name or "auto") for name in models)


def _is_local(catalog: Catalog, name: str) -> bool:
    if name.lower() == "auto":
        return not any(candidates(catalog, Needs()))
    try:
        return catalog.lookup(name).provider == PROVIDER
    except ModelNotFound:
        return False

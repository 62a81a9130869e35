"""`/api/embedded-model`: the tiny model that runs on this machine, for people without a key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import cast

from counsel import settings
from counsel.caller import EMBEDDED, Caller
from counsel.engine.store.records import JobFilter
from counsel.errors import CounselError, ModelNotFound
from counsel.http.api.endpoint import ApiCall
from counsel.http.api.jobs import JobArchive
from counsel.models.auto import Needs, candidates
from counsel.models.catalog import Catalog
from counsel.settings import Settings

PROVIDER = "local"
MOST_RESUMED = 100  # open jobs that are looked at
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


def resume(call: ApiCall) -> None:
    """Once in a server's life: jobs that were interrupted continue, although their model has another address now."""
    if not call.context.resuming and call.context.embedded.is_present:
        call.context.resuming.append(asyncio.ensure_future(_resume(call)))


async def _resume(call: ApiCall) -> None:
    open_jobs = JobFilter(status="processing")
    listed, _ = await cast(JobArchive, call.engine).jobs(MOST_RESUMED, open_jobs)
    models = {model for job in listed.jobs for model in job.models}
    caller = call.caller()
    with suppress(CounselError):  # then they wait on, and say for what
        reached = await for_question(call, caller, models)
        if reached is not caller:
            call.engine.register_caller(reached)


async def for_question(call: ApiCall, caller: Caller, models: Iterable[str | None]) -> Caller:
    """The caller; if the question is for the embedded model, with the variables that reach it.

    Not for other questions: a job continues after a restart only with the same settings.
    """
    embedded = call.context.embedded
    if call.person is not None:
        return caller
    if not embedded.is_present or not await asyncio.to_thread(_is_asked, caller.settings, list(models)):
        return caller
    _start(call)
    variables = await embedded.environment()
    environment = {**call.context.identity.env, **variables, EMBEDDED: "1"}
    loaded = await asyncio.to_thread(settings.load, environment)
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

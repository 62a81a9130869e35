"""`/api/embedded-model`: the tiny model that runs on this machine, for people without a key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import cast

from counsel import settings as settings_
from counsel.caller import EMBEDDED, Caller
from counsel.engine.store.records import JobFilter
from counsel.errors import CounselError, ModelNotFound
from counsel.http.api.endpoint import ApiCall
from counsel.http.api.jobs import JobArchive
from counsel.models.auto import Needs, candidates
from counsel.models.catalog import Catalog
from counsel.settings import Settings

PROVIDER = "local"
MOST_RESUMED = 100  # open jobs whose models are checked
_ADDRESS = "COUNSEL_LOCAL_BASE_URL"


async def show(call: ApiCall) -> object:
    return await asyncio.to_thread(call.context.embedded.status)


async def install(call: ApiCall) -> object:
    """Start the download, or the model if it is already downloaded. Return the state; the page polls for progress."""
    _start(call)
    return await asyncio.to_thread(call.context.embedded.status)


def _start(call: ApiCall) -> None:
    call.context.embedded.start()
    _end_with_server(call)


def _end_with_server(call: ApiCall) -> None:
    if call.context.end_tasks:
        return

    async def end() -> None:
        await call.request.app.state.closing.wait()
        await call.context.embedded.close()

    call.context.end_tasks.append(asyncio.ensure_future(end()))


def resume(call: ApiCall) -> None:
    """Continue the model's interrupted jobs, once per server process: its address changes with each start."""
    if not call.context.resume_tasks and call.context.embedded.is_present:
        call.context.resume_tasks.append(asyncio.ensure_future(_resume(call)))


async def _resume(call: ApiCall) -> None:
    open_jobs = JobFilter(status="processing")
    page, _ = await cast(JobArchive, call.engine).jobs(MOST_RESUMED, open_jobs)
    models = {model for job in page.jobs for model in job.models}
    caller = call.caller()
    with suppress(CounselError):  # the jobs keep waiting, and their status says for what
        local_caller = await for_question(call, caller, models)
        if local_caller is not caller:
            call.engine.register_caller(local_caller)


async def for_question(call: ApiCall, caller: Caller, models: Iterable[str | None]) -> Caller:
    """Return the caller, with the settings that reach the embedded model if the question is for it.

    For other questions the settings stay as they are: after a restart a job continues only with the same ones.
    """
    embedded = call.context.embedded
    if call.person is not None:
        return caller
    if not embedded.is_present or not await asyncio.to_thread(
        _is_for_embedded, caller.settings, list(models)
    ):
        return caller
    _start(call)
    variables = await embedded.environment()
    environment = {**call.context.identity.env, **variables, EMBEDDED: "1"}
    settings = await asyncio.to_thread(settings_.load, environment)
    return replace(caller, settings=settings)


def _is_for_embedded(settings: Settings, models: list[str | None]) -> bool:
    if settings.env.get(_ADDRESS):  # the user's own local server
        return False
    catalog = Catalog.load(settings)
    return any(_is_local(catalog, name or "auto") for name in models)


def _is_local(catalog: Catalog, name: str) -> bool:
    if name.lower() == "auto":
        return not any(candidates(catalog, Needs()))
    try:
        return catalog.lookup(name).provider == PROVIDER
    except ModelNotFound:
        return False

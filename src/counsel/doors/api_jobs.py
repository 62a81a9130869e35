"""`/api/jobs…`: what runs and what ran, live, and stopping it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import BaseRoute, Route

from counsel.doors.api import FRESH, Handler, answering, number, switch, whole
from counsel.doors.messages import encode
from counsel.requests import Engine, JobEvent
from counsel.settings import Settings
from counsel.types import Json

SIGN_OF_LIFE = 15.0  # seconds of silence after which a comment is sent
_ALL = 2**62


def routes(engine: Engine, _settings: Settings) -> list[BaseRoute]:
    desk = _Desk(engine)

    def at(path: str, handler: Handler, method: str = "GET") -> Route:
        return Route(path, answering(handler), methods=[method])

    return [
        at("/api/jobs", desk.newest),
        at("/api/jobs/{id}", desk.show),
        at("/api/jobs/{id}/events", desk.events),
        at("/api/jobs/{id}/cancel", desk.cancel, "POST"),
    ]


class _Desk:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def newest(self, request: Request) -> Any:
        return (await self._engine.recent(number(request, "limit", 10, 1_000)))["content"]

    async def show(self, request: Request) -> Any:
        found = await self._engine.status(_id(request), full_history=switch(request, "history"))
        return found["content"]

    async def cancel(self, request: Request) -> Any:
        return (await self._engine.cancel(_id(request)))["content"]

    async def events(self, request: Request) -> Any:
        """Server-sent events; a client that lost the connection goes on with `Last-Event-ID`."""
        job = (await self._engine.status(_id(request)))["content"]["job_id"]
        last = request.headers.get("last-event-id", "")
        after = whole("Last-Event-ID", last, _ALL) if last else number(request, "after", 0, _ALL)
        lines = stream(self._engine.follow(job, after), request.app.state.closing)
        return StreamingResponse(lines, media_type="text/event-stream", headers=FRESH)


def _id(request: Request) -> str:
    return str(request.path_params["id"])


async def stream(events: AsyncIterator[JobEvent], closing: asyncio.Event) -> AsyncIterator[str]:
    """Each event as one message, a comment now and then: a proxy keeps the line open, a client that went is noticed."""
    over = asyncio.ensure_future(closing.wait())
    coming: asyncio.Task[JobEvent] | None = None
    try:
        while not over.done():
            coming = coming or asyncio.ensure_future(anext(events))
            await asyncio.wait({coming, over}, timeout=SIGN_OF_LIFE, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                yield ": \n\n"
                continue
            try:
                event = coming.result()
            except StopAsyncIteration:
                return
            coming = None
            yield f"id: {event.seq}\ndata: {encode(_shown(event))[:-1].decode()}\n\n"
    finally:
        over.cancel()
        await _end(coming, events)


async def _end(coming: asyncio.Task[JobEvent] | None, events: Any) -> None:
    if coming is not None:
        coming.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await coming
    await events.aclose()


def _shown(event: JobEvent) -> Json:
    return {"seq": event.seq, "at": event.at, "kind": event.kind, "slot": event.slot, "data": event.data}

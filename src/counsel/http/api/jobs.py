"""`/api/jobs…`: list, show, follow and cancel jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import BaseRoute, Route

from counsel.http.api.routes import FRESH, Handler, answering, number, switch, whole
from counsel.job_events import JobEvent
from counsel.requests import Engine
from counsel.settings import Settings
from counsel.strict_json import dumps

KEEPALIVE = 15.0  # seconds of silence after which a comment is sent, at the latest
MOST_AHEAD = 64  # events that are read before the last ones were sent
_ALL = 2**62


def routes(engine: Engine, _settings: Settings) -> list[BaseRoute]:
    handlers = _Handlers(engine)

    def at(path: str, handler: Handler, method: str = "GET") -> Route:
        return Route(path, answering(handler), methods=[method])

    return [
        at("/api/jobs", handlers.newest),
        at("/api/jobs/{id}", handlers.show),
        at("/api/jobs/{id}/events", handlers.events),
        at("/api/jobs/{id}/cancel", handlers.cancel, "POST"),
    ]


class _Handlers:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def newest(self, request: Request) -> Any:
        return (await self._engine.recent(number(request, "limit", 10, 1_000))).content

    async def show(self, request: Request) -> Any:
        return (await self._engine.status(_id(request), full_history=switch(request, "history"))).content

    async def cancel(self, request: Request) -> Any:
        return (await self._engine.cancel(_id(request))).content

    async def events(self, request: Request) -> Any:
        """Server-sent events; a client that lost the connection resumes with `Last-Event-ID`."""
        job = (await self._engine.status(_id(request))).job_id
        last = request.headers.get("last-event-id", "")
        after = whole("Last-Event-ID", last, _ALL) if last else number(request, "after", 0, _ALL)
        lines = stream(self._engine.follow(job, after), request.app.state.closing)
        return StreamingResponse(lines, media_type="text/event-stream", headers=FRESH)


def _id(request: Request) -> str:
    return str(request.path_params["id"])


async def stream(events: AsyncIterator[JobEvent], closing: asyncio.Event) -> AsyncIterator[str]:
    """Each event as one message, with keepalive comments: proxies keep the connection open, and a closed client is noticed."""
    reader = _EventReader(events)
    over = asyncio.ensure_future(closing.wait())
    over.add_done_callback(lambda _: reader.news.set())
    try:
        while not over.done():
            batch = await reader.next()
            if batch is None:
                return
            yield "".join(map(_line, batch)) or ": \n\n"
    finally:
        over.cancel()
        await reader.close()


class _EventReader:
    """Events read by one task for the whole stream: a task and a timer for every event cost more than the event."""

    def __init__(self, events: AsyncIterator[JobEvent]) -> None:
        self.news = asyncio.Event()
        self._events: Any = events
        self._ready: list[JobEvent] = []
        self._taken = asyncio.Event()
        self._quiet = False  # no event since the last tick
        self._reading = asyncio.ensure_future(self._read())
        self._tick = asyncio.get_running_loop().call_later(KEEPALIVE / 2, self._listen)

    async def next(self) -> list[JobEvent] | None:
        """New events in order; an empty list after a silence; None after the last."""
        while not self._ready and not self._reading.done():
            await self.news.wait()
            self.news.clear()
            if not self._ready and not self._reading.done():
                return []
        if not self._ready:
            self._reading.result()  # its failure
            return None
        batch, self._ready = self._ready, []
        self._quiet = False
        self._taken.set()
        return batch

    async def _read(self) -> None:
        try:
            async for event in self._events:
                self._ready.append(event)
                self.news.set()
                if len(self._ready) >= MOST_AHEAD:  # a slow reader: the engine puts together what waits there
                    self._taken.clear()
                    await self._taken.wait()
        finally:
            self.news.set()

    def _listen(self) -> None:
        if self._quiet:
            self.news.set()
        self._quiet = not self._quiet
        self._tick = asyncio.get_running_loop().call_later(KEEPALIVE / 2, self._listen)

    async def close(self) -> None:
        self._tick.cancel()
        self._reading.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._reading
        await self._events.aclose()


def _line(event: JobEvent) -> str:
    return f"id: {event.seq}\ndata: {dumps(event.to_json())}\n\n"

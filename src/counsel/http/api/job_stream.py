"""A job's events as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Protocol, TypeAlias, cast

from starlette.responses import StreamingResponse

from counsel.http.api.endpoint import FRESH, ApiCall
from counsel.http.api.event_cursor import Cursor, resumed
from counsel.job_events import JobEvent
from counsel.strict_json import dumps

KEEPALIVE = 15.0  # seconds of silence after which a comment is sent, at the latest
MOST_AHEAD = 64  # events that are read before the previous ones are sent
HEADERS = {**FRESH, "x-accel-buffering": "no"}
EventWithId: TypeAlias = tuple[str, JobEvent]


class HasEvents(Protocol):
    """An engine that can replay a job from its start: one with direct access to the database, not a client of it."""

    def events(self, job_id: str) -> AsyncGenerator[JobEvent]: ...


def response(
    call: ApiCall, job: str, cursor: Cursor, headers: Mapping[str, str] | None = None
) -> StreamingResponse:
    events = resumed(cast(HasEvents, call.engine).events(job), cursor)
    lines = stream(events, call.request.app.state.closing)
    return StreamingResponse(
        lines,
        media_type="text/event-stream",
        headers={**HEADERS, **(headers or {})},
    )


async def stream(events: AsyncGenerator[EventWithId], closing: asyncio.Event) -> AsyncGenerator[str]:
    """Send each event as one message, with keepalive comments: proxies keep the connection open, and the server
    notices when the client has gone.
    """
    reader = _EventReader(events)
    shutdown = asyncio.ensure_future(closing.wait())
    shutdown.add_done_callback(lambda _: reader.news.set())
    try:
        while not shutdown.done():
            batch = await reader.next()
            if batch is None:
                return
            yield "".join(map(_line, batch)) or ": \n\n"
    finally:
        shutdown.cancel()
        await reader.close()


class _EventReader:
    """Reads all events in one task: a task and a timer for each event would cost more than the event."""

    def __init__(self, events: AsyncGenerator[EventWithId]) -> None:
        self.news = asyncio.Event()
        self._events = events
        self._ready: list[EventWithId] = []
        self._taken = asyncio.Event()
        self._quiet = False  # no event since the last tick
        self._reading = asyncio.ensure_future(self._read())
        self._tick = asyncio.get_running_loop().call_later(KEEPALIVE / 2, self._check_silence)

    async def next(self) -> list[EventWithId] | None:
        """Return new events in order, an empty list after a silence, or None after the last one."""
        while not self._ready and not self._reading.done():
            await self.news.wait()
            self.news.clear()
            if not self._ready and not self._reading.done():
                return []
        if not self._ready:
            self._reading.result()  # raises its failure
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
                if len(self._ready) >= MOST_AHEAD:  # the engine joins texts that wait there
                    self._taken.clear()
                    await self._taken.wait()
        finally:
            self.news.set()

    def _check_silence(self) -> None:
        if self._quiet:
            self.news.set()
        self._quiet = not self._quiet
        self._tick = asyncio.get_running_loop().call_later(KEEPALIVE / 2, self._check_silence)

    async def close(self) -> None:
        self._tick.cancel()
        self._reading.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._reading
        await self._events.aclose()


def _line(entry: EventWithId) -> str:
    cursor, event = entry
    return f"id: {cursor}\ndata: {dumps(event.to_json())}\n\n"

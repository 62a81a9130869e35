"""A job's events as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, cast

from starlette.responses import StreamingResponse

from counsel.http.api.endpoint import FRESH, ApiCall
from counsel.http.api.event_cursor import Cursor, resumed
from counsel.job_events import JobEvent
from counsel.strict_json import dumps

KEEPALIVE = 15.0  # seconds of silence after which a comment is sent, at the latest
MOST_AHEAD = 64  # events that are read before the last ones were sent
HEADERS = {**FRESH, "x-accel-buffering": "no"}
Numbered: TypeAlias = tuple[str, JobEvent]  # the event's id, and the event


class HasEvents(Protocol):
    """An engine that replays a job from its start: the real one, not one at the other end of a socket."""

    def events(self, job_id: str) -> AsyncIterator[JobEvent]: ...


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


async def stream(events: AsyncIterator[Numbered], closing: asyncio.Event) -> AsyncIterator[str]:
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

    def __init__(self, events: AsyncIterator[Numbered]) -> None:
        self.news = asyncio.Event()
        self._events: Any = events
        self._ready: list[Numbered] = []
        self._taken = asyncio.Event()
        self._quiet = False  # no event since the last tick
        self._reading = asyncio.ensure_future(self._read())
        self._tick = asyncio.get_running_loop().call_later(KEEPALIVE / 2, self._listen)

    async def next(self) -> list[Numbered] | None:
        """New events in order; an empty list after a silence; None after the last."""
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


def _line(numbered: Numbered) -> str:
    cursor, event = numbered
    return f"id: {cursor}\ndata: {dumps(event.to_json())}\n\n"

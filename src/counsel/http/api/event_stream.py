"""`GET /api/events`: the events of many jobs, and changes of the list of jobs, as one stream.

A browser opens at most six connections to a host, so a page follows all its jobs through one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import aclosing
from typing import Protocol, cast

from starlette.responses import StreamingResponse

from counsel.engine.jobs.changes import JobChanges
from counsel.errors import InvalidArgument, NotFound
from counsel.http.api import embedded_model
from counsel.http.api.endpoint import ApiCall
from counsel.http.api.event_cursor import Cursor, resumed
from counsel.http.api.job_stream import HEADERS, KEEPALIVE, HasEvents
from counsel.strict_json import dumps

log = logging.getLogger("counsel.http")
MOST_JOBS = 100  # in one stream
NEWEST = 50  # jobs of the list that a stream begins with
LARGEST_BATCH = 256 * 1024  # characters that may wait for the client before reading pauses


class HasChanges(HasEvents, Protocol):
    """An engine with direct access to the database, not a client of one over a socket."""

    def job_changes(self, newest: int) -> AsyncGenerator[JobChanges]: ...


async def show(call: ApiCall) -> object:
    cursors = _cursors(call.query["job"])
    embedded_model.resume(call)
    if not cursors and not call.query["jobs"]:
        raise InvalidArgument("Nothing to follow.", hint="Add job=ID for each job, or jobs=1 for the list.")
    lines = stream(
        cast(HasChanges, call.engine), cursors, call.request.app.state.closing, jobs=call.query["jobs"]
    )
    return StreamingResponse(lines, media_type="text/event-stream", headers=HEADERS)


def _cursors(values: list[str]) -> dict[str, Cursor]:
    """Parse each job's `ID~CURSOR`, or `ID` to follow it from its start."""
    cursors: dict[str, Cursor] = {}
    for value in values:
        job, _, text = value.partition("~")
        if job in cursors:
            raise InvalidArgument(f"job {job[:80]!r} is given more than once.")
        cursors[job] = Cursor.parse("job", text or "0")
    if len(cursors) > MOST_JOBS:
        raise InvalidArgument(
            f"One stream follows at most {MOST_JOBS} jobs, not {len(cursors)}.",
            hint="Open a second stream for the others.",
        )
    return cursors


async def stream(
    engine: HasChanges, cursors: dict[str, Cursor], closing: asyncio.Event, *, jobs: bool
) -> AsyncGenerator[str]:
    """Stream until the server stops, reading fails or, without `jobs`, all followed jobs have ended."""
    batch = _Batch()
    readers = [_read_job(engine, job, cursor, batch) for job, cursor in cursors.items()]
    if jobs:
        readers.append(_read_list(engine, batch))
    tasks = [asyncio.ensure_future(_succeeds(reader)) for reader in readers]
    shutdown = asyncio.ensure_future(closing.wait())
    for task in (*tasks, shutdown):
        task.add_done_callback(lambda _: batch.wake())
    try:
        while not shutdown.done() and not _failed(tasks):
            if lines := await batch.take():
                yield lines
            elif all(task.done() for task in tasks):
                return
    finally:
        for task in (*tasks, shutdown):
            task.cancel()
        await asyncio.gather(*tasks, shutdown, return_exceptions=True)


def _failed(tasks: Iterable[asyncio.Future[bool]]) -> bool:
    return any(task.done() and not task.cancelled() and not task.result() for task in tasks)


async def _succeeds(reader: Coroutine[object, object, None]) -> bool:
    """Run the reader. If it fails, return False: the stream then ends, and the client reconnects with its cursors."""
    try:
        await reader
    except Exception:
        log.exception("following jobs failed")
        return False
    return True


async def _read_job(engine: HasEvents, job: str, cursor: Cursor, batch: _Batch) -> None:
    try:
        async with aclosing(resumed(engine.events(job), cursor)) as events:
            async for position, event in events:
                await batch.put("job", {"job": job, "cursor": position, "event": event.to_json()})
    except NotFound:
        await batch.put("gone", {"job": job})


async def _read_list(engine: HasChanges, batch: _Batch) -> None:
    async with aclosing(engine.job_changes(NEWEST)) as reports:
        async for changes in reports:
            for job in changes.deleted:
                await batch.put("gone", {"job": job})
            if changes.jobs or not changes.deleted:
                await batch.put("jobs", {"jobs": [job.to_json() | job.outcome() for job in changes.jobs]})


class _Batch:
    """Messages that wait for the client. Readers pause when there are too many.

    Later events then wait in the engine, which joins a model's texts.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._news = asyncio.Event()
        self._taken = asyncio.Event()

    def wake(self) -> None:
        self._news.set()

    async def put(self, name: str, data: object) -> None:
        while self._size >= LARGEST_BATCH:
            self._taken.clear()
            await self._taken.wait()
        line = f"event: {name}\ndata: {dumps(data)}\n\n"
        self._lines.append(line)
        self._size += len(line)
        self._news.set()

    async def take(self) -> str:
        """Return the waiting messages; after a silence, a comment; after a wake-up without messages, ""."""
        try:
            async with asyncio.timeout(KEEPALIVE):
                await self._news.wait()
        except TimeoutError:
            return ": \n\n"
        self._news.clear()
        lines, self._lines, self._size = self._lines, [], 0
        self._taken.set()
        return "".join(lines)

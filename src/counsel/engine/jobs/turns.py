"""Turns of one conversation, one after another, in the order in which they were written down (SQLite's rowid).

A turn waits for every earlier unfinished job of its conversation, whoever owns it, until that job has ended. The job
of a dead process is taken over or given up first. Only a job that waits for keys may wait for days: a caller who is
there to hear it is told so after a minute instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Collection
from typing import TypeAlias

from counsel.engine.jobs import interrupted
from counsel.engine.jobs.running import Running
from counsel.engine.store.sqlite import jobs
from counsel.engine.store.sqlite.database import Database
from counsel.job_events import Wait

WaitsForKeys: TypeAlias = Callable[[sqlite3.Row], Wait | None]
_POLL = 0.1  # seconds between looks: another process ends its job without telling us
_LOOK = 1.0  # seconds between looks at who owns the job ahead
_PATIENCE = 60.0  # seconds that a caller waits behind a job that waits for keys


class Turns:
    def __init__(self, database: Database, orphaned: asyncio.Event, keyless: WaitsForKeys) -> None:
        """`orphaned` is set when the job of a dead process may be ahead; `keyless` says which keys one waits for."""
        self._database = database
        self._orphaned = orphaned
        self._keyless = keyless
        self._ends: dict[str, asyncio.Event] = {}  # by conversation: a job of this process has ended

    def ended(self, conversation: str) -> None:
        if event := self._ends.pop(conversation, None):
            event.set()

    async def wait(self, running: Running, over: Collection[str]) -> None:
        """Until no earlier job is left. `over`: jobs that have ended, and whose end could not be written yet."""
        job, told = running.job, ""
        looked, since = 0.0, None
        while ahead := [row for row in jobs.earlier(self._database, job) if row["id"] not in over]:
            first = ahead[0]
            if first["id"] != told:
                told, looked, since = first["id"], 0.0, None
                running.live.wait("", Wait("turn", _behind(first), job_id=first["id"]))
            now = time.monotonic()
            if now - looked > _LOOK:
                looked = now
                self._orphaned.set()
                since = (since or now) if self._keyless(first) else None
            if since and now - since > _PATIENCE and not job.background:
                raise interrupted.blocked(first, self._keyless(first))
            await self._next_end(job.conversation)

    async def _next_end(self, conversation: str) -> None:
        event = self._ends.setdefault(conversation, asyncio.Event())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL):
                await event.wait()


def _behind(row: sqlite3.Row) -> str:
    return f"its turn: job {row['id']} of this conversation comes first"

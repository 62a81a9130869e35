"""Turns of one conversation, one after another, in the order in which their jobs were submitted.

A turn waits until every earlier open job of its conversation has ended, in any process. The job of a dead
process is taken over or given up first. Only a job that waits for keys may wait for days: a caller who waits behind one
gets an error after a minute instead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Container
from typing import Any, TypeAlias

from counsel.engine.jobs import recovery
from counsel.engine.jobs.running import Running
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import JobRecord
from counsel.job_events import Wait

LacksKeys: TypeAlias = Callable[[JobRecord], Awaitable[Wait | None]]
_LOOK = 1.0  # seconds between looks at who owns the job ahead
KEYLESS = 60.0  # seconds that a caller waits behind a job that waits for keys


class Turns:
    def __init__(
        self, store: Store, running: Container[str], orphaned: asyncio.Event, lacks_keys: LacksKeys
    ) -> None:
        """`running`: the jobs of this process. `orphaned` is set when the job of a dead process may be ahead;
        `lacks_keys` says which keys one waits for.
        """
        self._store = store
        self._running = running
        self._orphaned = orphaned
        self._lacks_keys = lacks_keys
        self._ends: dict[str, asyncio.Event] = {}  # by conversation: a job of this process has ended

    def ended(self, conversation: str) -> None:
        if event := self._ends.pop(conversation, None):
            event.set()

    async def wait(self, running: Running, over: Collection[str]) -> None:
        """Until no earlier job is open. `over`: jobs that have ended, and whose end could not be written yet."""
        job, shown = running.job, ""
        looked, since, mark = 0.0, None, 0
        while ahead := [each for each in await self._store.earlier_jobs(job.id) if each.id not in over]:
            first = ahead[0]
            if first.id != shown:
                shown, looked, since = first.id, 0.0, None
                running.live.wait("", Wait("turn", recovery.behind(first), job_id=first.id))
                mark = self._store.mark(first.id)
                continue  # it may have ended before the mark
            now = time.monotonic()
            if now - looked >= _LOOK:
                looked = now
                self._orphaned.set()
                since = (since or now) if await self._lacks_keys(first) else None
            if since and now - since > KEYLESS and not job.background:
                raise recovery.blocked(first, await self._lacks_keys(first))
            await self._next_end(job.conversation, first.id, mark, looked + _LOOK - now)
            mark = self._store.mark(first.id)

    async def _next_end(self, conversation: str, first: str, mark: int, seconds: float) -> None:
        """Until a job of the conversation has ended here, or the first one may have changed in another process."""
        ended = asyncio.ensure_future(self._ends.setdefault(conversation, asyncio.Event()).wait())
        waits: set[asyncio.Future[Any]] = {ended}
        if first not in self._running:
            changed = asyncio.ensure_future(self._store.wait_for_change(first, mark, seconds))
            waits.add(changed)
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

"""Runs the turns of a conversation one after another, in the order in which their jobs were submitted.

A turn waits until every earlier open job of its conversation has ended, in any process. The job of a dead
process is continued or given up first. Only a job that waits for keys may wait for days: a caller behind such a job
gets an error after a minute.
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

MissingKeys: TypeAlias = Callable[[JobRecord], Awaitable[Wait | None]]
_CHECK_SECONDS = 1.0  # between checks of who owns the job ahead
KEYLESS_SECONDS = 60.0  # that a caller waits behind a job that waits for keys


class Turns:
    def __init__(
        self, store: Store, running: Container[str], orphan_event: asyncio.Event, missing_keys: MissingKeys
    ) -> None:
        """`running`: the jobs of this process. `orphan_event` is set when the job of a dead process may be ahead;
        `missing_keys` says which keys a job waits for.
        """
        self._store = store
        self._running = running
        self._orphan_event = orphan_event
        self._missing_keys = missing_keys
        self._ends: dict[str, asyncio.Event] = {}  # by conversation: a job of this process has ended

    def ended(self, conversation: str) -> None:
        if event := self._ends.pop(conversation, None):
            event.set()

    async def wait(self, running: Running, unsaved_jobs: Collection[str]) -> None:
        """Wait until no earlier job is open. `unsaved`: ended jobs whose end could not be written yet."""
        job, shown_id = running.job, ""
        checked_at, keyless_since, mark = 0.0, None, 0
        while ahead := [row for row in await self._store.earlier_jobs(job.id) if row.id not in unsaved_jobs]:
            first = ahead[0]
            if first.id != shown_id:
                shown_id, checked_at, keyless_since = first.id, 0.0, None
                running.live.wait("", Wait("turn", recovery.earlier_turn(first), job_id=first.id))
                mark = self._store.mark(first.id)
                continue  # it may have ended before the mark
            now = time.monotonic()
            if now - checked_at >= _CHECK_SECONDS:
                checked_at = now
                self._orphan_event.set()
                keyless_since = (keyless_since or now) if await self._missing_keys(first) else None
            if keyless_since and now - keyless_since > KEYLESS_SECONDS and not job.background:
                raise recovery.blocked_error(first, await self._missing_keys(first))
            await self._next_end(job.conversation, first.id, mark, checked_at + _CHECK_SECONDS - now)
            mark = self._store.mark(first.id)

    async def _next_end(self, conversation: str, first: str, mark: int, seconds: float) -> None:
        """Wait until a job of the conversation ends here, or the first one may have changed in another process."""
        end = asyncio.ensure_future(self._ends.setdefault(conversation, asyncio.Event()).wait())
        futures: set[asyncio.Future[Any]] = {end}
        if first not in self._running:
            change = asyncio.ensure_future(self._store.wait_for_change(first, mark, seconds))
            futures.add(change)
        try:
            await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in futures:
                future.cancel()

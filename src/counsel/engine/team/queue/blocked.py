"""Ends turns that wait in the queue behind a job which no living server can take: callers get an error after a minute.

A single person's engine does the same in `engine/jobs/turns.py`, where each waiting turn is a task. In a team no server
has taken such a turn yet, so the server that received it watches it.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from counsel.engine.jobs import recovery, turns
from counsel.engine.store.protocol import Queue, Store


class BlockedTurns:
    def __init__(self, store: Store, queue: Queue, recovery: recovery.Recovery) -> None:
        self._store = store
        self._queue = queue
        self._recovery = recovery
        self._since: dict[tuple[str, str], float] = {}  # by the turn and the job ahead of it

    async def end_overdue(self, jobs: Collection[str]) -> None:
        """End the jobs among these that have been blocked for too long."""
        now = time.monotonic()
        since: dict[tuple[str, str], float] = {}
        for job, first in await self._queue.turns_behind(jobs):
            ahead = await self._store.job(first)
            missing_keys = await self._recovery.missing_keys(ahead) if ahead else None
            if ahead is None or missing_keys is None:
                continue
            since[job, first] = began = self._since.get((job, first), now)
            record = await self._store.job(job) if now - began > turns.KEYLESS_SECONDS else None
            if record and record.is_open and not record.owner:
                await self._recovery.give_up(record, "failed", recovery.blocked_error(ahead, missing_keys))
        self._since = since

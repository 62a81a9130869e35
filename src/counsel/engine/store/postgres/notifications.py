"""Waiting for changes of jobs. A notification is a hint and may get lost; only reading is reliable.

One LISTEN connection per process, however many followers: idle listeners make every commit on the server slower.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

_MOST = 10_000  # jobs whose last change is stored; for all others an old mark counts as changed
_ANY = ""


class Changes:
    """A counter of changes; a mark is its value at some moment."""

    def __init__(self) -> None:
        self._count = 0
        self._last: OrderedDict[str, int] = OrderedDict()  # by job
        self._everything = 0  # the last time when any job may have changed
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def mark(self) -> int:
        return self._count

    def report(self, jobs: Iterable[str]) -> None:
        for job in jobs:
            if job == _ANY:
                self.report_all()
                continue
            self._count += 1
            self._last[job] = self._last[_ANY] = self._count
            self._last.move_to_end(job)
            self._last.move_to_end(_ANY)
            self._wake(job)
            self._wake(_ANY)
        while len(self._last) > _MOST:
            _, self._everything = self._last.popitem(last=False)

    def report_all(self) -> None:
        """Notifications may have been lost: wake everyone."""
        self._count += 1
        self._everything = self._count
        for job in list(self._waiting):
            self._wake(job)

    def has_changed(self, job: str, mark: int) -> bool:
        return max(self._last.get(job, 0), self._everything) > mark

    async def wait(self, job: str, mark: int, seconds: float) -> None:
        if self.has_changed(job, mark):
            return
        event = asyncio.Event()
        waiting = self._waiting.setdefault(job, set())
        waiting.add(event)
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            waiting.discard(event)
            if not waiting and self._waiting.get(job) is waiting:
                del self._waiting[job]

    def _wake(self, job: str) -> None:
        for event in self._waiting.get(job, ()):
            event.set()

"""Limits how many calls run at once, in total and per provider, and is fair between callers.

Callers get slots in turn, so a single call does not wait behind a hundred calls of another caller.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import field

from counsel.caller import Caller
from counsel.lazy_dataclass import dataclass
from counsel.text import counted


@dataclass(slots=True, eq=False)
class _Waiter:
    provider: str
    total: int
    share: int
    admitted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Limiter:
    def __init__(self) -> None:
        self.running: Counter[str] = Counter()  # by provider
        self.calls: Counter[tuple[str, str]] = Counter()  # by provider and model
        self._queues: OrderedDict[str, deque[_Waiter]] = OrderedDict()

    def slot(
        self, caller: Caller, provider: str, model: str = "", on_full: Callable[[str], None] | None = None
    ) -> _Slot:
        """For `async with` around one call. `on_full` is told what the call waits for, if it has to."""
        return _Slot(self, caller, provider, model, on_full)

    def leave(self, provider: str, model: str) -> None:
        self.calls[provider, model] -= 1
        self.running[provider] -= 1
        if self._queues:
            self._admit()

    def full(self, caller: Caller, provider: str) -> str:
        """What a call of this caller would have to wait for now; "" if nothing."""
        settings = caller.settings
        if self.running[provider] >= settings.max_concurrent_per_provider:
            return f"a free slot: {_running(self.running[provider], f' to {provider}')} (COUNSEL_MAX_CONCURRENT_PER_PROVIDER)"
        if self._queues or self.running.total() >= settings.max_concurrent:
            return f"a free slot: {_running(self.running.total())} (COUNSEL_MAX_CONCURRENT)"
        return ""

    async def wait(self, caller: Caller, provider: str) -> None:
        """Wait in the queue until the call is admitted and counted."""
        settings = caller.settings
        waiter = _Waiter(provider, settings.max_concurrent, settings.max_concurrent_per_provider)
        self._queues.setdefault(f"{caller.client} {caller.cwd}", deque()).append(waiter)
        self._admit()
        try:
            await waiter.admitted
        except asyncio.CancelledError:
            if waiter.admitted.done() and not waiter.admitted.cancelled():
                self.running[provider] -= 1
                self._admit()
            raise

    def _fits(self, waiter: _Waiter) -> bool:
        return self.running.total() < waiter.total and self.running[waiter.provider] < waiter.share

    def _admit(self) -> None:
        """Admit waiting calls, one per caller in each pass, until none fits."""
        progress = True
        while progress:
            progress = False
            for name in list(self._queues):
                progress |= self._admit_one(name)

    def _admit_one(self, name: str) -> bool:
        waiting = self._queues[name]
        for waiter in list(waiting):
            if waiter.admitted.cancelled():
                waiting.remove(waiter)
            elif self._fits(waiter):
                waiting.remove(waiter)
                self.running[waiter.provider] += 1
                waiter.admitted.set_result(None)
                self._queues.move_to_end(name)
                break
        else:
            if not waiting:
                del self._queues[name]
            return False
        if not waiting:
            del self._queues[name]
        return True


class _Slot:
    """One call's slot. A class, because `asynccontextmanager` costs a generator and four more function calls."""

    __slots__ = ("_caller", "_limiter", "_model", "_on_full", "_provider")

    def __init__(
        self,
        limiter: Limiter,
        caller: Caller,
        provider: str,
        model: str,
        on_full: Callable[[str], None] | None,
    ) -> None:
        self._limiter, self._caller, self._provider, self._model = limiter, caller, provider, model
        self._on_full = on_full

    async def __aenter__(self) -> None:
        limiter, provider = self._limiter, self._provider
        if reason := limiter.full(self._caller, provider):
            if self._on_full is not None:
                self._on_full(reason)
            await limiter.wait(self._caller, provider)
        else:
            limiter.running[provider] += 1
        limiter.calls[provider, self._model] += 1

    async def __aexit__(self, *_: object) -> None:
        self._limiter.leave(self._provider, self._model)


def _running(count: int, to: str = "") -> str:
    return f"{counted(count, 'call')}{to} {'is' if count == 1 else 'are'} running"

"""The four time limits of a call, and the words for each when it has passed."""

from __future__ import annotations

import asyncio
from types import TracebackType

from counsel.errors import TimedOut
from counsel.types import Endpoint, Limits


class Clock:
    """When a call, and this try of it, must have done what."""

    def __init__(self, limits: Limits, ends: float, endpoint: Endpoint) -> None:
        self.limits, self.ends, self.endpoint = limits, ends, endpoint
        self.first_by = asyncio.get_running_loop().time() + limits.first_event

    def first(self) -> Until:
        return self.until("first_event", self.first_by)

    def idle(self) -> Until:
        return self.until("idle", asyncio.get_running_loop().time() + self.limits.idle)

    def until(self, name: str, when: float) -> Until:
        return Until(self, "total", self.ends) if self.ends <= when else Until(self, name, when)

    def passed(self, name: str) -> TimedOut:
        label, seconds = self.endpoint.provider.label, getattr(self.limits, name)
        words = {
            "connect": f"{label} could not be reached within {seconds:g} s.",
            "first_event": f"{label} did not begin to answer within {seconds:g} s.",
            "idle": f"{label} fell silent for {seconds:g} s in the middle of its answer.",
            "total": f"{label} did not finish within {seconds:g} s.",
        }[name]
        return TimedOut(words, hint=_LIMIT_HINTS[name], provider=self.endpoint.provider.name, limit=name)


_LIMIT_HINTS = {
    "connect": "Check the network and the base URL, or raise COUNSEL_CONNECT_TIMEOUT_MS.",
    "first_event": "Try again, ask for less effort, or raise COUNSEL_FIRST_EVENT_TIMEOUT_MS.",
    "idle": "Try again, or raise COUNSEL_IDLE_TIMEOUT_MS.",
    "total": "Ask in the background, ask for less effort, or raise REQUEST_TIMEOUT_MS.",
}


class Until:
    """`asyncio.timeout_at` that says which limit it was."""

    __slots__ = ("_clock", "_name", "_timeout", "_when")

    def __init__(self, clock: Clock, name: str, when: float) -> None:
        self._clock, self._name, self._when = clock, name, when
        self._timeout = asyncio.timeout_at(when)

    async def __aenter__(self) -> None:
        """A timer only goes off where a task waits: against data that is always there, the clock is read."""
        if asyncio.get_running_loop().time() >= self._when:
            raise self._clock.passed(self._name)
        await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise self._clock.passed(self._name) from None

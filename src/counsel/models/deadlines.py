"""The four time limits of a call, and the words for each when it has passed."""

from __future__ import annotations

import asyncio

from counsel.errors import TimedOut
from counsel.types import Endpoint, Limits


class Deadlines:
    """When a call, and this try of it, must have done what."""

    def __init__(self, limits: Limits, ends: float, endpoint: Endpoint) -> None:
        self.limits, self.ends, self.endpoint = limits, ends, endpoint
        self.first_by = asyncio.get_running_loop().time() + limits.first_event

    def first(self) -> tuple[str, float]:
        """The limit's name, and the moment when it has passed."""
        return self._sooner("first_event", self.first_by)

    def idle(self) -> tuple[str, float]:
        return self._sooner("idle", asyncio.get_running_loop().time() + self.limits.idle)

    def _sooner(self, name: str, when: float) -> tuple[str, float]:
        return ("total", self.ends) if self.ends <= when else (name, when)

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

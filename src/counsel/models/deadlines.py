"""The four time limits of a call, and the error for each.

Times are the event loop's, which is `time.monotonic`: asking the loop for it takes a system call in Python 3.11.
"""

from __future__ import annotations

import time

from counsel.errors import TimedOut
from counsel.types import Endpoint, Limits


class Deadlines:
    """The deadlines of a call and of one of its attempts, by the event loop's clock."""

    def __init__(self, limits: Limits, ends: float, endpoint: Endpoint) -> None:
        self.limits, self.ends, self.endpoint = limits, ends, endpoint
        self.first_by = time.monotonic() + limits.first_event

    def first(self) -> tuple[str, float]:
        """The name of the limit for the first event, and its deadline."""
        return self._earlier("first_event", self.first_by)

    def idle(self) -> tuple[str, float]:
        return self._earlier("idle", time.monotonic() + self.limits.idle)

    def _earlier(self, name: str, deadline: float) -> tuple[str, float]:
        return ("total", self.ends) if self.ends <= deadline else (name, deadline)

    def error(self, name: str) -> TimedOut:
        label, seconds = self.endpoint.provider.label, getattr(self.limits, name)
        message = {
            "connect": f"{label} did not accept a connection within {seconds:g} s.",
            "first_event": f"{label} did not start answering within {seconds:g} s.",
            "idle": f"{label} sent nothing for {seconds:g} s in the middle of its answer.",
            "total": f"{label} did not finish within {seconds:g} s.",
        }[name]
        return TimedOut(message, hint=_LIMIT_HINTS[name], provider=self.endpoint.provider.name, limit=name)


_LIMIT_HINTS = {
    "connect": "Check the network and the base URL, or raise COUNSEL_CONNECT_TIMEOUT_MS.",
    "first_event": "Try again, ask with less effort, or raise COUNSEL_FIRST_EVENT_TIMEOUT_MS.",
    "idle": "Try again, or raise COUNSEL_IDLE_TIMEOUT_MS.",
    "total": "Ask with less effort, or raise REQUEST_TIMEOUT_MS.",
}

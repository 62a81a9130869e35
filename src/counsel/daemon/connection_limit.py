"""How many connections a listener holds, and which one goes when there are too many.

Every connection is a file descriptor, and a process that has none left can neither accept nor start an agent.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from typing import Any, Generic, TypeVar

log = logging.getLogger("counsel.daemon")

MOST_CONNECTIONS = 1_000  # COUNSEL_MAX_CONNECTIONS for HTTP
_KEPT_FREE = 64  # descriptors for files, agents and providers
_SAY_EVERY = 60.0  # seconds between two words in the log about connections that cannot be accepted

Peer = TypeVar("Peer")


def most_connections(wanted: int = MOST_CONNECTIONS) -> int:
    """No more than leaves descriptors for the work itself: macOS gives a process 256."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(8, min(wanted, (soft - _KEPT_FREE) // 2))


class PendingConnections(Generic[Peer]):
    """Connections that have not said yet what they want, oldest first: they make room for new ones."""

    def __init__(self) -> None:
        self._since: dict[Peer, float] = {}

    def add(self, peer: Peer) -> None:
        self._since.pop(peer, None)
        self._since[peer] = time.monotonic()

    def discard(self, peer: Peer) -> None:
        self._since.pop(peer, None)

    def oldest(self) -> Peer | None:
        return next(iter(self._since), None)

    def overdue(self, seconds: float) -> list[Peer]:
        limit = time.monotonic() - seconds
        return [peer for peer, since in self._since.items() if since < limit]


def say_little_about_accepting(loop: asyncio.AbstractEventLoop) -> None:
    """asyncio tries again a second after accept failed, and up to 3.13 logs one traceback per place in the backlog."""
    said = 0.0

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal said
        if "accept" not in context.get("message", ""):
            loop.default_exception_handler(context)
        elif time.monotonic() - said > _SAY_EVERY or not said:
            said = time.monotonic()
            log.warning("connections cannot be accepted now: %s", context.get("exception"))

    loop.set_exception_handler(handle)

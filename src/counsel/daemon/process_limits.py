"""Limits of a process that serves clients: core files, open files, connections.

Every connection is a file descriptor, and a process without free descriptors can neither accept nor start an agent.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from typing import Any, Generic, TypeVar

log = logging.getLogger("counsel.daemon")

MOST_CONNECTIONS = 1_000  # COUNSEL_MAX_CONNECTIONS for HTTP
_OPEN_FILES = 8_192
_RESERVED = 64  # descriptors for files, agents and providers
_WARN_EVERY = 60.0  # seconds between two log lines about connections that cannot be accepted

Peer = TypeVar("Peer")


def prepare_process() -> None:
    """For a process that holds callers' keys: write no core file, and open as many files as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if (
        soft != resource.RLIM_INFINITY and soft < wanted
    ):  # macOS allows 256, and each running agent takes three
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections(wanted: int = MOST_CONNECTIONS) -> int:
    """At most so many that descriptors remain for the work itself: macOS gives a process 256."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(8, min(wanted, (soft - _RESERVED) // 2))


class PendingConnections(Generic[Peer]):
    """Connections that have not sent a request yet, oldest first: they make room for new ones."""

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


def limit_accept_warnings(loop: asyncio.AbstractEventLoop) -> None:
    """asyncio retries a second after accept failed, and up to 3.13 logs one traceback per place in the backlog."""
    last_warning = 0.0

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal last_warning
        if "accept" not in context.get("message", ""):
            loop.default_exception_handler(context)
        elif time.monotonic() - last_warning > _WARN_EVERY or not last_warning:
            last_warning = time.monotonic()
            log.warning("cannot accept connections: %s", context.get("exception"))

    loop.set_exception_handler(handle)

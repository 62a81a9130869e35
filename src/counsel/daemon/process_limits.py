"""Limits of a process that serves clients: core files, open files, connections.

Every connection needs a file descriptor. Without free descriptors a process can neither accept connections nor start
agents.
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
    """Prepare a process that holds callers' keys: no core files, and as many open files as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    # macOS allows 256, and each running agent takes three
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def most_connections(most: int = MOST_CONNECTIONS) -> int:
    """A limit that leaves descriptors for the work itself: macOS gives a process 256."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return most
    return max(8, min(most, (soft - _RESERVED) // 2))


class PendingConnections(Generic[Peer]):
    """Connections that have not sent a request yet, oldest first. They are closed when new ones need room."""

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
    """Log at most one warning a minute.

    After a failed accept, asyncio reports each of up to 512 entries of the backlog. A second later it starts to listen
    again as often, which fails for each of them if the server was closed in the meantime: a process whose stderr nobody
    read could not end.
    """
    last_warning = 0.0

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal last_warning
        message = context.get("message", "")
        if "._start_serving(" in message and isinstance(context.get("exception"), ValueError):
            return  # the socket is closed
        if "accept" not in message:
            loop.default_exception_handler(context)
        elif time.monotonic() - last_warning > _WARN_EVERY or not last_warning:
            last_warning = time.monotonic()
            log.warning("cannot accept connections: %s", context.get("exception"))

    loop.set_exception_handler(handle)

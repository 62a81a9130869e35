"""Limits of a process that serves clients: core files, open files, connections."""

from __future__ import annotations

import resource

MOST_CONNECTIONS = 1_000  # COUNSEL_MAX_CONNECTIONS for HTTP
_OPEN_FILES = 8_192
_RESERVED = 64  # descriptors for files, agents and providers


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

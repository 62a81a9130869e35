"""The time limit that a client's own config files give to the entry that starts counsel.

Read once per session, in the daemon, on a thread: the client reads its files when it starts, too. A file that cannot be
read gives no limit. What a project's file says may shorten the limit only: anybody may have written it. The same holds for
what the client's command line says (`client_argv.py`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from counsel.agents import self_entry
from counsel.agents.definitions import workspace_of
from counsel.configfiles.write.safewrite import Reader
from counsel.mcp import client_argv
from counsel.mcp.client_timeouts import Configured, Transport
from counsel.servers.formats import FORMATS
from counsel.servers.listing import ListedServer, listing

log = logging.getLogger("counsel.mcp")

_PROJECT = frozenset({"project", "plugin"})


def configured(
    agent: str, env: Mapping[str, str], project: Path, transport: Transport, front: int | None = None
) -> Configured:
    """`front`: the process that the client started, if it did."""
    if agent not in FORMATS or not env.get("HOME"):
        return Configured()
    try:
        named = client_argv.limit(agent, front) if front else None
        found = listing(workspace_of(env, project), Reader(), (agent,)).servers
    except Exception:  # a client's files are never a reason to refuse its call
        log.exception("the limits in %s's files could not be read", agent)
        return Configured()
    ours = [row for row in found if row.server.enabled and _is_ours(row, transport)]
    return Configured(
        _smallest(_timeouts(row for row in ours if row.scope not in _PROJECT and row.shadowed_by != "local")),
        _smallest([*_timeouts(row for row in ours if row.scope in _PROJECT), named]),
    )


def _is_ours(row: ListedServer, transport: Transport) -> bool:
    if transport == "stdio":
        return self_entry.is_ours(row.server)
    return row.server.transport != "stdio" and row.server.name == self_entry.NAME


def _timeouts(rows: Iterable[ListedServer]) -> list[float | None]:
    return [row.server.timeout for row in rows]


def _smallest(seconds: Iterable[float | None]) -> float | None:
    return min((float(one) for one in seconds if one and 0 < one < math.inf), default=None)

"""The time limit that a client's own config files set for the entry that starts counsel.

Read once per session, in a thread of the daemon, since the client also reads its files only when it starts. An
unreadable file sets no limit. A project's file, which anyone may have written, and the client's command line
(`client_argv.py`) can only shorten the limit.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from counsel.agents import self_entry
from counsel.agents.definitions import workspace_of
from counsel.configfiles.write.safewrite import Reader
from counsel.mcp import client_argv, client_timeouts
from counsel.mcp.client_timeouts import Configured, Transport
from counsel.servers.formats import FORMATS
from counsel.servers.listing import ListedServer, listing

log = logging.getLogger("counsel.mcp")

_PROJECT = frozenset({"project", "plugin"})


def configured(
    agent: str, env: Mapping[str, str], project: Path, transport: Transport, front: int | None = None
) -> Configured:
    """The limits in the agent's files. `front`: the process that the client started, if any."""
    if agent not in FORMATS or not env.get("HOME"):
        return Configured()
    try:
        from_argv = client_argv.limit(agent, front) if front else None
        rows = listing(workspace_of(env, project), Reader(), (agent,)).servers
    except Exception:  # a client's files are never a reason to refuse its call
        log.exception("cannot read the time limits in %s's files", agent)
        return Configured()
    ours = [row for row in rows if row.server.enabled and _is_ours(row, transport)]
    return Configured(
        _smallest(_timeouts(row for row in ours if row.scope not in _PROJECT and row.shadowed_by != "local")),
        _smallest([*_timeouts(row for row in ours if row.scope in _PROJECT), from_argv]),
    )


def _is_ours(row: ListedServer, transport: Transport) -> bool:
    if transport == "stdio":
        return self_entry.is_ours(row.server)
    return row.server.transport != "stdio" and row.server.name == self_entry.NAME


def _timeouts(rows: Iterable[ListedServer]) -> list[float | None]:
    limits = [(row.agent, row.server.timeout) for row in rows]
    return [seconds for agent, seconds in limits if client_timeouts.applies_limit(agent, seconds)]


def _smallest(seconds: Iterable[float | None]) -> float | None:
    return min((float(limit) for limit in seconds if limit and 0 < limit < math.inf), default=None)

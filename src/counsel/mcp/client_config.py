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
from counsel.agents.definitions import Workspace, workspace_of
from counsel.configfiles.write.safewrite import Reader
from counsel.mcp import client_argv, client_timeouts
from counsel.mcp.client_timeouts import Configured, Transport
from counsel.servers.codex_layers import weakest_first
from counsel.servers.formats import FORMATS, tables
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
        workspace, reader = workspace_of(env, project), Reader()
        rows = listing(workspace, reader, (agent,)).servers
        general = _of_all_servers(agent, workspace, reader)
    except Exception:  # a client's files are never a reason to refuse its call
        log.exception("cannot read the time limits in %s's files", agent)
        return Configured()
    ours = [row for row in rows if row.server.enabled and _is_ours(row, transport)]
    if ours and all(row.server.timeout for row in ours):
        general = Configured()
    trusted = _timeouts(row for row in ours if row.scope not in _PROJECT and row.shadowed_by != "local")
    of_project = _timeouts(row for row in ours if row.scope in _PROJECT)
    return Configured(
        _smallest([*trusted, general.trusted]), _smallest([*of_project, general.project, from_argv])
    )


def _of_all_servers(agent: str, workspace: Workspace, reader: Reader) -> Configured:
    """The limits for calls to all servers that have none of their own: of the user's files the strongest one's."""
    fmt = FORMATS[agent]
    places = weakest_first(fmt, [*tables(fmt, workspace), *fmt.others(workspace, reader)])
    limits: dict[bool, list[float]] = {True: [], False: []}
    for table in places:
        document = reader.read_quietly(table.target)
        if document is not None and (seconds := fmt.call_limit(document)):
            limits[table.scope in _PROJECT].append(seconds)
    return Configured(next(reversed(limits[False]), None), _smallest(limits[True]))


def _is_ours(row: ListedServer, transport: Transport) -> bool:
    if transport == "stdio":
        return self_entry.is_ours(row.server)
    return row.server.transport != "stdio" and row.server.name == self_entry.NAME


def _timeouts(rows: Iterable[ListedServer]) -> list[float | None]:
    limits = [(row.agent, row.server.timeout) for row in rows]
    return [seconds for agent, seconds in limits if client_timeouts.applies_limit(agent, seconds)]


def _smallest(seconds: Iterable[float | None]) -> float | None:
    return min((float(limit) for limit in seconds if limit and 0 < limit < math.inf), default=None)

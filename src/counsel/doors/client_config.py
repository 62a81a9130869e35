"""The time limit that a client's own config files give to the entry that starts counsel.

Read once per session, in the daemon, on a thread: the client reads its files when it starts, too. A file that cannot be
read gives no limit. What a project's file says may shorten the limit only: anybody may have written it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from counsel.agents.base import place
from counsel.configfiles.safewrite import Reader
from counsel.doors.limits import Configured, Transport
from counsel.servers import own
from counsel.servers.formats import FORMATS
from counsel.servers.listing import Found, listing

log = logging.getLogger("counsel.doors")

_PROJECT = frozenset({"project", "plugin"})


def configured(agent: str, env: Mapping[str, str], project: Path, transport: Transport) -> Configured:
    if agent not in FORMATS or not env.get("HOME"):
        return Configured()
    try:
        found = listing(place(env, project), Reader(), (agent,)).servers
    except Exception:  # a client's files are never a reason to refuse its call
        log.exception("the limits in %s's files could not be read", agent)
        return Configured()
    ours = [row for row in found if row.server.enabled and _is_ours(row, transport)]
    return Configured(
        _smallest(row for row in ours if row.scope not in _PROJECT and row.shadowed_by != "local"),
        _smallest(row for row in ours if row.scope in _PROJECT),
    )


def _is_ours(row: Found, transport: Transport) -> bool:
    if transport == "stdio":
        return own.is_ours(row.server)
    return row.server.transport != "stdio" and row.server.name == own.NAME


def _smallest(rows: Iterable[Found]) -> float | None:
    given = (row.server.timeout for row in rows)
    return min((float(one) for one in given if one and 0 < one < math.inf), default=None)

"""Where each agent can have servers, and which fields it does not support, for the console's choices."""

from __future__ import annotations

from counsel.agents.definitions import WITH_SERVERS, Workspace
from counsel.agents.server_format import TRANSPORTS
from counsel.servers.formats import FORMATS, is_present, tables


def targets(workspace: Workspace) -> list[dict[str, object]]:
    return [_target(name, workspace) for name in WITH_SERVERS]


def _target(agent: str, workspace: Workspace) -> dict[str, object]:
    fmt = FORMATS[agent]
    return {
        "name": agent,
        "label": WITH_SERVERS[agent].label,
        "scopes": [
            {
                "scope": table.scope,
                "path": str(table.target.path),
                "present": is_present(agent, workspace, table.scope),
            }
            for table in tables(fmt, workspace)
        ],
        "transports": [transport for transport in TRANSPORTS if transport in fmt.transports],
        "lacks": dict(fmt.unsupported),
        "no_switch": fmt.no_switch or None,
        "names": fmt.names_text,
    }

"""Refuses what would use a team server's machine: its files, programs and MCP servers belong to its operator."""

from __future__ import annotations

from counsel import paths
from counsel.caller import Caller
from counsel.errors import NotPermitted
from counsel.requests import Request, ReviewRequest

_OWN = "`counsel` on your own machine can do this: `counsel login` connects it to this server."


def check(request: Request) -> None:
    """Refuse a request that would read, write or start something on the server. Files are checked when opened."""
    if request.export:
        raise NotPermitted(
            "A team's server does not export to folders.", hint="Export the conversation as a ZIP file."
        )
    if request.tools:
        raise NotPermitted("People of a team cannot use the server's own MCP servers.", hint=_OWN)
    if isinstance(request, ReviewRequest) and request.root:
        raise NotPermitted("A team's server does not read its own repositories.", hint="Send only the diff.")


def check_agent(agent: str, caller: Caller) -> None:
    """Refuse an agent, which would run as the server's user, unless COUNSEL_TEAM_AGENTS allows it."""
    if caller.person is None:
        return
    if caller.settings.team_agents:
        paths.private_folder(caller.cwd)  # the agent works in a folder of the person's own
    else:
        raise NotPermitted(
            f"{agent} does not run on a team's server.",
            hint=f"{_OWN} Whoever runs the server can allow agents with COUNSEL_TEAM_AGENTS.",
        )

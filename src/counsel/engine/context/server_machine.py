"""A team's server belongs to whoever runs it: its files, folders, programs and MCP servers are not the team's."""

from __future__ import annotations

from counsel import paths
from counsel.caller import Caller
from counsel.errors import NotPermitted
from counsel.requests import Request, ReviewRequest

_OWN = "On your own machine `counsel` can do it: `counsel login` connects it to this server."


def check(request: Request) -> None:
    """Refuse what would read, write or start something on the server. Files are checked when they are opened."""
    if request.export:
        raise NotPermitted(
            "A team's server writes no folders.", hint="Export the conversation as a ZIP file."
        )
    if request.tools:
        raise NotPermitted("MCP servers of a team's server are not for its people.", hint=_OWN)
    if isinstance(request, ReviewRequest) and request.root:
        raise NotPermitted("A team's server reads no repository of its own.", hint="Send the diff only.")


def check_agent(agent: str, caller: Caller) -> None:
    """Agents run on the server, as its user."""
    if caller.person is None:
        return
    if caller.settings.team_agents:
        paths.private_folder(caller.cwd)  # where the agent works: a folder of the person's own
    else:
        raise NotPermitted(
            f"{agent} does not run on a team's server.",
            hint=f"{_OWN} Whoever runs the server can allow agents with COUNSEL_TEAM_AGENTS.",
        )

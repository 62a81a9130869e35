"""The agents' formats, as a table."""

from __future__ import annotations

import os

from counsel.agents.base import AGENTS, AgentName, Place
from counsel.agents.claude.servers import FORMAT as CLAUDE
from counsel.agents.codex.servers import FORMAT as CODEX
from counsel.agents.cursor.servers import FORMAT as CURSOR
from counsel.agents.gemini.servers import FORMAT as GEMINI
from counsel.agents.serverform import Format, Home
from counsel.errors import InvalidArgument

FORMATS: dict[AgentName, Format] = {one.agent: one for one in (CLAUDE, CODEX, GEMINI, CURSOR)}


def homes(form: Format, place: Place) -> list[Home]:
    """Where the user's servers are kept. In the home folder a project's file can be the user's own: it counts once."""
    found: dict[tuple[str, tuple[str, ...]], Home] = {}
    for home in form.homes(place):
        found.setdefault((os.path.realpath(home.target.path), home.keys), home)
    return list(found.values())


def format_of(agent: str) -> Format:
    for name, found in FORMATS.items():
        if name == agent:
            return found
    raise InvalidArgument(f"There is no agent {agent!r}.", hint=f"Agents: {', '.join(AGENTS)}.")

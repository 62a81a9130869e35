"""The agents' formats, as a table."""

from __future__ import annotations

from counsel.agents.base import AGENTS, AgentName
from counsel.agents.claude.servers import FORMAT as CLAUDE
from counsel.agents.codex.servers import FORMAT as CODEX
from counsel.agents.cursor.servers import FORMAT as CURSOR
from counsel.agents.gemini.servers import FORMAT as GEMINI
from counsel.agents.serverform import Format
from counsel.errors import InvalidArgument

FORMATS: dict[AgentName, Format] = {one.agent: one for one in (CLAUDE, CODEX, GEMINI, CURSOR)}


def format_of(agent: str) -> Format:
    for name, found in FORMATS.items():
        if name == agent:
            return found
    raise InvalidArgument(f"There is no agent {agent!r}.", hint=f"Agents: {', '.join(AGENTS)}.")

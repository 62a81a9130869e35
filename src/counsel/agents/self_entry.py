"""counsel's own entry among an agent's servers."""

from pathlib import Path

from counsel.agents.server_format import Server

NAME = "counsel"
# What `counsel setup` writes differently for each agent: who is calling, and what that agent does not hand on by itself.
BY_AGENT = frozenset({"args", "env"})


def is_ours(server: Server) -> bool:
    """Whether an entry starts this program, whoever wrote it."""
    starts = Path(server.command).name == NAME or NAME in server.args
    return server.transport == "stdio" and starts and "stdio" in server.args

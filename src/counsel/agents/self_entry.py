"""counsel's own entry among an agent's servers: what counts as one."""

from __future__ import annotations

from pathlib import PurePath

from counsel.agents.server_format import Server

NAME = "counsel"
# What `counsel setup` writes differently for each agent: who is calling, and what that agent does not hand on by itself.
BY_AGENT = frozenset({"args", "env"})


def is_ours(server: Server) -> bool:
    """Whether an entry starts this program, under any name."""
    return server.transport == "stdio" and _starts_counsel(server.command, server.args)


def is_isolated(command: object, args: object) -> bool:
    """Whether an unparsed entry starts this program and imports nothing from the folder where it starts.

    That takes an absolute path: of counsel's script, or of a Python that is started with -P.
    """
    if not isinstance(command, str) or not isinstance(args, list) or not command.startswith("/"):
        return False
    return _starts_counsel(command, args) and (_is_script(command) or "-P" in args)


def _starts_counsel(command: str, args: list[str] | tuple[str, ...]) -> bool:
    """`counsel stdio …` or `python -m counsel stdio …`."""
    return "stdio" in args and (_is_script(command) or NAME in args)


def _is_script(command: str) -> bool:
    return PurePath(command).name == NAME

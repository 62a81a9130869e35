"""How to recognise counsel's own entry among an agent's servers."""

from __future__ import annotations

from pathlib import PurePath

from counsel.agents.server_format import Server

NAME = "counsel"
# The fields that `counsel setup` writes differently for each agent: its name, and variables that it does not pass on.
BY_AGENT = frozenset({"args", "env"})


def is_ours(server: Server) -> bool:
    """Whether an entry starts this program, under any name."""
    return server.transport == "stdio" and _starts_counsel(server.command, server.args)


def is_isolated(command: object, args: object) -> bool:
    """Whether an unparsed entry starts this program and imports nothing from the folder where it starts.

    It must have an absolute path, either of counsel's script or of a Python that is started with -P.
    """
    if not isinstance(command, str) or not isinstance(args, list) or not command.startswith("/"):
        return False
    return _starts_counsel(command, args) and (_is_script(command) or "-P" in args)


def _starts_counsel(command: str, args: list[str] | tuple[str, ...]) -> bool:
    """`counsel stdio …` or `python -m counsel stdio …`."""
    return "stdio" in args and (_is_script(command) or NAME in args)


def _is_script(command: str) -> bool:
    return PurePath(command).name == NAME

"""The agents' server formats by name, each imported at first use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import cast

from counsel.agents.definitions import WITH_SERVERS, Workspace, locate
from counsel.agents.server_format import ServerFormat, ServerTable
from counsel.errors import InvalidArgument
from counsel.paths import exists


class _Formats(Mapping[str, ServerFormat]):
    def __getitem__(self, name: str) -> ServerFormat:
        row = WITH_SERVERS[name]
        return cast(ServerFormat, import_module(f"counsel.agents.{row.name}.servers").FORMAT)

    def __iter__(self) -> Iterator[str]:
        return iter(WITH_SERVERS)

    def __len__(self) -> int:
        return len(WITH_SERVERS)


FORMATS: Mapping[str, ServerFormat] = _Formats()


def tables(fmt: ServerFormat, workspace: Workspace) -> list[ServerTable]:
    """The agent's tables of servers. In the home folder a project's file can be the user's own; it is listed once."""
    unique: dict[tuple[str, tuple[str, ...]], ServerTable] = {}
    for table in fmt.tables(workspace):
        unique.setdefault((os.path.realpath(table.target.path), table.keys), table)
    return list(unique.values())


def format_of(agent: str) -> ServerFormat:
    if agent in WITH_SERVERS:
        return FORMATS[agent]
    raise InvalidArgument(f"There is no agent {agent!r}.", hint=f"Agents: {', '.join(WITH_SERVERS)}.")


def is_present(agent: str, workspace: Workspace, scope: str = "user") -> bool:
    """Whether a client is installed or was used here: its program is on PATH, or its own folder or file exists."""
    if locate(WITH_SERVERS[agent], workspace.env) is not None:
        return True
    fmt = FORMATS[agent]
    return any(exists(path) for path in (*fmt.signs(workspace), *_own_paths(fmt, workspace, scope)))


def _own_paths(fmt: ServerFormat, workspace: Workspace, scope: str) -> Iterator[Path]:
    """The client's files of the user scope and of this scope, and the user file's folder (except the home folder)."""
    for table in fmt.tables(workspace):
        if table.scope in ("user", scope):
            yield table.target.path
        if table.scope == "user" and table.target.path.parent != workspace.home:
            yield table.target.path.parent

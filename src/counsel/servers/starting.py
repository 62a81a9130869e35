"""Where a server is started, and with which variables.

An agent starts its servers in the folder that it works in. There `python3 -m x` imports the folder's `x.py` and
`npx -y x` runs what its `node_modules` has: in a folder that the user does not trust, servers are started elsewhere.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from counsel import untrusted
from counsel.agents import trust
from counsel.agents.definitions import AGENTS, Workspace
from counsel.agents.references import REFERENCE, plain
from counsel.agents.server_format import Server, translated
from counsel.errors import InvalidArgument
from counsel.records import Record
from counsel.servers import secrets
from counsel.servers.listing import ListedServer

HOW_TO_TRUST = "start Claude Code, Codex or Gemini CLI there once and answer its question"


class Start(Record):
    """A server as it is started or called."""

    server: Server  # its references and its token are filled in
    unset: list[str]  # variables that it refers to and nobody has set
    agent: str
    folder: Path
    env: Mapping[str, str]
    trusted: bool

    def __repr__(self) -> str:  # no variables: they may be secrets
        return f"Start({self.server}, {self.folder})"


def start(found: ListedServer, workspace: Workspace, *, trust_folder: bool = False) -> Start:
    """Raises `InvalidArgument` for an entry that means a file of a folder that nobody trusts."""
    if found.server.transport != "stdio":
        return Start(
            *expanded(found.server, workspace.env),
            found.agent,
            workspace.project,
            workspace.env,
            trusted=True,
        )
    if trust_folder or trust.trusted(workspace):
        env = untrusted.absolute_paths(workspace.env)
        server, unset = expanded(found.server, env)
        return Start(
            server, unset, found.agent, workspace.project / _folder(server, workspace), env, trusted=True
        )
    empty = untrusted.empty_folder(workspace.env)
    env = untrusted.elsewhere(workspace.env, empty)
    known = found.server
    if found.scope == "plugin":  # the listing has filled in ${CLAUDE_PROJECT_DIR}
        known = translated(known, lambda text: text.replace(str(workspace.project), empty))
    server, unset = expanded(known, env)
    _refuse_relative(server, found, workspace)
    return Start(server, unset, found.agent, Path(empty) / _folder(server, workspace), env, trusted=False)


def _folder(server: Server, workspace: Workspace) -> str:
    """The entry's own working folder. `~` is the caller's, not the daemon's."""
    cwd = server.cwd or ""
    return str(workspace.home / cwd[2:]) if cwd == "~" or cwd.startswith("~/") else cwd


def _refuse_relative(server: Server, found: ListedServer, workspace: Workspace) -> None:
    """Its agent would take such a path for one of the folder's: it is not looked for elsewhere instead."""
    command = server.command if "/" in server.command else ""
    for field, value in (("command", command), ("cwd", server.cwd or "")):
        if value and not value.startswith(("/", "~/")) and value != "~":
            raise InvalidArgument(
                f"{server.name} ({AGENTS[found.agent].label}, {found.scope}) was not started: its {field} {value!r} "
                f"means something in {workspace.project}, which no agent was told to trust.",
                hint=f"Write an absolute path in {found.table.target.path}, or trust the folder: {HOW_TO_TRUST}.",
                server=server.name,
            )


def expanded(server: Server, env: Mapping[str, str]) -> tuple[Server, list[str]]:
    """The server with its references and its token filled in, and the variables that have no value: these stay as they are.

    Whatever it is sent is then among its values, and taken out of the words that come back.
    """
    unset: dict[str, None] = {}

    def fill(text: str) -> str:
        def value(hit: Any) -> str:
            known = env.get(hit[1]) or hit[2]
            if known is None:
                unset[hit[1]] = None
                return str(hit[0])
            return str(known)

        return plain(REFERENCE.sub(value, text))

    filled = translated(server, fill)
    if server.token_env and (token := env.get(server.token_env)):
        headers = {**filled.headers, "Authorization": f"Bearer {token}"}
        filled = filled.replaced(headers=headers, token_env=None)
    elif server.token_env:
        unset[server.token_env] = None
    return filled, list(unset)


def brought(found: ListedServer, workspace: Workspace) -> bool:
    """Whether a server stands in a file of the folder, which comes with a repository, and not in the user's own."""
    if found.scope == "project" or found.table.by_project:
        return True
    return trust.moved_inside(found.agent, workspace)


def may_start(found: ListedServer, workspace: Workspace) -> bool:
    """A server that a folder brought: whether the user trusts that folder, and the one that it would work in."""
    file = found.table.target.path
    above = file.parent if file.name == ".mcp.json" else file.parent.parent
    return trust.trusted(workspace) and (found.scope != "project" or trust.trusted(workspace, above))


def not_trusted(rows: list[ListedServer], workspace: Workspace) -> InvalidArgument:
    """What would be started, where it is written, and how to allow it."""
    first = rows[0]
    would = "; ".join(f"{row.server.name} ({AGENTS[row.agent].label}): {_runs(row.server)}" for row in rows)
    files = ", ".join(dict.fromkeys(str(row.table.target.path) for row in rows))
    return InvalidArgument(
        f"{workspace.project} brought this server and no agent was told to trust that folder, so nothing was started. "
        f"It would be {would}.",
        hint=f"Read {files} first. --trust-folder starts it this once; to allow it for good, {HOW_TO_TRUST}.",
        server=first.server.name,
    )


def _runs(server: Server) -> str:
    shown = secrets.masked_server(server)
    words = shlex.join((shown.command, *shown.args)) if shown.transport == "stdio" else shown.url
    return words if len(words) <= 300 else f"{words[:299]}…"

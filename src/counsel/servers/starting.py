"""Where a server is started, and with which variables.

An agent starts its servers in the folder that it works in, where `python3 -m x` imports that folder's `x.py` and
`npx -y x` runs its `node_modules`. For a folder that the user does not trust, counsel starts servers elsewhere.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from counsel import untrusted
from counsel.agents import trust
from counsel.agents.definitions import AGENTS, Workspace
from counsel.agents.references import REFERENCE, plain
from counsel.agents.server_format import Server, translated
from counsel.errors import InvalidArgument
from counsel.records import Record
from counsel.servers import secrets
from counsel.servers.listing import ListedServer

HOW_TO_TRUST = "start Claude Code, Codex or Gemini CLI there once and confirm its trust dialog"


class Start(Record):
    """A server as counsel starts or calls it."""

    server: Server  # with references and token filled in
    unset: list[str]  # variables that it refers to but that are not set
    agent: str
    folder: Path
    env: Mapping[str, str]
    trusted: bool

    def __repr__(self) -> str:  # no variables: they may be secrets
        return f"Start({self.server}, {self.folder})"


def start(row: ListedServer, workspace: Workspace, *, trust_folder: bool = False) -> Start:
    """How to start a server; `InvalidArgument` if its entry refers to a file in an untrusted folder."""
    if row.server.transport != "stdio":
        return Start(
            *expanded(row.server, workspace.env),
            row.agent,
            workspace.project,
            workspace.env,
            trusted=True,
        )
    if trust_folder or trust.trusted(workspace):
        env = untrusted.absolute_paths(workspace.env)
        server, unset = expanded(row.server, env)
        return Start(
            server, unset, row.agent, workspace.project / _folder(server, workspace), env, trusted=True
        )
    empty = untrusted.empty_folder(workspace.env)
    env = untrusted.env_in_folder(workspace.env, empty)
    server_entry = row.server
    if row.scope == "plugin":  # the listing filled in ${CLAUDE_PROJECT_DIR}
        server_entry = translated(server_entry, lambda text: text.replace(str(workspace.project), empty))
    server, unset = expanded(server_entry, env)
    _refuse_relative(server, row, workspace)
    return Start(server, unset, row.agent, Path(empty) / _folder(server, workspace), env, trusted=False)


def _folder(server: Server, workspace: Workspace) -> str:
    """The entry's own working folder. `~` is the caller's home, not the daemon's."""
    cwd = server.cwd or ""
    return str(workspace.home / cwd[2:]) if cwd == "~" or cwd.startswith("~/") else cwd


def _refuse_relative(server: Server, row: ListedServer, workspace: Workspace) -> None:
    """Refuse relative paths: the agent resolves them in the project; elsewhere they would be another program."""
    command = server.command if "/" in server.command else ""
    for field, value in (("command", command), ("cwd", server.cwd or "")):
        if value and not value.startswith(("/", "~/")) and value != "~":
            raise InvalidArgument(
                f"{server.name} ({AGENTS[row.agent].label}, {row.scope}) was not started: its {field} {value!r} "
                f"refers to a file in {workspace.project}, which no agent was told to trust.",
                hint=f"Write an absolute path in {row.table.target.path}, or trust the folder: {HOW_TO_TRUST}.",
                server=server.name,
            )


def expanded(server: Server, env: Mapping[str, str]) -> tuple[Server, list[str]]:
    """The server with references and token filled in, and the variables without a value, whose references stay.

    Everything that is sent is then among the server's values, and can be redacted from its output.
    """
    unset: dict[str, None] = {}

    def fill(text: str) -> str:
        def value(hit: re.Match[str]) -> str:
            variable = env.get(hit[1]) or hit[2]
            if variable is None:
                unset[hit[1]] = None
                return str(hit[0])
            return str(variable)

        return plain(REFERENCE.sub(value, text))

    with_values = translated(server, fill)
    if server.token_env and (token := env.get(server.token_env)):
        headers = {**with_values.headers, "Authorization": f"Bearer {token}"}
        with_values = with_values.replaced(headers=headers, token_env=None)
    elif server.token_env:
        unset[server.token_env] = None
    return with_values, list(unset)


def comes_from_project(row: ListedServer, workspace: Workspace) -> bool:
    """Whether a server is defined in a file of the project's folder, which may come from a repository."""
    if row.scope == "project" or row.table.by_project:
        return True
    return trust.moved_inside(row.agent, workspace)


_AGENTS_FOLDERS = {".codex", ".gemini", ".cursor", ".vscode", ".opencode"}  # in a project's folder


def may_start(row: ListedServer, workspace: Workspace) -> bool:
    """For a server from a project's file: whether the user trusts its folder, and the folder that it would work in."""
    folder = row.table.target.path.parent
    project = folder.parent if folder.name in _AGENTS_FOLDERS else folder
    return trust.trusted(workspace) and (row.scope != "project" or trust.trusted(workspace, project))


def not_trusted(rows: list[ListedServer], workspace: Workspace) -> InvalidArgument:
    """What would start, where it is defined, and how to allow it."""
    first = rows[0]
    commands = "; ".join(
        f"{row.server.name} ({AGENTS[row.agent].label}): {_command_text(row.server)}" for row in rows
    )
    files = ", ".join(dict.fromkeys(str(row.table.target.path) for row in rows))
    return InvalidArgument(
        f"This server comes from {workspace.project}, which no agent was told to trust, so nothing was started. "
        f"It would run {commands}.",
        hint=f"Read {files} first. --trust-folder starts it once; to allow it permanently, {HOW_TO_TRUST}.",
        server=first.server.name,
    )


def _command_text(server: Server) -> str:
    masked_server = secrets.masked_server(server)
    command = (
        shlex.join((masked_server.command, *masked_server.args))
        if masked_server.transport == "stdio"
        else masked_server.url
    )
    return command if len(command) <= 300 else f"{command[:299]}…"

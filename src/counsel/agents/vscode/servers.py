"""VS Code's MCP servers: `mcp.json` of the user's profile and `.vscode/mcp.json` of the project.

From its documentation (code.visualstudio.com/docs/copilot/reference/mcp-configuration), not measured: VS Code is not
available where counsel is built. Files may have comments; servers are under `servers`, next to the `inputs` that
`${input:id}` refers to.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from counsel.agents import references
from counsel.agents.definitions import Workspace
from counsel.agents.json_server_format import read_entry, stdio_fields, with_headers, write_entry
from counsel.agents.server_format import ANY_NAME, Entry, Server, ServerFormat, ServerTable, with_script
from counsel.configfiles.write.safewrite import Target

_OWN = rf"{references.EDITOR_PLACEHOLDERS}|\$\{{(?:input|command|config|workspaceFolder):[^}}]*\}}"


def _read_text(value: str) -> str:
    """`${NAME}` is text: only `${env:NAME}` is a variable."""
    return references.from_prefixed(references.REFERENCE.sub(_text, value))


def _text(match: re.Match[str]) -> str:
    return match[0] if re.fullmatch(_OWN, match[0]) else references.as_text(match[0])


def _write_text(value: str) -> str:
    for literal in re.findall(rf"{references.LITERAL}\{{[^}}]*\}}", value):
        references.refuse_read(rf"{_OWN}|\$\{{env:", references.plain(literal), "VS Code")
    return references.plain(references.to_prefixed(value, "VS Code"))


SYNTAX = references.Syntax(_read_text, _write_text, "${env:NAME}", own=_OWN)


def read(name: str, entry: Entry) -> Server:
    return read_entry(name, entry, SYNTAX, {})


def write(server: Server) -> dict[str, object]:
    """A reference in a shell script stays as it is: the server gets VS Code's variables, and the shell expands it."""
    return write_entry(with_script(server, references.as_text), SYNTAX, {}, _layout)


def _layout(server: Server) -> dict[str, object]:
    if server.transport != "stdio":
        return with_headers({"type": server.transport, "url": server.url}, server)
    return {"type": "stdio", **stdio_fields(server)}


def tables(workspace: Workspace) -> list[ServerTable]:
    user = Target(_profile(workspace) / "mcp.json", "jsonc", 0o600)
    project = Target(workspace.project / ".vscode" / "mcp.json", "jsonc", 0o644)
    return [
        ServerTable("vscode", "user", user, ("servers",)),
        ServerTable("vscode", "project", project, ("servers",)),
    ]


def _profile(workspace: Workspace) -> Path:
    """The default profile's folder: named profiles and Insiders have folders of their own."""
    if sys.platform == "darwin":
        return workspace.home / "Library" / "Application Support" / "Code" / "User"
    return workspace.config_dir() / "Code" / "User"


FORMAT = ServerFormat(
    agent="vscode",
    read=read,
    write=write,
    tables=tables,
    syntax=SYNTAX,
    names=ANY_NAME,
    names_text="any characters",
    precedence=("project", "user"),
    reserved=frozenset({"__proto__"}),
    unsupported={
        "timeout": "VS Code has no time limit per server",
        "include_tools": "VS Code has no list of allowed tools per server",
        "exclude_tools": "VS Code has no list of forbidden tools per server",
    },
    no_switch="VS Code keeps its switches inside the application (MCP: List Servers)",
    tries_sse=lambda _entry: True,
)

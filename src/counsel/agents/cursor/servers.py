"""Cursor's MCP servers: `.cursor/mcp.json` of the user and of the project."""

from __future__ import annotations

from counsel.agents import references
from counsel.agents.definitions import Workspace
from counsel.agents.json_server_format import read_entry, stdio_fields, with_headers, write_entry
from counsel.agents.server_format import ANY_NAME, Entry, Server, ServerFormat, ServerTable, has_key
from counsel.configfiles.write.safewrite import Target

_OWN = {"include_tools": "enabledTools"}


def read(name: str, entry: Entry) -> Server:
    return read_entry(name, entry, references.CURSOR, _OWN)


def write(server: Server) -> dict[str, object]:
    return write_entry(server, references.CURSOR, _OWN, _layout)


def _layout(server: Server) -> dict[str, object]:
    """No `type`, as in Cursor's documentation; but a bare `url` is streamable HTTP, so sse must be named."""
    if server.transport == "stdio":
        return stdio_fields(server)
    entry: dict[str, object] = (
        {"type": "sse", "url": server.url} if server.transport == "sse" else {"url": server.url}
    )
    return with_headers(entry, server)


def tables(workspace: Workspace) -> list[ServerTable]:
    user = Target(workspace.cursor_dir() / "mcp.json", "jsonc", 0o600)
    project = Target(workspace.project / ".cursor" / "mcp.json", "jsonc", 0o644)
    return [
        ServerTable("cursor", "user", user, ("mcpServers",)),
        ServerTable("cursor", "project", project, ("mcpServers",)),
    ]


FORMAT = ServerFormat(
    agent="cursor",
    read=read,
    write=write,
    tables=tables,
    syntax=references.CURSOR,
    names=ANY_NAME,
    names_text="any characters",
    precedence=(),
    reserved=frozenset({"__proto__"}),
    unsupported={
        "timeout": "Cursor has no time limit per server",
        "exclude_tools": "Cursor has no list of forbidden tools per server",
    },
    no_switch="Cursor keeps its switches inside the application (Settings, MCP) and ignores `disabled` in its files",
    is_own_entry=has_key("envFile", "enabledTools", "startupTimeoutSec", "auth"),
)

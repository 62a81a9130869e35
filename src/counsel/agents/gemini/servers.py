"""Gemini CLI's MCP servers: `settings.json` of the user and of the folder it is started in."""

from __future__ import annotations

import re
from typing import Any

from counsel.agents import references
from counsel.agents.base import Place
from counsel.agents.jsonservers import read_entry, write_entry
from counsel.agents.serverform import Entry, Format, Home, Server, Switch
from counsel.configfiles.document import Document
from counsel.configfiles.edits import Drop, Edit, Put, lookup
from counsel.configfiles.safewrite import Reader, Target

_OWN = {"timeout": "timeout", "include_tools": "includeTools", "exclude_tools": "excludeTools"}
_BLOCKED = ("PYTHONPATH",)  # the client takes these out of a server's environment


def read(name: str, entry: Entry) -> Server:
    return read_entry(name, entry, references.GEMINI, _OWN)


def write(server: Server) -> dict[str, Any]:
    return write_entry(server, references.GEMINI, _OWN, _layout)


def _layout(server: Server) -> dict[str, Any]:
    if server.transport == "stdio":
        entry: dict[str, Any] = {"command": server.command, "args": list(server.args)}
        if server.env:
            entry["env"] = dict(server.env)
        return {**entry, "cwd": server.cwd} if server.cwd else entry
    entry = {"url": server.url, "type": server.transport}
    return {**entry, "headers": dict(server.headers)} if server.headers else entry


def homes(place: Place) -> list[Home]:
    user = Target(place.gemini_dir() / "settings.json", "jsonc", 0o600)
    project = Target(place.project / ".gemini" / "settings.json", "jsonc", 0o644)
    return [
        Home("gemini", "user", user, ("mcpServers",)),
        Home("gemini", "project", project, ("mcpServers",)),
    ]


def _switch_file(place: Place) -> Target:
    return Target(place.gemini_dir() / "mcp-server-enablement.json", "json", 0o600)


def _switches(place: Place, _home: Home) -> list[Switch]:
    return [Switch(_switch_file(place), _switch, "Gemini CLI switches a server by its name, in every scope.")]


def _switch(document: Document, name: str, enabled: bool) -> list[Edit]:
    """The client lower-cases and trims names in this file."""
    path = (name.strip().lower(),)
    if enabled:
        return [Drop(path)] if lookup(document.value, path) else []
    return [Put((*path, "enabled"), value=False)]


def _disabled(place: Place, home: Home, reader: Reader) -> frozenset[str]:
    switches, settings = reader.quiet(_switch_file(place)), reader.quiet(home.target)
    off = {name for name, state in (switches.value if switches else {}).items() if _is_off(state)}
    servers = settings.get(home.keys) if settings else None
    named = set(servers) if isinstance(servers, dict) else set()
    excluded = settings.get(("mcp", "excluded")) if settings else None
    return frozenset(
        {name for name in named if name.strip().lower() in off}
        | (named & set(excluded) if isinstance(excluded, list) else set())
    )


def _is_off(state: Any) -> bool:
    return isinstance(state, dict) and state.get("enabled") is False


def _notes(_place: Place, home: Home, _reader: Reader) -> list[str]:
    if home.scope != "project":
        return []
    return ["Gemini CLI uses a project's servers only in a folder that it trusts."]


def _warns(server: Server) -> list[str]:
    return [f"Gemini CLI does not pass {name} on to the server" for name in _BLOCKED if name in server.env]


FORMAT = Format(
    agent="gemini",
    read=read,
    write=write,
    homes=homes,
    syntax=references.GEMINI,
    names=re.compile(r"[^\x00-\x1f]+"),
    names_words="any text",
    precedence=("project", "user"),
    reserved=frozenset({"__proto__"}),
    aliases={"url": ("httpUrl",)},
    switches=_switches,
    disabled=_disabled,
    notes=_notes,
    warns=_warns,
)

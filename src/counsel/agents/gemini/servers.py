"""Gemini CLI's MCP servers: `settings.json` of the user and of the folder it is started in."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from counsel.agents import references
from counsel.agents.definitions import Place, Scope
from counsel.agents.json_server_format import read_entry, write_entry
from counsel.agents.server_format import Entry, Format, Home, Server, Switch, has_key, there, with_script
from counsel.configfiles.document import Document, Meaning
from counsel.configfiles.edits import Drop, DropItem, Edit, Put, lookup
from counsel.configfiles.write.safewrite import Reader, Target

_OWN = {"timeout": "timeout", "include_tools": "includeTools", "exclude_tools": "excludeTools"}
_BLOCKED = ("PYTHONPATH",)  # the client takes these out of a server's environment


def read(name: str, entry: Entry) -> Server:
    return read_entry(name, entry, references.GEMINI, _OWN)


def write(server: Server) -> dict[str, Any]:
    """In a shell's script `$NAME` may become a reference: the client expands it to what the shell would."""
    shell = with_script(server, references.GEMINI.read)
    return write_entry(shell, references.GEMINI, _OWN, _layout)


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


def _others(place: Place, reader: Reader) -> Iterator[Home]:
    kept_by = "this machine's administrator"
    for scope, file in _machine_files(place):
        if there(file):
            yield Home("gemini", scope, Target(file, "jsonc"), ("mcpServers",), kept_by=kept_by)
    if os.access(extensions := place.gemini_dir() / "extensions", os.R_OK | os.X_OK):
        from counsel.agents.gemini import extension_servers  # noqa: PLC0415 - most people have none

        yield from extension_servers.homes(place, reader, extensions)


def _machine_files(place: Place) -> list[tuple[Scope, Path]]:
    """The client calls the first its system settings, the second their defaults."""
    return [("managed", place.gemini_managed()), ("system", place.gemini_system())]


def _switch_file(place: Place) -> Target:
    return Target(place.gemini_dir() / "mcp-server-enablement.json", "json", 0o600)


def _switches(place: Place, _home: Home) -> list[Switch]:
    note = "Gemini CLI switches a server by its name, in every scope."
    excluding = [Switch(home.target, _no_longer_excluded) for home in homes(place)]
    return [Switch(_switch_file(place), _switch, note), *excluding]


def _no_longer_excluded(document: Meaning, name: str, enabled: bool) -> list[Edit]:
    """`mcp.excluded` switches off, too; `gemini mcp enable` leaves it there and the server off."""
    path = ("mcp", "excluded")
    held = document.get(path) if enabled else None
    same = (
        [item for item in held if isinstance(item, str) and _plain(item) == _plain(name)]
        if isinstance(held, list)
        else []
    )
    return [DropItem(path, item) for item in dict.fromkeys(same)]


def _switch(document: Meaning, name: str, enabled: bool) -> list[Edit]:
    path = (_plain(name),)
    if enabled:
        return [Drop(path)] if lookup(document.value, path) else []
    return [Put((*path, "enabled"), value=False)]


def _off(place: Place, _home: Home, reader: Reader) -> Callable[[str], bool]:
    """What one settings file excludes is off everywhere; where some say what is allowed, each of them must."""
    switches = reader.quiet(_switch_file(place))
    off = {name for name, state in (switches.value if switches else {}).items() if _is_off(state)}
    files = [home.target for home in homes(place)] + [
        Target(file, "jsonc") for _, file in _machine_files(place)
    ]
    settings = [document for file in files if (document := reader.quiet(file))]
    for one in settings:
        off |= _names(one.get(("mcp", "excluded")))
    allowed = [_names(one.get(("mcp", "allowed"))) for one in settings if one.get(("mcp", "allowed"))]
    return lambda name: _plain(name) in off or any(_plain(name) not in names for names in allowed)


def _names(value: Any) -> set[str]:
    return {_plain(name) for name in value if isinstance(name, str)} if isinstance(value, list) else set()


def _plain(name: str) -> str:
    """The client lower-cases and trims names wherever it switches."""
    return name.strip().lower()


def _is_off(state: Any) -> bool:
    return isinstance(state, dict) and state.get("enabled") is False


def _notes(_place: Place, home: Home, _reader: Reader) -> list[str]:
    if home.scope != "project":
        return []
    return ["Gemini CLI uses a project's servers only in a folder that it trusts."]


def _warns(server: Server) -> list[str]:
    return [f"Gemini CLI does not pass {name} on to the server" for name in _BLOCKED if name in server.env]


def _refuses(_home: Home, document: Document) -> str:
    if not document.liberties:
        return ""
    return f"Gemini CLI does not start: the file has {' and '.join(document.liberties)}"


FORMAT = Format(
    agent="gemini",
    read=read,
    write=write,
    homes=homes,
    syntax=references.GEMINI,
    names=re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]+"),
    names_words="any letters",
    others=_others,
    precedence=("managed", "project", "user", "system", "plugin"),
    reserved=frozenset({"__proto__"}),
    aliases={"url": ("httpUrl",)},
    switches=_switches,
    off=_off,
    notes=_notes,
    warns=_warns,
    refuses=_refuses,
    tries_sse=lambda entry: not entry.get("type") and not entry.get("httpUrl"),
    tells=has_key("httpUrl", "includeTools", "excludeTools", "trust", "description"),
)

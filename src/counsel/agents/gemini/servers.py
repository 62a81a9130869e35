"""Gemini CLI's MCP servers: `settings.json` of the user and of the folder it is started in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from counsel.agents import references
from counsel.agents.definitions import Scope, Workspace
from counsel.agents.detect import without_comments
from counsel.agents.json_server_format import read_entry, stdio_fields, with_headers, write_entry
from counsel.agents.server_format import (
    ANY_NAME,
    Entry,
    Mention,
    Server,
    ServerFormat,
    ServerTable,
    Switch,
    Unread,
    WaitsFor,
    has_key,
    with_script,
)
from counsel.configfiles.document import Document, Meaning
from counsel.configfiles.edits import AddItem, Drop, DropItem, Edit, Put, lookup
from counsel.configfiles.write.safewrite import Reader, Target
from counsel.errors import ConfigInvalid, CounselError
from counsel.paths import exists

_OWN = {"timeout": "timeout", "include_tools": "includeTools", "exclude_tools": "excludeTools"}
_BLOCKED = ("PYTHONPATH",)  # the client removes these from a server's environment


def read(name: str, entry: Entry) -> Server:
    return read_entry(name, entry, references.GEMINI, _OWN)


def write(server: Server) -> dict[str, object]:
    """In a shell script, `$NAME` may become a reference: the client expands it as the shell would."""
    shell = with_script(server, references.GEMINI.read)
    return write_entry(shell, references.GEMINI, _OWN, _layout)


def _layout(server: Server) -> dict[str, object]:
    if server.transport == "stdio":
        return stdio_fields(server)
    return with_headers({"url": server.url, "type": server.transport}, server)


def tables(workspace: Workspace) -> list[ServerTable]:
    user = Target(workspace.gemini_dir() / "settings.json", "jsonc", 0o600)
    project = Target(workspace.project / ".gemini" / "settings.json", "jsonc", 0o644)
    return [
        ServerTable("gemini", "user", user, ("mcpServers",)),
        ServerTable("gemini", "project", project, ("mcpServers",)),
    ]


def _others(workspace: Workspace, reader: Reader) -> Iterator[ServerTable]:
    kept_by = "this machine's administrator"
    for scope, file in _machine_files(workspace):
        if exists(file):
            yield ServerTable("gemini", scope, Target(file, "jsonc"), ("mcpServers",), kept_by=kept_by)
    if os.access(extensions := workspace.gemini_dir() / "extensions", os.R_OK | os.X_OK):
        from counsel.agents.gemini import extension_servers  # most people have none

        yield from extension_servers.tables(workspace, reader, extensions)


def _machine_files(workspace: Workspace) -> list[tuple[Scope, Path]]:
    """The client calls the first its system settings, the second its system defaults."""
    return [("managed", workspace.gemini_managed()), ("system", workspace.gemini_system())]


def _switch_file(workspace: Workspace) -> Target:
    return Target(workspace.gemini_dir() / "mcp-server-enablement.json", "json", 0o600)


def _switches(workspace: Workspace, _table: ServerTable) -> list[Switch]:
    note = "Gemini CLI switches a server by its name, in all scopes."
    excluding = [Switch(table.target, _drop_exclusions) for table in tables(workspace)]
    return [Switch(_switch_file(workspace), _switch, note), *excluding]


def _drop_exclusions(document: Meaning, name: str, enabled: bool) -> list[Edit]:
    """`mcp.excluded` disables a server, too; `gemini mcp enable` does not remove it, so the server stays disabled."""
    path = ("mcp", "excluded")
    names = document.get(path) if enabled else None
    matches = (
        [item for item in names if isinstance(item, str) and _plain(item) == _plain(name)]
        if isinstance(names, list)
        else []
    )
    return [DropItem(path, item) for item in dict.fromkeys(matches)]


def _switch(document: Meaning, name: str, enabled: bool) -> list[Edit]:
    path = (_plain(name),)
    if enabled:
        return [Drop(path)] if lookup(document.value, path) else []
    return [Put((*path, "enabled"), value=False)]


def _is_disabled(workspace: Workspace, _table: ServerTable, reader: Reader) -> Callable[[str], bool]:
    """Whether a session leaves the server out. It compares excluded and allowed names exactly; `gemini mcp list` does
    not (measured, 0.61)."""
    switches = reader.read_quietly(_switch_file(workspace))
    disabled_names = {name for name, state in (switches.value if switches else {}).items() if _is_off(state)}
    files = [Target(file, "jsonc") for _, file in _machine_files(workspace)]
    files += [table.target for table in tables(workspace)]
    settings = [document for file in files if (document := reader.read_quietly(file))]
    excluded = {name for document in settings for name in _strings(document.get(("mcp", "excluded")))}
    allowed = _allowed(
        [names for document in settings if isinstance(names := document.get(("mcp", "allowed")), list)]
    )
    return lambda name: (
        _plain(name) in disabled_names or name in excluded or bool(allowed and name not in allowed)
    )


def _allowed(lists: list[list[object]]) -> list[str]:
    """The names that all files allow, as the strongest file writes them. If there are none, every server is allowed."""
    allowed, *others = [_strings(names) for names in lists] or [[]]
    return [name for name in allowed if all(_plain(name) in map(_plain, names) for names in others)]


def _strings(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _mentions(workspace: Workspace, _table: ServerTable) -> list[Mention]:
    """If `mcp.allowed` exists, only the servers in it are started: a renamed server must be added."""
    return [Mention(table.target, _allow_new_name) for table in tables(workspace)]


def _allow_new_name(document: Meaning, name: str, new_name: str) -> list[Edit]:
    path = ("mcp", "allowed")
    names = _names(document.get(path))
    return [AddItem(path, new_name)] if _plain(name) in names and _plain(new_name) not in names else []


def _names(value: object) -> set[str]:
    return set(map(_plain, _strings(value)))


def _plain(name: str) -> str:
    """The client lower-cases and trims names in its switches."""
    return name.strip().lower()


def _is_off(state: object) -> bool:
    return isinstance(state, dict) and state.get("enabled") is False


def _notes(_workspace: Workspace, table: ServerTable, _reader: Reader) -> list[str]:
    if table.scope != "project":
        return []
    return ["Gemini CLI uses a project's servers only in a trusted folder."]


def _waits_for(
    workspace: Workspace, _table: ServerTable, _reader: Reader
) -> Callable[[str], WaitsFor | None]:
    """Gemini CLI starts no server in a folder that it does not trust, not even the user's (measured, 0.61)."""
    from counsel.agents import trust  # imported on demand: `servers add` does not need it

    waits: WaitsFor | None = None if trust.by_agent("gemini", workspace) else "trust"
    return lambda _name: waits


def _warns(server: Server) -> list[str]:
    return [f"Gemini CLI does not pass {name} on to the server" for name in _BLOCKED if name in server.env]


def _refuses(table: ServerTable, document: Document) -> str:
    """What is wrong with a file of the user or the project that stops every gemini command (measured, 0.61)."""
    if _is_empty(document):
        return "Gemini CLI does not start: the file is empty"
    if document.nonstandard_syntax:
        return f"Gemini CLI does not start: the file has {' and '.join(document.nonstandard_syntax)}"
    entries = document.get(table.keys)
    null_names = (
        [name for name, entry in entries.items() if entry is None] if isinstance(entries, Mapping) else []
    )
    return f"Gemini CLI does not start: the server {null_names[0]} is null" if null_names else ""


def _is_empty(document: Document) -> bool:
    return not document.value and not without_comments(document.text).strip()


def _stops_at(_workspace: Workspace, unread: Unread) -> bool:
    return unread.part == "file" and unread.table.scope != "plugin"


def _stopped_by(workspace: Workspace, reader: Reader) -> tuple[Path, str] | None:
    """One wrong rule about a folder stops every gemini command, unless a setting decides about all folders (measured,
    0.61)."""
    from counsel.agents import trust

    if trust.by_gemini_everywhere(workspace) is not None:
        return None
    path = trust.gemini_rules_file(workspace)
    try:
        document = reader.read(Target(path, "jsonc"))
    except ConfigInvalid as error:
        return path, str(error)
    except CounselError:  # too large, or unreadable
        return None
    error_text = _wrong_rule(document) if document else ""
    return (path, error_text) if error_text else None


def _wrong_rule(document: Document) -> str:
    if _is_empty(document):
        return "the file is empty"
    if document.nonstandard_syntax:
        return f"the file has {' and '.join(document.nonstandard_syntax)}"
    wrong_folder = next((folder for folder, level in document.value.items() if level not in _LEVELS), None)
    return "" if wrong_folder is None else f"the rule for {wrong_folder} is none of {', '.join(_LEVELS)}"


_LEVELS = ("TRUST_FOLDER", "TRUST_PARENT", "DO_NOT_TRUST")


FORMAT = ServerFormat(
    agent="gemini",
    read=read,
    write=write,
    tables=tables,
    syntax=references.GEMINI,
    names=ANY_NAME,
    names_text="any characters",
    others=_others,
    precedence=("managed", "project", "user", "system", "plugin"),
    reserved=frozenset({"__proto__"}),
    aliases={"url": ("httpUrl",)},
    switches=_switches,
    is_disabled=_is_disabled,
    mentions=_mentions,
    notes=_notes,
    warns=_warns,
    refuses=_refuses,
    stops_at=_stops_at,
    stopped_by=_stopped_by,
    waits_for=_waits_for,
    waiting={"trust": "Gemini CLI starts no servers in a folder that it does not trust."},
    tries_sse=lambda entry: not entry.get("type") and not entry.get("httpUrl"),
    is_own_entry=has_key("httpUrl", "includeTools", "excludeTools", "trust", "description"),
)

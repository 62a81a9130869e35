"""Claude Code's MCP servers: `~/.claude.json` (user, local) and `.mcp.json` (project)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from counsel.agents import references
from counsel.agents.definitions import Workspace
from counsel.agents.json_server_format import read_entry, with_headers, write_entry
from counsel.agents.server_format import (
    ANY_NAME,
    Entry,
    Mention,
    Server,
    ServerFormat,
    ServerTable,
    Switch,
    Unread,
    Unreadable,
    WaitsFor,
)
from counsel.configfiles.document import Document, Meaning
from counsel.configfiles.edits import MISSING, AddItem, DropItem, Edit, Put
from counsel.configfiles.write.safewrite import Reader, Target
from counsel.paths import exists

_OWN = {"timeout": "timeout"}
_KINDS = ("stdio", "http", "streamable-http", "sse", "ws")  # Claude Code skips all others
_UNREAD_FIELDS: dict[str, tuple[type, str]] = {  # fields that counsel does not read
    "alwaysLoad": (bool, "true or false"),
    "bareElicitationCapability": (bool, "true or false"),
}
_UNREAD_REMOTE_FIELDS: dict[str, tuple[type, str]] = {
    "headersHelper": (str, "a string"),
    "oauth": (Mapping, "an object"),
    "tools": (list, "a list"),
}
_STDIO_KEYS = ("command", "args", "env", "cwd")
_REMOTE_KEYS = ("url", "headers", "cwd")
_UNKNOWN_URLS = ("httpUrl", "serverUrl")
_LARGEST = 2**53 - 1  # JavaScript's largest whole number
# What the client writes around the first setting of a project (golden/claude/stdio-local).
_PROJECT: dict[str, object] = {
    "allowedTools": [],
    "mcpContextUris": [],
    "mcpServers": {},
    "enabledMcpjsonServers": [],
    "disabledMcpjsonServers": [],
    "hasTrustDialogAccepted": False,
    "hasClaudeMdExternalIncludesApproved": False,
    "hasClaudeMdExternalIncludesWarningShown": False,
}


def read(name: str, entry: Entry) -> Server:
    if not isinstance(entry, Mapping):
        raise Unreadable("the entry must be an object")
    kind = entry.get("type", "stdio")
    _refuse_unknown_type(kind, entry)
    required_key = "command" if kind == "stdio" else "url"
    _refuse_skipped(kind, entry)
    server = read_entry(name, _own_fields(kind, entry), references.CLAUDE, _OWN)
    if not entry.get(required_key):
        raise Unreadable(f"Claude Code ignores it: it has no {required_key}")
    return server


def _refuse_unknown_type(kind: object, entry: Entry) -> None:
    if kind not in _KINDS:
        raise Unreadable(f"Claude Code skips it: its type is {'null' if kind is None else kind or 'empty'}")
    if kind == "stdio" and not entry.get("command"):
        if entry.get("type"):
            raise Unreadable("Claude Code ignores it: it has no command")
        if entry.get("url"):
            raise Unreadable("Claude Code refuses a url without a type")


def _refuse_skipped(kind: str, entry: Entry) -> None:
    """Claude Code skips an entry with one wrong value (measured, 2.1.325)."""
    for key in ("args", "env") if kind == "stdio" else ("headers",):
        if key in entry and entry[key] is None:
            raise Unreadable(f"Claude Code skips it: {key} is null")
    if "timeout" in entry and not _is_limit(entry["timeout"]):
        raise Unreadable("Claude Code skips it: timeout is not a whole number of milliseconds above 0")
    key = "env" if kind == "stdio" else "headers"
    values = entry.get(key)
    for name, value in values.items() if isinstance(values, Mapping) else ():
        if not isinstance(value, str):
            raise Unreadable(f"Claude Code skips it: {key}.{name} is not a string")
    for key, (type_, words) in (
        _UNREAD_FIELDS if kind == "stdio" else _UNREAD_FIELDS | _UNREAD_REMOTE_FIELDS
    ).items():
        if key in entry and not isinstance(entry[key], type_):
            raise Unreadable(f"Claude Code skips it: {key} is not {words}")


def _own_fields(kind: str, entry: Entry) -> Entry:
    """The entry without fields that Claude Code ignores for this type and a copy could not have."""
    foreign_keys = _REMOTE_KEYS if kind == "stdio" else _STDIO_KEYS
    ignored_keys = {key for key in foreign_keys if not _is_readable(key, entry.get(key))}
    return {
        key: value for key, value in entry.items() if key not in ignored_keys and key not in _UNKNOWN_URLS
    }


def _is_readable(key: str, value: object) -> bool:
    """Whether a copy of the entry, for a client that uses this field, could have this value."""
    if key == "args":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if key in ("env", "headers"):
        return isinstance(value, Mapping) and all(isinstance(item, str) for item in value.values())
    return isinstance(value, str)


def _is_limit(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value <= _LARGEST and value == int(value)


def write(server: Server) -> dict[str, object]:
    return write_entry(server, references.CLAUDE, _OWN, _layout)


def _layout(server: Server) -> dict[str, object]:
    if server.transport == "stdio":
        return {
            "type": "stdio",
            "command": server.command,
            "args": list(server.args),
            "env": dict(server.env),
        }
    return with_headers({"type": server.transport, "url": server.url}, server)


def tables(workspace: Workspace) -> list[ServerTable]:
    user = _user_file(workspace)
    local = ("projects", str(project_key(workspace.project)), "mcpServers")
    return [
        ServerTable("claude", "user", user, ("mcpServers",)),
        ServerTable("claude", "local", user, local, frame=_PROJECT),
        ServerTable(
            "claude", "project", Target(workspace.project / ".mcp.json", "json", 0o644), ("mcpServers",)
        ),
    ]


def _others(workspace: Workspace, reader: Reader) -> Iterator[ServerTable]:
    managed_file = workspace.claude_managed()
    if os.path.lexists(managed_file):
        kept_by = "this machine's administrator"
        yield ServerTable(
            "claude", "managed", Target(managed_file, "json"), ("mcpServers",), kept_by=kept_by, alone=True
        )
    for folder in workspace.project.parents:
        if exists(file := folder / ".mcp.json"):
            yield ServerTable(
                "claude", "project", Target(file, "json"), ("mcpServers",), kept_by="a folder above"
            )
    settings = [
        dict(document.value) if (document := reader.read_quietly(Target(path, "json"))) else {}
        for path in workspace.claude_settings()
    ]
    if any(layer.get("enabledPlugins") for layer in settings):
        from counsel.agents.claude import plugin_servers  # most people have no plugin

        yield from plugin_servers.tables(workspace, reader, settings, project_key(workspace.project))


def _user_file(workspace: Workspace) -> Target:
    return Target(workspace.claude_json(), "json", 0o600, claude_lock=True)


def project_key(folder: Path) -> Path:
    """Claude Code stores a project's settings by its git root, which it finds from any folder inside, through links; a
    worktree's by the main repository (measured, 2.1.325)."""
    real = Path(os.path.realpath(folder))
    root = next((parent for parent in (real, *real.parents) if exists(parent / ".git")), None)
    if root is None:
        return real
    return _repository(root) or root


def _repository(root: Path) -> Path | None:
    """The repository of a worktree, if it knows the worktree. A bare repository has no folder around it."""
    marker = root / ".git"
    if not marker.is_file():
        return None  # a folder: this is the repository itself
    try:
        git_dir = _resolved(root, marker.read_text().removeprefix("gitdir:"))
        common = _resolved(git_dir, (git_dir / "commondir").read_text())
        worktree = os.path.realpath(_resolved(git_dir, (git_dir / "gitdir").read_text()))
    except (OSError, ValueError):
        return None  # a submodule, or not a file of git
    if git_dir.parent != common / "worktrees" or worktree != str(marker):
        return None
    return common.parent if common.name == ".git" else common


def _resolved(start: Path, text: str) -> Path:
    """Paths in git's files are absolute, or relative to the folder that the file describes."""
    return Path(os.path.normpath(start / text.strip()))


# ── enable and disable: lists of names, always per project ────────────────────────────────────────────


def _switches(workspace: Workspace, table: ServerTable) -> list[Switch]:
    key = str(project_key(workspace.project))
    lists = ("disabledMcpServers", "disabledMcpjsonServers")[: 2 if table.scope == "project" else 1]

    def edits(document: Meaning, name: str, enabled: bool) -> list[Edit]:
        project = ("projects", key)
        return _enable(document, name, project, lists) if enabled else _disable(document, name, project)

    note = f"Claude Code switches servers per project: this applies to {key}."
    user_switch = [Switch(_user_file(workspace), edits, note)]
    settings = [
        Switch(target, _switch_settings, f"{target.path} disabled it, too; that entry was removed.")
        for target in _settings(workspace)
    ]
    return [*user_switch, *settings] if table.scope == "project" else user_switch


def _enable(document: Meaning, name: str, project: tuple[str, ...], lists: tuple[str, ...]) -> list[Edit]:
    keys = [list_key for list_key in lists if name in _names(document.get((*project, list_key)))]
    return [DropItem((*project, list_key), name) for list_key in keys]


def _disable(document: Meaning, name: str, project: tuple[str, ...]) -> list[Edit]:
    if name in _names(document.get((*project, "disabledMcpServers"))):
        return []
    if document.get(project) is MISSING:
        return [Put(project, {**_PROJECT, "disabledMcpServers": [name]})]
    return [AddItem((*project, "disabledMcpServers"), name)]


def _switch_settings(document: Meaning, name: str, enabled: bool) -> list[Edit]:
    """Enable what this file disabled. It is not used for disabling, which needs one list, not two."""
    path = ("disabledMcpjsonServers",)
    return [DropItem(path, name)] if enabled and name in _names(document.get(path)) else []


def _settings(workspace: Workspace) -> list[Target]:
    """The user's, the project's and the local settings: each of them can disable a server."""
    return [Target(path, "json", 0o644) for path in workspace.claude_settings()]


def _mentions(workspace: Workspace, table: ServerTable) -> list[Mention]:
    """Where a renamed server is disabled: a user's server can be disabled in any project."""
    return [Mention(_user_file(workspace), _rename_elsewhere)] if table.scope == "user" else []


def _rename_elsewhere(document: Meaning, name: str, new_name: str) -> list[Edit]:
    projects = document.get(("projects",))
    paths = (
        [("projects", key, "disabledMcpServers") for key in projects] if isinstance(projects, Mapping) else []
    )
    lists = {path: _names(document.get(path)) for path in paths}
    return [
        AddItem(path, new_name) for path, names in lists.items() if name in names and new_name not in names
    ]


def _disabled_here(workspace: Workspace, table: ServerTable, reader: Reader) -> Callable[[str], bool]:
    disabled_names: set[str] = set()
    project = ("projects", str(project_key(workspace.project)))
    if document := reader.read_quietly(_user_file(workspace)):
        disabled_names |= _names(document.get((*project, "disabledMcpServers")))
        if table.scope == "project":
            disabled_names |= _names(document.get((*project, "disabledMcpjsonServers")))
    for target in _settings(workspace) if table.scope == "project" else ():
        if settings := reader.read_quietly(target):
            disabled_names |= _names(settings.get(("disabledMcpjsonServers",)))
    return disabled_names.__contains__


def _waits_for(workspace: Workspace, table: ServerTable, reader: Reader) -> Callable[[str], WaitsFor | None]:
    """A project's servers wait for approval: in the user's settings or, in a trusted folder, in the project's
    (2.1.325).

    `claude -p` uses them without it.
    """
    if table.scope != "project":
        return lambda _name: None
    settings, *of_project = _settings(workspace)
    approvals: list[tuple[Document | None, tuple[str, ...]]] = [(reader.read_quietly(settings), ())]
    state, project = reader.read_quietly(_user_file(workspace)), Path(os.path.realpath(workspace.project))
    if state and any(state.get(path) is True for path in trust_settings(project)):
        approvals += [(reader.read_quietly(target), ()) for target in of_project]
        approvals.append((state, ("projects", str(project_key(workspace.project)))))
    readable = [(document, path) for document, path in approvals if document]
    if any(document.get((*path, "enableAllProjectMcpServers")) is True for document, path in readable):
        return lambda _name: None
    lists = [_names(document.get((*path, "enabledMcpjsonServers"))) for document, path in readable]
    return lambda name: None if any(name in names for names in lists) else "approval"


def trust_settings(project: Path) -> list[tuple[str, str, str]]:
    """Where `~/.claude.json` says that the user trusts a folder: its own entry, one above, or that of its
    repository."""
    folders = (project, *project.parents, project_key(project))
    return [("projects", str(folder), "hasTrustDialogAccepted") for folder in folders]


def _names(value: object) -> set[str]:
    return {item for item in value if isinstance(item, str)} if isinstance(value, list) else set()


def _notes(workspace: Workspace, table: ServerTable, _reader: Reader) -> list[str]:
    notes = []
    if os.path.lexists(managed_file := workspace.claude_managed()):
        notes.append(f"Claude Code uses only the servers of {managed_file} as long as that file exists.")
    if table.scope == "project":
        notes.append("Claude Code asks for approval before it uses a project's servers.")
    return notes


def _refuses(table: ServerTable, document: Document) -> str:
    if table.scope == "project" and document.get(table.keys) is MISSING:
        return "Claude Code refuses this file: it has no mcpServers"
    return ""


def _stops_at(workspace: Workspace, unread: Unread) -> bool:
    """Claude Code stops if its own file is malformed (measured, 2.1.325), and ignores other malformed files."""
    return unread.part == "file" and unread.table.target == _user_file(workspace)


_COMMAND_NAMES = re.compile(r"[A-Za-z0-9_-]+")


def _warns(server: Server) -> list[str]:
    """Claude Code loads any name, but `claude mcp add` and `remove` accept only some (measured, 2.1.325)."""
    if _COMMAND_NAMES.fullmatch(server.name):
        return []
    return [f"Claude Code uses the name {server.name!r}, but its own `claude mcp` commands do not accept it"]


FORMAT = ServerFormat(
    agent="claude",
    read=read,
    write=write,
    tables=tables,
    syntax=references.CLAUDE,
    names=_COMMAND_NAMES,
    names_text="letters, digits, - and _",
    loads=ANY_NAME,
    others=_others,
    precedence=("managed", "local", "project", "user", "plugin"),
    reserved=frozenset({"workspace", "claude-in-chrome", "computer-use", "Claude Preview", "__proto__"}),
    lacks={
        "cwd": "Claude Code ignores a working folder: the server starts in the project's folder",
        "include_tools": "Claude Code has no list of allowed tools per server",
        "exclude_tools": "Claude Code has no list of forbidden tools per server",
    },
    switches=_switches,
    off=_disabled_here,
    mentions=_mentions,
    notes=_notes,
    warns=_warns,
    refuses=_refuses,
    stops_at=_stops_at,
    waits_for=_waits_for,
    waiting={"approval": "Claude Code asks before it uses a project's servers (`-p` does not)."},
    signs=lambda workspace: [workspace.claude_dir()],
    tries_sse=lambda _entry: True,
)

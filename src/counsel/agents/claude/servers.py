"""Claude Code's MCP servers: `~/.claude.json` (user, local) and `.mcp.json` (project)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping

from counsel.agents import references
from counsel.agents.claude.folders import project_key, settings_files
from counsel.agents.definitions import Workspace
from counsel.agents.field_rules import (
    FLAG,
    HTTPS,
    LIST,
    SOME_TEXT,
    TABLE,
    TEXT,
    first_violation,
    whole_number,
)
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
_STDIO_KEYS = ("command", "args", "env", "cwd")
_REMOTE_KEYS = ("url", "headers", "cwd")
_UNKNOWN_URLS = ("httpUrl", "serverUrl")
_LARGEST = 2**53 - 1  # JavaScript's largest whole number
_RULES = {"alwaysLoad": FLAG, "bareElicitationCapability": FLAG}
_REMOTE_RULES = {
    **_RULES,
    "headersHelper": TEXT,
    "tools": LIST,
    "oauth": TABLE,
    "oauth.clientId": TEXT,
    "oauth.callbackPort": whole_number(1, _LARGEST),
    "oauth.authServerMetadataUrl": HTTPS,
    "oauth.scopes": SOME_TEXT,
    "oauth.xaa": FLAG,
}
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
    if violation := first_violation(entry, _RULES if kind == "stdio" else _REMOTE_RULES):
        raise Unreadable("Claude Code skips it: {} is not {}".format(*violation))


def _own_fields(kind: str, entry: Entry) -> Entry:
    """The entry without fields that Claude Code ignores for this type, if a copy could not contain them."""
    foreign_keys = _REMOTE_KEYS if kind == "stdio" else _STDIO_KEYS
    ignored_keys = {key for key in foreign_keys if not _is_readable(key, entry.get(key))}
    return {
        key: value for key, value in entry.items() if key not in ignored_keys and key not in _UNKNOWN_URLS
    }


def _is_readable(key: str, value: object) -> bool:
    """Whether a client that uses this field accepts the value."""
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
        for path in settings_files(workspace)
    ]
    if any(layer.get("enabledPlugins") for layer in settings):
        from counsel.agents.claude import plugin_servers  # most people have no plugin

        yield from plugin_servers.tables(workspace, reader, settings, project_key(workspace.project))


def _user_file(workspace: Workspace) -> Target:
    return Target(workspace.claude_json(), "json", 0o600, claude_lock=True)


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
    disabled, *rejected = ((*project, list_key) for list_key in lists)
    edits: list[Edit] = [DropItem(disabled, name)] if name in _names(document.get(disabled)) else []
    return edits + [edit for path in rejected for edit in _accept(document, name, path)]


def _disable(document: Meaning, name: str, project: tuple[str, ...]) -> list[Edit]:
    if name in _names(document.get((*project, "disabledMcpServers"))):
        return []
    if document.get(project) is MISSING:
        return [Put(project, {**_PROJECT, "disabledMcpServers": [name]})]
    return [AddItem((*project, "disabledMcpServers"), name)]


def _switch_settings(document: Meaning, name: str, enabled: bool) -> list[Edit]:
    """Remove the server from the names that this file disables. Disabling uses another list."""
    return _accept(document, name, ("disabledMcpjsonServers",)) if enabled else []


def _accept(document: Meaning, name: str, path: tuple[str, ...]) -> list[Edit]:
    return [
        DropItem(path, item) for item in sorted(_names(document.get(path))) if _plain(item) == _plain(name)
    ]


def _settings(workspace: Workspace) -> list[Target]:
    """The user's, the project's and the local settings: each of them can disable a server."""
    return [Target(path, "json", 0o644) for path in settings_files(workspace)]


def _mentions(workspace: Workspace, table: ServerTable) -> list[Mention]:
    """The lists that disable a server by name: a user's server can be disabled in any project."""
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
    project = ("projects", str(project_key(workspace.project)))
    state = reader.read_quietly(_user_file(workspace))
    disabled_names = _names(state.get((*project, "disabledMcpServers"))) if state else set()
    if table.scope != "project":
        return disabled_names.__contains__
    rejected_names = _names(state.get((*project, "disabledMcpjsonServers"))) if state else set()
    for answers in _answers(workspace, reader):
        rejected_names |= _names(answers.get("disabledMcpjsonServers"))
    rejected_plain_names = set(map(_plain, rejected_names))
    return lambda name: name in disabled_names or _plain(name) in rejected_plain_names


def _waits_for(workspace: Workspace, table: ServerTable, reader: Reader) -> Callable[[str], WaitsFor | None]:
    """A project's servers wait for approval: in the user's settings or, in a trusted project, in its own (2.1.325).

    Trust in a folder above does not count here. `claude -p` uses the servers without approval.
    """
    if table.scope != "project":
        return lambda _name: None
    answers = _answers(workspace, reader)
    state = reader.read_quietly(_user_file(workspace))
    project = state.get(("projects", str(project_key(workspace.project)))) if state else None
    if isinstance(project, Mapping) and project.get("hasTrustDialogAccepted") is True:
        locals_at = sum(target.path.name == "settings.json" for target in _settings(workspace))
        answers.insert(locals_at, _migrated(project))
    else:
        answers = answers[:1]
    all_approved = [layer[_APPROVE_ALL] for layer in answers if _APPROVE_ALL in layer]
    if all_approved and all_approved[-1]:
        return lambda _name: None
    approved_names = {name for layer in answers for name in _names(layer.get("enabledMcpjsonServers"))}
    return lambda name: None if name in approved_names else "approval"


def _migrated(project: Mapping[str, object]) -> dict[str, object]:
    """What Claude Code moves from `~/.claude.json` to the local settings when it starts; a `false` is not moved."""
    return {key: value for key, value in project.items() if key != _APPROVE_ALL or value is True}


_APPROVE_ALL = "enableAllProjectMcpServers"


def _answers(workspace: Workspace, reader: Reader) -> list[Mapping[str, object]]:
    """Each settings file, in the order of `settings_files`; empty where Claude Code ignores the file."""
    documents = [reader.read_quietly(target) for target in _settings(workspace)]
    layers = [document.value if document else {} for document in documents]
    return [layer if _is_valid(layer) else {} for layer in layers]


def _is_valid(settings: Mapping[str, object]) -> bool:
    """Whether Claude Code uses the file: one wrong value makes it ignore all of it."""
    lists = (settings.get(key, []) for key in ("enabledMcpjsonServers", "disabledMcpjsonServers"))
    are_names = (isinstance(value, list) and all(isinstance(name, str) for name in value) for value in lists)
    return all(are_names) and isinstance(settings.get(_APPROVE_ALL, False), bool)


def _plain(name: str) -> str:
    """Rejected names are compared without the characters that a tool's name cannot have."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


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
    unsupported={
        "cwd": "Claude Code ignores a working folder: the server starts in the project's folder",
        "include_tools": "Claude Code has no list of allowed tools per server",
        "exclude_tools": "Claude Code has no list of forbidden tools per server",
    },
    switches=_switches,
    is_disabled=_disabled_here,
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

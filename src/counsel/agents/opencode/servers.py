"""OpenCode's MCP servers: `mcp` in `opencode.json` or `opencode.jsonc` of the user and of the project.

Measured with 1.18.33 (`opencode mcp list`, `opencode debug config`):
- all its files may have comments, trailing commas and unknown keys; one invalid entry stops every command;
- servers of one name are merged field by field: the user's (`config.json`, `opencode.json`, `opencode.jsonc`, each over
  the one before), the file that OPENCODE_CONFIG names, the project's from the repository's root down, its
  `.opencode/` from this folder up to the root, `~/.opencode`, OPENCODE_CONFIG_DIR;
- `{"enabled": false}` alone is a valid part of a server;
- `{env:NAME}` and `{file:path}` are replaced in the file's text before parsing: an unset variable is empty, one with a
  quote in it breaks the file. `${NAME}` is literal;
- for a remote server it tries streamable HTTP first, then SSE;
- a call ends after the entry's `timeout`, else `experimental.mcp_timeout`, else the SDK's 60 s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from counsel.agents import references
from counsel.agents.definitions import Scope, Workspace
from counsel.agents.field_rules import TEXT, first_violation, whole_number
from counsel.agents.json_server_format import with_token
from counsel.agents.references import REFERENCE, Syntax, Untranslatable
from counsel.agents.server_format import (
    ANY_NAME,
    Entry,
    Server,
    ServerFormat,
    ServerTable,
    Unread,
    Unreadable,
    number,
    read_references,
    switch_enabled,
    text,
    translated,
    with_script,
)
from counsel.configfiles.document import Document
from counsel.configfiles.write.safewrite import Reader, Target
from counsel.paths import exists, up_to_root

_OWN_REFERENCE = re.compile(r"\{(env|file):([^}]+)\}")
_NAMES = ("opencode.jsonc", "opencode.json")  # the stronger first
_KEYS = ("mcp",)
_LARGEST = 2**53 - 1  # JavaScript's largest whole number
_OAUTH = {
    **dict.fromkeys(("clientId", "clientSecret", "scope", "redirectUri"), TEXT),
    "callbackPort": whole_number(1, 2**16 - 1),
}
_KNOWN = frozenset({"type", "command", "environment", "cwd", "enabled", "url", "headers", "timeout"})


def _read_text(value: str) -> str:
    return _OWN_REFERENCE.sub(
        lambda match: f"${{{match[2]}}}" if match[1] == "env" else match[0], references.as_text(value)
    )


def _write_text(value: str) -> str:
    references.refuse_default(value, "OpenCode")
    match = _OWN_REFERENCE.search(value)
    if match and match[1] == "env":  # `{file:…}` is OpenCode's own: see servers/adapt.py
        raise Untranslatable(f"OpenCode would replace {match[0]} in {references.excerpt(value)}")
    return references.plain(REFERENCE.sub(lambda match: f"{{env:{match[1]}}}", value))


SYNTAX = Syntax(_read_text, _write_text, "{env:NAME}", own=r"\{file:[^}]+\}")


def read(name: str, entry: Entry) -> Server:
    if not isinstance(entry, Mapping):
        raise Unreadable("the entry must be an object")
    kind = entry.get("type")
    if kind not in ("local", "remote"):
        raise Unreadable("OpenCode refuses an entry whose `type` is neither local nor remote")
    if not isinstance(entry.get("enabled", True), bool):
        raise Unreadable("OpenCode refuses an `enabled` that is neither true nor false")
    milliseconds = number(entry.get("timeout"), "timeout")
    _refuse_wrong(entry, milliseconds)
    server = Server(
        name=name,
        transport="stdio" if kind == "local" else "http",
        timeout=None if milliseconds is None else milliseconds / 1000,
        enabled=entry.get("enabled", True),
        extras={key: value for key, value in entry.items() if key not in _KNOWN},
        **(_local(entry) if kind == "local" else _remote(entry)),
    )
    return with_token(read_references(server, SYNTAX))


def _refuse_wrong(entry: Entry, milliseconds: float | None) -> None:
    """A field may be missing, never null (measured, 1.18.33)."""
    if nulls := [
        key for key in ("timeout", "cwd" if entry["type"] == "local" else "oauth") if _is_null(entry, key)
    ]:
        raise Unreadable(f"OpenCode refuses {nulls[0]} with null")
    if milliseconds is not None and not (0 < milliseconds <= _LARGEST and milliseconds == int(milliseconds)):
        raise Unreadable("OpenCode refuses a timeout that is not a whole number of milliseconds above 0")
    oauth = entry.get("oauth", False)
    if entry["type"] == "remote" and oauth is not False and not isinstance(oauth, Mapping):
        raise Unreadable("OpenCode refuses an oauth that is neither an object nor false")
    is_remote = entry["type"] == "remote" and isinstance(oauth, Mapping)
    if is_remote and (violation := first_violation(oauth, _OAUTH)):
        raise Unreadable("OpenCode refuses an oauth whose {} is not {}".format(*violation))


def _is_null(entry: Entry, key: str) -> bool:
    return key in entry and entry[key] is None


def _local(entry: Entry) -> dict[str, Any]:
    command = entry.get("command")
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise Unreadable("`command` must be a list of strings, the program first")
    environment = _strings(entry, "environment")
    return {
        "command": command[0],
        "args": tuple(command[1:]),
        "env": environment,
        "cwd": text(entry.get("cwd"), "cwd") or None,
    }


def _remote(entry: Entry) -> dict[str, Any]:
    if not entry.get("url"):
        raise Unreadable("it has no url")
    return {"url": text(entry["url"], "url"), "headers": _strings(entry, "headers")}


def _strings(entry: Entry, key: str) -> dict[str, str]:
    values = entry.get(key, {})
    if not isinstance(values, Mapping) or not all(isinstance(value, str) for value in values.values()):
        raise Unreadable(f"OpenCode refuses {key} with a value that is not a string")
    return dict(values)


def write(server: Server) -> dict[str, object]:
    if server.token_env:
        headers = {"Authorization": f"Bearer ${{{server.token_env}}}", **server.headers}
        server = server.replaced(headers=headers, token_env=None)
    # A reference in a shell script stays as it is: the server gets the client's variables, and the shell expands it.
    fields = translated(with_script(server, references.as_text), SYNTAX.write)
    entry: dict[str, Any] = {"type": "local", "command": [fields.command, *fields.args]}
    if server.transport != "stdio":
        entry = {"type": "remote", "url": fields.url}
    elif fields.cwd:
        entry["cwd"] = fields.cwd
    if fields.env:
        entry["environment"] = dict(fields.env)
    if fields.headers:
        entry["headers"] = dict(fields.headers)
    if not server.enabled:
        entry["enabled"] = False
    if server.timeout is not None:
        entry["timeout"] = max(1, round(server.timeout * 1000))
    return {**entry, **server.extras}


# ── its files ────────────────────────────────────────────────────────────────────────────────────────


def folder(workspace: Workspace) -> Path:
    return workspace.config_dir() / "opencode"


def tables(workspace: Workspace) -> list[ServerTable]:
    user, project = _written(folder(workspace)), _written(workspace.project)
    return [
        ServerTable("opencode", "user", Target(user, "jsonc", 0o600), _KEYS),
        ServerTable("opencode", "project", Target(project, "jsonc", 0o644), _KEYS),
    ]


def _written(parent: Path) -> Path:
    """The file to write: the stronger of the two that exist, or a new `opencode.json`."""
    return next((parent / name for name in _NAMES if exists(parent / name)), parent / "opencode.json")


def _others(workspace: Workspace, _reader: Reader) -> Iterator[ServerTable]:
    """Within a scope, the stronger first (servers/codex_layers.py). counsel writes none of these."""
    yield from _strongest(workspace)
    for path in _project_files(workspace):
        yield _foreign("project", path, "another file of the project")
    config_path = workspace.env.get("OPENCODE_CONFIG")
    if config_path and exists(workspace.project / config_path):  # a relative one is a file of the project
        scope: Scope = "managed" if config_path.startswith("/") else "project"
        yield _foreign(scope, workspace.project / config_path, "the environment (OPENCODE_CONFIG)")
    user_file = _written(folder(workspace))
    for name in (*_NAMES, "config.json"):
        if exists(path := folder(workspace) / name) and path != user_file:
            yield _foreign("system", path, f"you, beside {user_file.name}")


def _strongest(workspace: Workspace) -> Iterator[ServerTable]:
    """Folders that are stronger than all other files: OPENCODE_CONFIG_DIR, `~/.opencode`, and the project's
    `.opencode`.

    Of the project's, the one nearest to the repository's root is the strongest.
    """
    config_dir = workspace.env.get("OPENCODE_CONFIG_DIR", "")
    scope: Scope = "managed" if config_dir.startswith("/") else "project"
    own_folder = workspace.home / ".opencode"
    for name in _NAMES if config_dir else ():
        yield _foreign(
            scope, workspace.project / config_dir / name, "the environment (OPENCODE_CONFIG_DIR)", 3
        )
    for name in _NAMES:
        yield _foreign("managed", own_folder / name, f"you, in {own_folder}", 2)
    for current in reversed(_project_folders(workspace)):
        for path in (current / ".opencode" / name for name in _NAMES):
            if path.parent != own_folder:
                yield _foreign("project", path, "another file of the project", 1)


def _foreign(scope: Scope, path: Path, kept_by: str, strength: int = 0) -> ServerTable:
    return ServerTable("opencode", scope, Target(path, "jsonc"), _KEYS, kept_by=kept_by, strength=strength)


def _project_files(workspace: Workspace) -> Iterator[Path]:
    written_files = {_written(workspace.project), _written(folder(workspace))}
    for current in _project_folders(workspace):
        for path in (current / name for name in _NAMES):
            if exists(path) and path not in written_files:
                yield path


def _project_folders(workspace: Workspace) -> list[Path]:
    """This folder and those above, up to the repository's root; outside a repository, all of them (measured,
    1.18.33)."""
    folders = up_to_root(workspace.project)
    is_repository = exists(folders[-1] / ".git")
    return folders if is_repository else [workspace.project, *workspace.project.parents]


def _stops_at(_workspace: Workspace, unread: Unread) -> bool:
    """Each file must be valid by itself. An entry with a valid `enabled` counts as part of a server, even if wrong."""
    entry = unread.entry
    if not isinstance(entry, Mapping):
        return True
    return not (
        isinstance(entry.get("enabled"), bool) or entry.get("command") == [] or entry.get("url") == ""
    )


def _call_limit(document: Document) -> float | None:
    milliseconds = document.get(("experimental", "mcp_timeout"))
    return milliseconds / 1000 if isinstance(milliseconds, int) and milliseconds > 0 else None


FORMAT = ServerFormat(
    agent="opencode",
    read=read,
    write=write,
    tables=tables,
    syntax=SYNTAX,
    names=re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff{}]+"),
    names_text="any characters but braces",
    loads=ANY_NAME,
    others=_others,
    layered=True,
    stops_at=_stops_at,
    precedence=("project", "managed", "user", "system"),
    reserved=frozenset({"__proto__"}),
    transports=frozenset({"stdio", "http"}),
    unsupported={
        "include_tools": "OpenCode has no list of allowed tools per server",
        "exclude_tools": "OpenCode has no list of forbidden tools per server",
    },
    switches=switch_enabled,
    is_own_entry=lambda entry: "environment" in entry or isinstance(entry.get("command"), list),
    call_limit=_call_limit,
    tries_sse=lambda _entry: True,
)

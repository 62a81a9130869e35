"""Codex's MCP servers: `config.toml` of the user and of the project.

One bad entry breaks every codex command (command and url together, neither, `env` with a url, an inline bearer token),
so only its two exact forms are written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from counsel.agents import references, trust
from counsel.agents.definitions import Scope, Workspace
from counsel.agents.field_rules import TABLE, TEXT, TEXTS, first_violation, integer, one_of
from counsel.agents.references import Untranslatable
from counsel.agents.server_format import (
    Entry,
    Server,
    ServerFormat,
    ServerTable,
    Unread,
    Unreadable,
    WaitsFor,
    has_key,
    number,
    optional_strings,
    string_list,
    string_map,
    switch_enabled,
    text,
    translated,
    with_script,
)
from counsel.agents.trust import root_markers
from counsel.configfiles.write.safewrite import Reader, Target
from counsel.paths import exists, up_to_root

_KNOWN = frozenset(
    [
        "command",
        "args",
        "env",
        "env_vars",
        "cwd",
        "url",
        "bearer_token_env_var",
        "http_headers",
        "env_http_headers",
        "enabled",
        "tool_timeout_sec",
        "enabled_tools",
        "disabled_tools",
    ]
)
_APPROVAL = one_of("auto", "prompt", "writes", "approve")
_RULES = {  # measured, 0.166
    "startup_timeout_ms": integer(0, 2**64),
    "name": TEXT,
    "scopes": TEXTS,
    "auth": one_of("oauth", "chatgpt", "ema_auth"),
    "oauth": TABLE,
    "oauth.client_id": TEXT,
    "oauth.client_secret": TEXT,
    "oauth.callback_url": TEXT,
    "oauth.callback_port": integer(0, 2**16 - 1),
    "oauth_resource": TEXT,
    "environment_id": TEXT,
    "default_tools_approval_mode": _APPROVAL,
    "tools": TABLE,
    "tools.*": TABLE,
    "tools.*.approval_mode": _APPROVAL,
}
_WITH_COMMAND = ("args", "env", "env_vars", "cwd", "bearer_token")
_WITH_URL = (
    "http_headers",
    "env_http_headers",
    "bearer_token_env_var",
    "bearer_token",
    "auth",
    "oauth",
    "oauth_resource",
)
_LONGEST = 2**64  # seconds


def read(name: str, entry: Entry) -> Server:
    if not isinstance(entry, Mapping):
        raise Unreadable("the entry must be a table")
    _refuse_what_breaks_codex(entry)
    server = Server(
        name=name,
        transport="stdio" if "command" in entry else "http",
        command=text(entry.get("command"), "command"),
        args=string_list(entry.get("args"), "args"),
        env=string_map(entry.get("env"), "env"),
        cwd=text(entry.get("cwd"), "cwd") or None,
        url=text(entry.get("url"), "url"),
        headers=string_map(entry.get("http_headers"), "http_headers"),
        token_env=text(entry.get("bearer_token_env_var"), "bearer_token_env_var") or None,
        timeout=number(entry.get("tool_timeout_sec"), "tool_timeout_sec"),
        enabled=entry.get("enabled") is not False,
        include_tools=optional_strings(entry, "enabled_tools"),
        exclude_tools=optional_strings(entry, "disabled_tools"),
        extras={key: value for key, value in entry.items() if key not in _KNOWN} | _detailed_variables(entry),
    )
    literal = translated(
        server, references.CODEX.read
    )  # Codex expands nothing: text that looks like a reference is literal
    return literal.replaced(
        env={**literal.env, **_forwarded(entry.get("env_vars"))},
        headers={**literal.headers, **_header_references(entry)},
    )


def _refuse_what_breaks_codex(entry: Entry) -> None:
    """Each of these ends every codex command with an error (measured, 0.166)."""
    if ("command" in entry) == ("url" in entry):
        raise Unreadable("an entry needs a command or a url, and not both: this breaks every codex command")
    kind, incompatible = ("command", _WITH_URL) if "command" in entry else ("url", _WITH_COMMAND)
    if wrong_keys := [f"`{key}`" for key in incompatible if key in entry]:
        raise Unreadable(f"{', '.join(wrong_keys)} with a {kind} breaks every codex command")
    for key in ("env", "http_headers", "env_http_headers"):
        if not all(isinstance(value, str) for value in _table(entry, key).values()):
            raise Unreadable(f"a value in `{key}` that is not a string breaks every codex command")
    for key in ("enabled", "required", "supports_parallel_tool_calls"):
        if not isinstance(entry.get(key, True), bool):
            raise Unreadable(f"a `{key}` that is neither true nor false breaks every codex command")
    for key in ("tool_timeout_sec", "startup_timeout_sec", "startup_timeout_ms"):
        if not 0 <= (number(entry.get(key), key) or 0) < _LONGEST:
            raise Unreadable(f"a `{key}` that is negative or infinite breaks every codex command")
    if violation := first_violation(entry, _RULES):
        raise Unreadable("a `{}` that is not {} breaks every codex command".format(*violation))


def _table(entry: Entry, key: str) -> Mapping[str, Any]:
    value = entry.get(key, {})
    if not isinstance(value, Mapping):
        raise Unreadable(f"{key} must be a table")
    return value


def _forwarded(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, list):
        raise Unreadable("env_vars must be a list")
    names: list[Any] = [item.get("name") if isinstance(item, Mapping) else item for item in value]
    sources = {item.get("source", "local") for item in value if isinstance(item, Mapping)}
    unknown_keys = {key for item in value if isinstance(item, Mapping) for key in item} - {"name", "source"}
    if not all(isinstance(name, str) for name in names) or not sources <= {"local", "remote"} or unknown_keys:
        raise Unreadable("an item of `env_vars` that is not a name breaks every codex command")
    return {name: f"${{{name}}}" for name in names}


def _detailed_variables(entry: Entry) -> dict[str, object]:
    """The items of `env_vars` that contain more than a name (`{name, source}`)."""
    value = entry.get("env_vars")
    items = [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
    return {"env_vars": items} if items else {}


def _header_references(entry: Entry) -> dict[str, str]:
    names = string_map(entry.get("env_http_headers"), "env_http_headers")
    return {header: f"${{{name}}}" for header, name in names.items()}


def write(server: Server) -> dict[str, object]:
    """The entry in Codex's own order; `env` and the header tables are sorted, as Codex sorts them."""
    entry = _stdio(server) if server.transport == "stdio" else _remote(server)
    if not server.enabled:
        entry["enabled"] = False
    if server.timeout is not None:
        entry["tool_timeout_sec"] = server.timeout
    if server.include_tools is not None:
        entry["enabled_tools"] = list(server.include_tools)
    if server.exclude_tools is not None:
        entry["disabled_tools"] = list(server.exclude_tools)
    return {**entry, **{key: value for key, value in server.extras.items() if key != "env_vars"}}


def _stdio(server: Server) -> dict[str, object]:
    forwarded_names = [name for name, value in server.env.items() if references.sole_variable(value) == name]
    literal_env = {name: value for name, value in server.env.items() if name not in forwarded_names}
    for name, value in literal_env.items():
        if variables := references.names(value):
            raise Untranslatable(
                f"Codex passes variables only under their own name: {name} cannot be set from ${{{variables[0]}}}"
            )
    # A reference in a shell script can stay literal: the shell expands it.
    shell = with_script(server.replaced(env=literal_env), references.as_text)
    plain = translated(shell, references.CODEX.write)
    entry: dict[str, Any] = {"command": plain.command}
    if plain.args:
        entry["args"] = list(plain.args)
    if literal_env:
        entry["env"] = dict(sorted(plain.env.items()))
    if forwarded_names:
        items_by_name = {item.get("name"): item for item in server.extras.get("env_vars", ())}
        entry["env_vars"] = [items_by_name.get(name, name) for name in forwarded_names]
    return {**entry, "cwd": plain.cwd} if plain.cwd else entry


def _remote(server: Server) -> dict[str, object]:
    header_variables = {
        header: name
        for header, value in server.headers.items()
        if (name := references.sole_variable(value)) is not None
    }
    literal_headers = {
        header: value for header, value in server.headers.items() if header not in header_variables
    }
    plain = translated(server.replaced(headers=literal_headers), references.CODEX.write)
    entry: dict[str, Any] = {"url": plain.url}
    if server.token_env:
        entry["bearer_token_env_var"] = server.token_env
    if literal_headers:
        entry["http_headers"] = dict(sorted(plain.headers.items()))
    if header_variables:
        entry["env_http_headers"] = dict(sorted(header_variables.items()))
    return entry


def tables(workspace: Workspace) -> list[ServerTable]:
    keys = ("mcp_servers",)
    project = Target(workspace.project / ".codex" / "config.toml", "toml", 0o644)
    return [
        ServerTable("codex", "user", _user_file(workspace), keys),
        ServerTable("codex", "project", project, keys),
    ]


def _user_file(workspace: Workspace) -> Target:
    return Target(workspace.codex_dir() / "config.toml", "toml", 0o600)


def _others(workspace: Workspace, reader: Reader) -> Iterator[ServerTable]:
    """Codex reads `.codex/config.toml` of every folder from the repository's root down to this one."""
    keys = ("mcp_servers",)
    user_file = os.path.realpath(
        _user_file(workspace).path
    )  # if the home folder is a repository, its file is above the project, too
    config = reader.read_quietly(_user_file(workspace))
    for folder in up_to_root(workspace.project, root_markers(config.value if config else {}))[1:]:
        if exists(file := folder / ".codex" / "config.toml") and os.path.realpath(file) != user_file:
            yield ServerTable("codex", "project", Target(file, "toml"), keys, kept_by="a folder above")
    files: tuple[tuple[Scope, str], ...] = (("managed", "managed_config.toml"), ("system", "config.toml"))
    for scope, name in files:
        if exists(file := workspace.codex_system() / name):
            yield ServerTable(
                "codex", scope, Target(file, "toml"), keys, kept_by="this machine's administrator"
            )
    if config is not None and config.get(("plugins",)):
        from counsel.agents.codex import plugin_servers  # most people have no plugin

        yield from plugin_servers.tables(workspace, reader, config.value)


def _notes(workspace: Workspace, table: ServerTable, _reader: Reader) -> list[str]:
    if table.scope != "project" or _trusts(workspace, table):
        return []
    trust_table = f'[projects."{workspace.project}"] trust_level = "trusted"'
    return [
        f"Codex reads a project's servers only when {workspace.codex_dir() / 'config.toml'} has {trust_table}."
    ]


def _stops_at(workspace: Workspace, unread: Unread) -> bool:
    """Anything unreadable stops every codex command, but Codex reads a project's file only if it trusts the folder."""
    scope = unread.table.scope
    return _trusts(workspace, unread.table) if scope == "project" else scope != "plugin"


def _waits_for(workspace: Workspace, table: ServerTable, _reader: Reader) -> Callable[[str], WaitsFor | None]:
    """A project's servers wait for trust in the folder of their file, which may be above this one (measured, 0.166)."""
    waits: WaitsFor | None = "trust" if table.scope == "project" and not _trusts(workspace, table) else None
    return lambda _name: waits


def _trusts(workspace: Workspace, table: ServerTable) -> bool:
    return trust.by_codex(workspace, Path(os.path.realpath(table.target.path.parents[1]))) is True


FORMAT = ServerFormat(
    agent="codex",
    read=read,
    write=write,
    tables=tables,
    syntax=references.CODEX,
    names=re.compile(r"[A-Za-z0-9_:@/.-]+"),
    names_text="letters, digits and - _ : @ / .",
    others=_others,
    layered=True,
    completes=True,
    stops_at=_stops_at,
    waits_for=_waits_for,
    waiting={"trust": "Codex reads a project's servers once you trust the project in Codex."},
    precedence=("managed", "project", "user", "system", "plugin"),
    transports=frozenset({"stdio", "http"}),
    switches=switch_enabled,
    notes=_notes,
    is_own_entry=has_key(
        "env_vars",
        "bearer_token_env_var",
        "http_headers",
        "env_http_headers",
        "startup_timeout_sec",
        "tool_timeout_sec",
        "enabled_tools",
        "disabled_tools",
    ),
)

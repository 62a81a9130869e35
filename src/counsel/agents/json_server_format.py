"""Reads and writes entries of `mcpServers` in JSON, which several agents have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from counsel.agents.references import BEARER, Syntax
from counsel.agents.server_format import (
    Entry,
    Server,
    Unreadable,
    number,
    optional_strings,
    read_references,
    string_list,
    string_map,
    text,
    translated,
)

TYPES = {"stdio": "stdio", "http": "http", "sse": "sse", "streamable-http": "http", "streamableHttp": "http"}
_URLS = ("httpUrl", "url", "serverUrl")  # the first one present wins, as in Gemini CLI
_KNOWN = frozenset({"type", "command", "args", "env", "cwd", "headers", *_URLS})


def read_entry(name: str, entry: Entry, syntax: Syntax, own: Mapping[str, str]) -> Server:
    """`own` maps the neutral fields that only some agents have to their keys: timeout (ms), tool filters."""
    if not isinstance(entry, Mapping):
        raise Unreadable("the entry must be an object")
    headers = string_map(entry.get("headers"), "headers")
    server = Server(
        name=name,
        transport=transport_of(entry),
        command=text(entry.get("command"), "command"),
        args=string_list(entry.get("args"), "args"),
        env=string_map(entry.get("env"), "env"),
        cwd=text(entry.get("cwd"), "cwd") or None,
        url=next((text(entry[key], key) for key in _URLS if entry.get(key)), ""),
        headers=headers,
        extras={key: value for key, value in entry.items() if key not in _KNOWN and key not in own.values()},
        **_own_fields(entry, own),
    )
    return with_token(read_references(server, syntax))


def transport_of(entry: Entry) -> str:
    """The transport that `type` names, else stdio for a `command` and streamable HTTP for a bare `url`."""
    kind = entry.get("type") or entry.get("transport")
    transport = None if kind is None else TYPES.get(str(kind), str(kind))
    remote = any(entry.get(key) for key in _URLS)
    if transport is not None and (transport not in TYPES.values() or (remote and transport != "stdio")):
        return transport
    if entry.get("command"):
        return "stdio"
    if remote:
        return "http"
    raise Unreadable("it has neither a command nor a url")


def _own_fields(entry: Entry, own: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, object] = {}
    for neutral, key in own.items():
        if neutral == "timeout":
            milliseconds = number(entry.get(key), key)
            values[neutral] = None if milliseconds is None else milliseconds / 1000
        else:
            values[neutral] = optional_strings(entry, key)
    return values


def with_token(server: Server) -> Server:
    """`Authorization: Bearer ${NAME}` is a token from the environment, in any agent's syntax."""
    for header, value in server.headers.items():
        if header.lower() == "authorization" and (match := BEARER.fullmatch(value)):
            rest = {key: item for key, item in server.headers.items() if key != header}
            return server.replaced(headers=rest, token_env=match[1])
    return server


def write_entry(
    server: Server, syntax: Syntax, own: Mapping[str, str], layout: Callable[[Server], dict[str, object]]
) -> dict[str, object]:
    """`layout` gives the entry's first fields in the client's own order; the agent's other fields follow."""
    if server.token_env:
        headers = {"Authorization": f"Bearer ${{{server.token_env}}}", **server.headers}
        server = server.replaced(headers=headers, token_env=None)
    entry = layout(translated(server, syntax.write))
    for neutral, key in own.items():
        value = getattr(server, neutral)
        if value is not None:
            entry[key] = _milliseconds(value) if neutral == "timeout" else list(value)
    return {**entry, **server.extras}


def stdio_fields(server: Server) -> dict[str, object]:
    """The fields of a stdio server in most agents' files; empty ones are left out."""
    entry: dict[str, object] = {"command": server.command, "args": list(server.args)}
    if server.env:
        entry["env"] = dict(server.env)
    return {**entry, "cwd": server.cwd} if server.cwd else entry


def with_headers(entry: dict[str, object], server: Server) -> dict[str, object]:
    return {**entry, "headers": dict(server.headers)} if server.headers else entry


def _milliseconds(seconds: float) -> int:
    """An integer: Claude Code ignores a server whose `timeout` is not one (measured, 2.1.325)."""
    return max(1, round(seconds * 1000))

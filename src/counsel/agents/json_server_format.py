"""What the agents with `mcpServers` in JSON have in common: the entry's fields by name, both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from counsel.agents.references import BEARER, Syntax
from counsel.agents.server_format import (
    Entry,
    Server,
    Unreadable,
    number,
    optional_texts,
    read_references,
    text,
    text_map,
    texts,
    translated,
)

TYPES = {"stdio": "stdio", "http": "http", "sse": "sse", "streamable-http": "http", "streamableHttp": "http"}
_URLS = ("httpUrl", "url", "serverUrl")  # the first that is there wins, as in Gemini CLI
_KNOWN = frozenset({"type", "command", "args", "env", "cwd", "headers", *_URLS})


def read_entry(name: str, entry: Entry, syntax: Syntax, own: Mapping[str, str]) -> Server:
    """`own` maps the neutral fields that only some agents have to their keys: timeout (ms), tool filters."""
    if not isinstance(entry, Mapping):
        raise Unreadable("the entry must be an object")
    headers = text_map(entry.get("headers"), "headers")
    server = Server(
        name=name,
        transport=transport_of(entry),
        command=text(entry.get("command"), "command"),
        args=texts(entry.get("args"), "args"),
        env=text_map(entry.get("env"), "env"),
        cwd=text(entry.get("cwd"), "cwd") or None,
        url=next((text(entry[key], key) for key in _URLS if entry.get(key)), ""),
        headers=headers,
        extras={key: value for key, value in entry.items() if key not in _KNOWN and key not in own.values()},
        **_own_fields(entry, own),
    )
    return with_token(read_references(server, syntax))


def transport_of(entry: Entry) -> str:
    """By `type`, if what it needs is there; else stdio by `command`, or streamable HTTP by a bare `url`."""
    kind = entry.get("type") or entry.get("transport")
    named = None if kind is None else TYPES.get(str(kind), str(kind))
    remote = any(entry.get(key) for key in _URLS)
    if named is not None and (named not in TYPES.values() or (remote and named != "stdio")):
        return named
    if entry.get("command"):
        return "stdio"
    if remote:
        return "http"
    raise Unreadable("it has neither a command nor a url")


def _own_fields(entry: Entry, own: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for neutral, key in own.items():
        if neutral == "timeout":
            milliseconds = number(entry.get(key), key)
            found[neutral] = None if milliseconds is None else milliseconds / 1000
        else:
            found[neutral] = optional_texts(entry, key)
    return found


def with_token(server: Server) -> Server:
    """`Authorization: Bearer ${NAME}` is a token from the environment, however an agent writes it."""
    for header, value in server.headers.items():
        if header.lower() == "authorization" and (found := BEARER.fullmatch(value)):
            rest = {key: kept for key, kept in server.headers.items() if key != header}
            return server.replaced(headers=rest, token_env=found[1])
    return server


def write_entry(
    server: Server, syntax: Syntax, own: Mapping[str, str], layout: Callable[[Server], dict[str, Any]]
) -> dict[str, Any]:
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


def _milliseconds(seconds: float) -> int:
    """Whole ones: Claude Code leaves a server out whose `timeout` is none (measured, 2.1.325)."""
    return max(1, round(seconds * 1000))

"""Pasted servers: JSON, JSONC or TOML in any agent's format, a whole file or a single entry."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from counsel.agents import references
from counsel.agents.json_server_format import TYPES, with_token
from counsel.agents.server_format import Server, Unreadable, string_map
from counsel.configfiles.document import parse
from counsel.configfiles.json.plain import Plain
from counsel.errors import ConfigInvalid, InvalidArgument
from counsel.servers import fields
from counsel.servers.formats import FORMATS

_FENCE = r"(?s)```[\w-]*\n(.*?)\n?```"  # as in a README
_PLACEHOLDERS = r"\$\{(?:input|command|config|prompt|user_config)[:.][^}]*\}"
_TABLES = ("mcpServers", "mcp_servers", "servers", "context_servers")
_ENTRY = frozenset({"command", "url", "httpUrl", "serverUrl"})


def servers(text: str, name: str | None = None) -> tuple[list[Server], str]:
    """The servers in a pasted text, and the agent whose format it has. `name` names a bare entry, or selects one."""
    value, kind = _parsed(text)
    entries = _entries(value, name)
    if not entries:
        raise InvalidArgument(
            "The pasted text contains no server.",
            hint='Expected {"mcpServers": {"NAME": {…}}} or, with a name, one entry.',
        )
    default = "codex" if kind == "toml" or "mcp_servers" in value else "claude"
    agent = (
        next((_format_owner(entry) for entry in entries.values() if _format_owner(entry)), None) or default
    )
    return [_read(key, entry, agent) for key, entry in entries.items()], agent


def _parsed(text: str) -> tuple[dict[str, object], str]:
    """The value and its format: JSON if it parses as JSON (a fragment `"name": {…}` gets braces), else TOML."""
    bare_text = text.strip().lstrip("\ufeff")
    if fence := re.fullmatch(_FENCE, bare_text):
        bare_text = fence[1].strip()
    if not bare_text:
        raise InvalidArgument("The pasted text is empty.")
    candidates = [(bare_text, "jsonc")]
    if bare_text.startswith('"'):
        candidates.append((f"{{{bare_text.rstrip(',')}}}", "jsonc"))
    if not bare_text.startswith("{"):
        candidates.append((bare_text, "toml"))
    errors = []
    for candidate, kind in candidates:
        try:
            value = parse(candidate, kind).value  # type: ignore[arg-type]
        except ConfigInvalid as error:
            errors.append(error)
        else:
            if kind == "jsonc":
                _refuse_duplicate_names(candidate)
            return dict(value), kind
    last = errors[-1]
    problem = "cannot be read" if len(candidates) == 1 else "is neither JSON nor TOML"
    raise ConfigInvalid(f"The pasted text {problem}. {last.message}", **last.fields)


def _refuse_duplicate_names(text: str) -> None:
    """Refuse a name that occurs twice: JSON keeps the last one, but a person who pastes two servers expects two."""

    def check_names(pairs: list[tuple[str, object]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            duplicate = next(name for name in names if names.count(name) > 1)
            raise InvalidArgument(
                f"The pasted text contains {duplicate!r} twice in one object.", hint="Remove one of them."
            )

    plain = Plain.of(text, comments=True).text
    if plain.strip():  # more than comments
        json.loads(plain, object_pairs_hook=check_names, parse_int=str)


def _entries(value: Mapping[str, Any], name: str | None) -> dict[str, Mapping[str, object]]:
    for table in _TABLES:
        if isinstance(value.get(table), Mapping) and not _ENTRY & value.keys():
            return _selected_entries(value[table], name)
    if isinstance(value.get("mcp"), Mapping):
        return _entries(value["mcp"], name)
    if _ENTRY & value.keys():
        if name is None:
            raise InvalidArgument(
                "The pasted entry has no name.", hint="Give one: `counsel servers add NAME --from …`."
            )
        return {name: value}
    if all(isinstance(entry, Mapping) for entry in value.values()):
        return _selected_entries(value, name)
    return {}


def _selected_entries(table: Mapping[str, Any], name: str | None) -> dict[str, Mapping[str, object]]:
    if name is None or name in table:
        return {key: entry for key, entry in table.items() if name in (None, key)}
    if len(table) == 1:  # one server under another name: the requested name wins
        return {name: next(iter(table.values()))}
    raise InvalidArgument(
        f"The pasted text has no server {name!r}.", hint=f"It contains: {', '.join(table)}."
    )


def _format_owner(entry: object) -> str | None:
    if not isinstance(entry, Mapping):
        return None
    by_placeholder = "cursor" if re.search(references.EDITOR_PLACEHOLDERS, _text(entry)) else None
    return next((agent for agent, fmt in FORMATS.items() if fmt.is_own_entry(entry)), by_placeholder)


def _text(entry: Mapping[str, object]) -> str:
    return json.dumps(entry, ensure_ascii=False, default=str)


def _read(name: str, entry: Mapping[str, object], agent: str) -> Server:
    if agent == "claude" and isinstance(entry, Mapping):
        entry = _normalized_for_claude(entry)
    fmt = FORMATS[agent]
    try:
        _refuse_ambiguous(entry)
        server = fmt.read(name, _with_strings(entry))
        if fmt.syntax.expands:  # in Codex's format `$NAME` is plain text
            server = with_token(fields.interpreted(server))
    except Unreadable as error:
        raise InvalidArgument(f"The pasted server {name!r} cannot be used: {error}.") from None
    return _with_switch(server)


def _normalized_for_claude(entry: Mapping[str, object]) -> Mapping[str, object]:
    """The entry with a type that Claude Code knows and a timeout in whole milliseconds: others are less strict."""
    if "serverUrl" in entry and "url" not in entry:
        entry = {**entry, "url": entry["serverUrl"]}
    kind, limit = entry.get("type"), entry.get("timeout")
    if kind is None and "url" in entry:
        kind = entry.get("transport", "http")
    milliseconds = (
        {"timeout": max(1, round(limit))} if isinstance(limit, float) and 0 < limit < math.inf else {}
    )
    return {**entry, **milliseconds, **({"type": TYPES.get(kind, kind)} if isinstance(kind, str) else {})}


def _with_strings(entry: object) -> Any:
    """The entry with numbers and booleans in `env` and `headers` as strings, and without fields that are null."""
    if not isinstance(entry, Mapping):
        return entry
    entry = {key: value for key, value in entry.items() if value is not None}
    maps = {key: entry[key] for key in ("env", "headers") if isinstance(entry.get(key), Mapping)}
    return {**entry, **{key: string_map(value, key) for key, value in maps.items()}}


def _with_switch(server: Server) -> Server:
    """The server, disabled if a field `disabled` or `enabled` says so: other programs' JSON may contain these."""
    off = server.extras.get("disabled") is True or server.extras.get("enabled") is False
    extras = {key: value for key, value in server.extras.items() if key not in ("disabled", "enabled")}
    return server.replaced(enabled=server.enabled and not off, extras=extras)


def _refuse_ambiguous(entry: object) -> None:
    if not isinstance(entry, Mapping):
        return
    urls = [entry[key] for key in ("httpUrl", "url", "serverUrl") if entry.get(key)]
    if entry.get("command") and urls:
        raise Unreadable("it has a command and a url; remove one of them")
    if urls and entry.get("type") in {None, *TYPES} and not fields.is_url(urls[0]):
        raise Unreadable("its url must be an address such as https://host/mcp")
    if placeholder := re.search(_PLACEHOLDERS, _text(entry)):
        raise Unreadable(
            f"{placeholder[0]} is filled in by another program; write a value or ${{NAME}} instead"
        )

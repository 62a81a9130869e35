"""Adapt a server to one agent, with refusals and warnings."""

from __future__ import annotations

import json
import re
from typing import Literal, TypeAlias

from counsel.agents.definitions import AGENTS
from counsel.agents.references import EDITOR_PLACEHOLDERS, Untranslatable
from counsel.agents.server_format import (
    ANY_NAME,
    TRANSPORTS,
    Entry,
    Server,
    ServerFormat,
    ServerTable,
    Unreadable,
)
from counsel.errors import InvalidArgument
from counsel.servers import fields, secrets
from counsel.servers.formats import FORMATS

NameKind: TypeAlias = Literal["new", "copied", "existing"]


def fit(
    fmt: ServerFormat,
    table: ServerTable,
    server: Server,
    origin: str | None = None,
    *,
    name_kind: NameKind = "new",
) -> tuple[Server, list[str]]:
    """The server as this agent supports it, with warnings; raise if the agent cannot have it."""
    label = AGENTS[fmt.agent].label
    if name_kind != "existing":
        refuse_name(fmt, server.name, copied=name_kind == "copied")
    if server.transport not in TRANSPORTS and origin != fmt.agent:
        raise InvalidArgument(f"{label} does not support the transport {server.transport!r}.")
    if server.transport in TRANSPORTS and server.transport not in fmt.transports:
        raise InvalidArgument(
            f"{label} does not support {server.transport}.",
            hint="Use the server's streamable HTTP address (--transport http), or leave this agent out.",
        )
    warnings = []
    for field, reason in fmt.unsupported.items():
        if getattr(server, field) not in (None, ()):
            warnings.append(f"{reason}; left out.")
            server = server.without(field)
    if ignored_fields := fields.fields_of_other_transport(server):
        warnings.append(
            f"{label} ignores {', '.join(ignored_fields)} with the transport {server.transport}; left out."
        )
        server = server.without(*ignored_fields)
    if server.extras and origin != fmt.agent:
        warnings.append(f"{label}: {', '.join(server.extras)} left out: another agent's fields.")
        server = server.without("extras")
    _refuse_foreign_placeholders(fmt, server, origin)
    return server, warnings + [f"{reason}." for reason in fmt.warns(server)] + secret_warnings(
        fmt, table, server
    )


def refuse_name(fmt: ServerFormat, name: str, *, copied: bool = False) -> None:
    """Refuse a name that the agent's own commands do not accept; a copied name must only be valid in its files."""
    label = AGENTS[fmt.agent].label
    pattern = (copied and fmt.loads) or fmt.names
    if name in fmt.reserved:
        raise InvalidArgument(f"{label} reserves the name {name!r}.", hint="Choose another name.")
    if not pattern.fullmatch(name):
        accepted_text = f"{fmt.names_text}{' except control characters' if pattern is ANY_NAME else ''}"
        raise InvalidArgument(
            f"{label} does not accept the name {name!r}.", hint=f"Names may contain {accepted_text}."
        )


def _refuse_foreign_placeholders(fmt: ServerFormat, server: Server, origin: str | None) -> None:
    """Refuse placeholders such as `${workspaceFolder}`, `${input:id}` and `{file:path}`, which only some clients fill
    in; others would read them as text or as a variable."""
    label, placeholders = (
        AGENTS[fmt.agent].label,
        FORMATS[origin].syntax.own if origin else EDITOR_PLACEHOLDERS,
    )
    for value in _values(server):
        placeholder = re.search(placeholders, value)
        if placeholder and not re.fullmatch(fmt.syntax.own, placeholder[0]):
            source = AGENTS[origin].label if origin else "an editor such as Cursor"
            raise InvalidArgument(
                f"{label} does not know {placeholder[0]}; only {source} fills it in.",
                hint="Write the actual value instead (`counsel servers add`).",
            )
        placeholder = re.search(fmt.syntax.own, value)
        if placeholder and origin and not re.fullmatch(placeholders, placeholder[0]):
            raise InvalidArgument(
                f"{label} would fill in {placeholder[0]} itself; {AGENTS[origin].label} does not.",
                hint="Write the actual value instead (`counsel servers add`).",
            )


def _values(server: Server) -> tuple[str, ...]:
    strings = (server.command, server.url, server.cwd or "", *server.args)
    return (*strings, *server.env.values(), *server.headers.values())


def untranslatable(
    table: ServerTable, name: str, error: Untranslatable, *, copied: bool = False
) -> InvalidArgument:
    label = AGENTS[table.agent].label
    advice = "Use `counsel servers add` with other values" if copied else "--literal writes values literally"
    return InvalidArgument(
        f"{name!r} cannot be written for {label}: {error}.",
        hint=f"{label} refers to a variable as: {FORMATS[table.agent].syntax.example}. {advice}.",
    )


def secret_warnings(fmt: ServerFormat, table: ServerTable, server: Server) -> list[str]:
    example = fmt.syntax.example
    warnings = []
    if places := secrets.in_command_line(server):
        advice = f"use a variable ({example})" if fmt.syntax.expands else _ADVICE[server.transport == "stdio"]
        warnings.append(
            f"A literal secret in {' and '.join(places)} is visible in process lists and logs; {advice}."
        )
    if table.scope == "project" and (names := secrets.in_file(server)):
        warnings.append(
            f"{', '.join(names)}: a literal secret in a file that is shared with the project; "
            f"use a variable ({example})."
        )
    return warnings


# For agents that expand no references; True: local servers, False: remote servers.
_ADVICE = {
    True: "pass it to the server as a variable (env_vars)",
    False: "send it in a header (bearer_token_env_var or env_http_headers)",
}


def refuse_unusable(fmt: ServerFormat, name: str, entry: Entry) -> None:
    """Refuse an entry that the agent itself could not read."""
    try:
        fmt.read(name, entry)
    except Unreadable as error:
        raise InvalidArgument(f"{AGENTS[fmt.agent].label} could not use {name!r}: {error}.") from None
    if not fields.writable_text(json.dumps(entry, ensure_ascii=False, default=str)):
        raise InvalidArgument(f"{name!r} contains bytes that are not UTF-8.")

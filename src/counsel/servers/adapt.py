"""A server as one agent can have it: refusals and warnings first, then its entry."""

from __future__ import annotations

import json
import re
from typing import Literal, TypeAlias

from counsel.agents.definitions import AGENTS
from counsel.agents.references import EDITORS_WORDS, Untranslatable
from counsel.agents.server_format import TRANSPORTS, Entry, Server, ServerFormat, ServerTable, Unreadable
from counsel.errors import InvalidArgument
from counsel.servers import fields, secrets
from counsel.servers.formats import FORMATS

NameIs: TypeAlias = Literal["new", "copied", "there"]


def fit(
    fmt: ServerFormat, table: ServerTable, server: Server, origin: str | None = None, *, name: NameIs = "new"
) -> tuple[Server, list[str]]:
    """The server as this agent can have it, and what must be said about it; refused when it cannot have it."""
    label = AGENTS[fmt.agent].label
    if name != "there":
        refuse_name(fmt, server.name, copied=name == "copied")
    if server.transport not in TRANSPORTS and origin != fmt.agent:
        raise InvalidArgument(f"{label} cannot be given the transport {server.transport!r}.")
    if server.transport in TRANSPORTS and server.transport not in fmt.transports:
        raise InvalidArgument(
            f"{label} does not speak {server.transport}.",
            hint="Use the server's streamable HTTP address (--transport http), or leave this agent out.",
        )
    warnings = []
    for field, words in fmt.lacks.items():
        if getattr(server, field) not in (None, ()):
            warnings.append(f"{words}; left out.")
            server = server.without(field)
    if unused := fields.of_the_other_kind(server):
        warnings.append(
            f"{label} does not use {', '.join(unused)} of a server with transport {server.transport}."
        )
        server = server.without(*unused)
    if server.extras and origin != fmt.agent:
        warnings.append(f"{label}: {', '.join(server.extras)} left out: fields of another agent.")
        server = server.without("extras")
    _refuse_words_of_others(fmt, server, origin)
    return server, warnings + [f"{words}." for words in fmt.warns(server)] + secret_warnings(
        fmt, table, server
    )


def refuse_name(fmt: ServerFormat, name: str, *, copied: bool = False) -> None:
    """A new name must be one that the agent's own commands take; a copied one, that it loads."""
    label = AGENTS[fmt.agent].label
    pattern = (copied and fmt.loads) or fmt.names
    if name in fmt.reserved:
        raise InvalidArgument(f"{label} keeps the name {name!r} for itself.", hint="Choose another name.")
    if not pattern.fullmatch(name):
        raise InvalidArgument(
            f"{label} does not take the name {name!r}.", hint=f"Names are made of {fmt.names_words}."
        )


def _refuse_words_of_others(fmt: ServerFormat, server: Server, origin: str | None) -> None:
    """`${workspaceFolder}`, `${input:id}`, `{file:path}`: what one client fills in, another takes for text or a variable."""
    label, theirs = AGENTS[fmt.agent].label, FORMATS[origin].syntax.own if origin else EDITORS_WORDS
    for value in _values(server):
        word = re.search(theirs, value)
        if word and not re.fullmatch(fmt.syntax.own, word[0]):
            source = AGENTS[origin].label if origin else "an editor such as Cursor"
            raise InvalidArgument(
                f"{label} does not know {word[0]}; only {source} fills it in.",
                hint="Write what it stands for in its place (`counsel servers add`).",
            )
        word = re.search(fmt.syntax.own, value)
        if word and origin and not re.fullmatch(theirs, word[0]):
            raise InvalidArgument(
                f"{label} would fill in {word[0]} itself; {AGENTS[origin].label} does not.",
                hint="Write what it stands for in its place (`counsel servers add`).",
            )


def _values(server: Server) -> tuple[str, ...]:
    texts = (server.command, server.url, server.cwd or "", *server.args)
    return (*texts, *server.env.values(), *server.headers.values())


def untranslatable(table: ServerTable, name: str, error: Untranslatable) -> InvalidArgument:
    label = AGENTS[table.agent].label
    return InvalidArgument(
        f"{name!r} cannot be written for {label}: {error}.",
        hint=f"{label}'s way to refer to a variable: {FORMATS[table.agent].syntax.example}. "
        "--literal writes values as text.",
    )


def secret_warnings(fmt: ServerFormat, table: ServerTable, server: Server) -> list[str]:
    example = fmt.syntax.example
    warnings = []
    if places := secrets.in_command_line(server):
        offer = f"use a variable ({example})" if fmt.syntax.expands else _OFFERS[server.transport == "stdio"]
        warnings.append(
            f"A literal secret in {' and '.join(places)} is seen in lists of processes and in logs; {offer}."
        )
    if table.scope == "project" and (held := secrets.in_file(server)):
        warnings.append(
            f"{', '.join(held)}: a literal secret in a file that is shared with the project; "
            f"use a variable ({example})."
        )
    return warnings


# Where an agent expands nothing: of a server that is started, and of a remote one.
_OFFERS = {
    True: "let the server have it as a variable (env_vars)",
    False: "send it in a header (bearer_token_env_var or env_http_headers)",
}


def refuse_unusable(fmt: ServerFormat, name: str, entry: Entry) -> None:
    """Never written: what the agent itself could not read."""
    try:
        fmt.read(name, entry)
    except Unreadable as error:
        raise InvalidArgument(f"{AGENTS[fmt.agent].label} could not use {name!r}: {error}.") from None
    if not fields.sayable(json.dumps(entry, ensure_ascii=False, default=str)):
        raise InvalidArgument(f"{name!r} holds text that is not UTF-8.")

"""The options of `counsel servers …`, and their combinations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from counsel.agents.definitions import OTHERS_SCOPES, SCOPES, WITH_SERVERS
from counsel.agents.server_format import Server
from counsel.cli.terminal import name_lists
from counsel.cli.terminal.numbers import Number
from counsel.errors import InvalidArgument
from counsel.servers import fields

Decorated = TypeVar("Decorated", bound=Callable[..., object])
EVERY_SCOPE = (*SCOPES, *OTHERS_SCOPES)
# What `update --unset` removes: the flag's name and the field's.
UNSET = {
    "args": "args",
    "cwd": "cwd",
    "token-env": "token_env",
    "timeout": "timeout",
    "include-tool": "include_tools",
    "exclude-tool": "exclude_tools",
}


def _pairs(
    separator: str, form: str
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, str]]:
    def parse(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for argument in value:
            key, sign, rest = argument.partition(separator)
            if not sign or not key.strip():
                raise click.BadParameter(f"expected {form}.")  # not the value itself: it may hold a secret
            pairs[key.strip()] = rest.strip() if separator == ":" else rest
        return pairs

    return parse


def together(*options: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


agent = name_lists.agents(WITH_SERVERS)
everywhere = click.option(
    "--everywhere",
    is_flag=True,
    help="All clients that are installed or have files here: all of them change, or none.",
)
scope = click.option(
    "--scope",
    "-s",
    type=click.Choice(SCOPES),
    default=None,
    help="Scope of the server's entry; a new entry goes to user.",
)
any_scope = click.option(
    "--scope", "-s", type=click.Choice(EVERY_SCOPE), default=None, help="Use only servers of this scope."
)
project = click.option(
    "--project",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="The project's folder [the current one].",
)
dry_run = click.option("--dry-run", is_flag=True, help="Show the exact changes; write nothing.")
reveal = click.option("--reveal", is_flag=True, help="Show secrets unmasked.")
places = together(agent, everywhere, scope, project)
any_places = together(agent, everywhere, any_scope, project)
server_fields = together(
    click.option(
        "--env",
        "-e",
        multiple=True,
        callback=_pairs("=", "NAME=value"),
        metavar="NAME=VALUE",
        help="Environment variable for the server.",
    ),
    click.option("--cwd", default=None, help="The server's working folder."),
    click.option("--url", default=None, help="The address of a remote server."),
    click.option(
        "--transport",
        "-t",
        type=click.Choice(["stdio", "http", "sse"]),
        default=None,
        help="Transport [stdio for a command, http for a url].",
    ),
    click.option(
        "--header",
        "-H",
        "headers",
        multiple=True,
        callback=_pairs(":", "'Name: value'"),
        metavar="'NAME: VALUE'",
        help="An HTTP header for a remote server.",
    ),
    click.option(
        "--token-env", default=None, metavar="NAME", help="Environment variable with the bearer token."
    ),
    click.option(
        "--timeout",
        type=Number(min=0, min_open=True),
        default=None,
        help="Time limit of one tool call, in seconds.",
    ),
    click.option("--include-tool", "include_tools", multiple=True, help="Allow only these tools."),
    click.option("--exclude-tool", "exclude_tools", multiple=True, help="Forbid these tools."),
)
literal = click.option(
    "--literal",
    is_flag=True,
    help="Write $NAME and ${NAME} in values literally, not as references to variables.",
)
command = click.argument("command", nargs=-1, type=click.UNPROCESSED)


def chosen_agents(agents: tuple[str, ...], *, everywhere: bool) -> tuple[str, ...] | None:
    if agents and everywhere:
        raise click.UsageError("Use --agent or --everywhere, not both.")
    return tuple(WITH_SERVERS) if everywhere else agents or None


def agent_and_scope(text: str, scope: str | None) -> tuple[str, str | None]:
    agent, _, scope_name = text.strip().partition(":")
    if agent not in WITH_SERVERS:
        raise click.UsageError(f"{agent!r} is not an agent; agents: {', '.join(WITH_SERVERS)}.")
    if scope_name and scope_name not in EVERY_SCOPE:
        raise click.UsageError(f"{scope_name!r} is not a scope; scopes: {', '.join(EVERY_SCOPE)}.")
    return agent, scope_name or scope


def from_flags(name: str | None, values: Mapping[str, object], *, literal: bool) -> Server:
    if not name:
        raise click.UsageError("The name is missing: counsel servers add NAME …")
    if bool(values.get("command")) == bool(values.get("url")):
        raise click.UsageError("Give the server: -- COMMAND ARG…, or --url URL, or --from FILE.")
    return fields.new_server(name, values, literal=literal)


MOST_PASTED = 4 * 1024 * 1024


def read(source: TextIO) -> str:
    try:
        text = source.read(MOST_PASTED + 1)
    except UnicodeDecodeError:
        raise InvalidArgument("The pasted text is not UTF-8.") from None
    if len(text) > MOST_PASTED:
        raise InvalidArgument(
            f"The pasted text has more than {MOST_PASTED:,} characters: it cannot be a server's entry."
        )
    return text


def fields_of(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags that were given, as the fields of a server."""
    values = {key: value for key, value in flags.items() if value not in (None, (), {})}
    if command := values.pop("command", None):
        values |= {"command": command[0], "args": command[1:]}
    return values

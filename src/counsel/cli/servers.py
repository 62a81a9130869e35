"""`counsel servers …`: the agents' MCP servers from one place."""

from __future__ import annotations

import gc
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from counsel.agents.base import AGENTS, place
from counsel.agents.serverform import Server
from counsel.cli import json_option, output
from counsel.doors.place import home
from counsel.servers import fields, pasted
from counsel.servers.listing import Found, Listing
from counsel.servers.service import EVERY_AGENT, Applied, Servers

if TYPE_CHECKING:
    from counsel.servers.planning import Plan

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
SCOPES = ("user", "local", "project")


def _agents(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(name.strip() for given in value for name in given.split(",") if name.strip())
    for name in names:
        if name not in AGENTS:
            raise click.BadParameter(f"{name!r} is no agent; agents are {', '.join(AGENTS)}.")
    return names


def _pairs(
    separator: str, words: str
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, str]]:
    def parse(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
        found: dict[str, str] = {}
        for given in value:
            key, mark, rest = given.partition(separator)
            if not mark or not key.strip():
                raise click.BadParameter(f"write {words}.")  # not the text itself: it may hold a secret
            found[key.strip()] = rest.strip() if separator == ":" else rest
        return found

    return parse


def _options(*options: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_agent = click.option(
    "--agent",
    "-a",
    "agents",
    multiple=True,
    callback=_agents,
    help="claude, codex, gemini, cursor; several with commas.",
)
_everywhere = click.option("--everywhere", is_flag=True, help="Every agent, all or none.")
_scope = click.option("--scope", "-s", type=click.Choice(SCOPES), default=None, help="Where it is kept.")
_project = click.option(
    "--project",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="The project's folder [this one].",
)
_dry_run = click.option("--dry-run", is_flag=True, help="Show the exact changes and write nothing.")
_reveal = click.option("--reveal", is_flag=True, help="Show secrets as they are.")
_places = _options(_agent, _everywhere, _scope, _project)
_server_fields = _options(
    click.option(
        "--env",
        "-e",
        multiple=True,
        callback=_pairs("=", "NAME=value"),
        metavar="NAME=VALUE",
        help="A variable for the server.",
    ),
    click.option("--cwd", default=None, help="The folder in which the server is started."),
    click.option("--url", default=None, help="The address of a remote server."),
    click.option("--transport", "-t", type=click.Choice(["stdio", "http", "sse"]), default=None),
    click.option(
        "--header",
        "-H",
        "headers",
        multiple=True,
        callback=_pairs(":", "'Name: value'"),
        metavar="'NAME: VALUE'",
    ),
    click.option("--token-env", default=None, metavar="NAME", help="The variable that holds a bearer token."),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=None,
        help="Seconds for one tool call.",
    ),
    click.option("--include-tool", "include_tools", multiple=True, help="Allow only these tools."),
    click.option("--exclude-tool", "exclude_tools", multiple=True, help="Forbid these tools."),
)
_command = click.argument("command", nargs=-1, type=click.UNPROCESSED)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def servers() -> None:
    """List, add, change, check the MCP servers of Claude Code, Codex, Gemini CLI and Cursor.

    Only the intended bytes of a file change; every write can be undone.
    """
    gc.disable()  # a short life with a million objects from one ~/.claude.json: collecting would double its time


@servers.command("list")
@_options(_agent, _scope, _project, _reveal)
@json_option
def list_(
    agents: tuple[str, ...], scope: str | None, project: Path | None, reveal: bool, as_json: bool
) -> None:
    """All servers of all agents: which scope, which file, what shadows, what differs."""
    found = _here(project).listing(agents or EVERY_AGENT, scope)
    if as_json:
        output.document(found.as_dict(reveal=reveal))
    else:
        _print_listing(found, reveal=reveal)


@servers.command()
@click.argument("name")
@_options(_agent, _scope, _project, _reveal)
@json_option
def show(
    name: str, agents: tuple[str, ...], scope: str | None, project: Path | None, reveal: bool, as_json: bool
) -> None:
    """One server, at every place that has it."""
    found = _here(project).find(name, agents or EVERY_AGENT, scope)
    rows = [one.as_dict(reveal=reveal) for one in found]
    if as_json:
        output.document({"servers": rows})
        return
    for row in rows:
        click.echo(f"{row['name']}: {AGENTS[row['agent']].label}, {row['scope']} ({row['path']})")
        for key, value in row.items():
            if key not in {"name", "agent", "scope", "path", "writable"} and value not in (None, [], {}):
                click.echo(f"  {key}: {_words(value)}")


@servers.command()
@click.argument("name", required=False)
@_command
@_places
@_server_fields
@click.option(
    "--from", "source", type=click.File("r"), help="A file with JSON or TOML of any agent's form; - is stdin."
)
@click.option("--replace", "replaces", is_flag=True, help="Put it in the place of a server of the same name.")
@_dry_run
@json_option
def add(
    name: str | None,
    agents: tuple[str, ...],
    everywhere: bool,
    scope: str | None,
    project: Path | None,
    source: Any,
    replaces: bool,
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Add a server.

    \b
    counsel servers add NAME --agent claude,codex -- COMMAND ARG…
    counsel servers add NAME --everywhere --url https://… [--token-env NAME]
    counsel servers add --agent gemini --from pasted.json
    """
    chosen = _chosen_agents(agents, everywhere=everywhere)
    if not chosen:
        raise click.UsageError("Say which agents: --agent claude,codex or --everywhere.")
    given = _given(flags)
    if source is not None:
        found, origin = pasted.servers(source.read(), name)
        found = [fields.patched(server, given) for server in found]
    else:
        found, origin = [_from_flags(name, given)], None
    done = _here(project).add(
        found, chosen, scope or "user", origin=origin, replace=replaces, dry_run=dry_run
    )
    _print_applied(done, as_json=as_json)


@servers.command()
@click.argument("name")
@_command
@_places
@_server_fields
@click.option("--remove-env", multiple=True, metavar="NAME", help="Take a variable out.")
@click.option("--remove-header", multiple=True, metavar="NAME", help="Take a header out.")
@_dry_run
@json_option
def update(
    name: str,
    agents: tuple[str, ...],
    everywhere: bool,
    scope: str | None,
    project: Path | None,
    remove_env: tuple[str, ...],
    remove_header: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Change the named fields of a server; all others stay as they are."""
    given = _given(flags)
    for name_of, gone in (("env", remove_env), ("headers", remove_header)):
        if gone:
            given[name_of] = {**dict.fromkeys(gone), **given.get(name_of, {})}
    if not given:
        raise click.UsageError("Say what to change, such as --url or -e NAME=value.")

    def change(server: Server) -> Server:
        return fields.patched(server, given)

    done = _here(project).update(
        name, change, _chosen_agents(agents, everywhere=everywhere), scope, dry_run=dry_run
    )
    _print_applied(done, as_json=as_json)


@servers.command()
@click.argument("name")
@_places
@_dry_run
@json_option
def remove(
    name: str,
    agents: tuple[str, ...],
    everywhere: bool,
    scope: str | None,
    project: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Take a server out."""
    chosen = _chosen_agents(agents, everywhere=everywhere)
    _print_applied(_here(project).remove(name, chosen, scope, dry_run=dry_run), as_json=as_json)


@servers.command()
@click.argument("name")
@click.option("--from", "source", required=True, metavar="AGENT[:SCOPE]", help="Where it is now.")
@click.option(
    "--to", required=True, multiple=True, metavar="AGENT[:SCOPE]", help="Where it shall be, too [:user]."
)
@click.option(
    "--scope", "-s", type=click.Choice(SCOPES), default=None, help="The scope at --to where it says none."
)
@_project
@click.option("--replace", "replaces", is_flag=True, help="Put it in the place of a server of the same name.")
@_dry_run
@json_option
def copy(
    name: str,
    source: str,
    to: tuple[str, ...],
    scope: str | None,
    project: Path | None,
    replaces: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Copy a server to other agents or scopes; references to variables are translated.

    \b
    counsel servers copy NAME --from claude --to codex,gemini
    counsel servers copy NAME --from claude:project --to claude:user
    """
    goals = [_agent_and_scope(one, scope or "user") for given in to for one in given.split(",")]
    agent, from_scope = _agent_and_scope(source, None)
    done = _here(project).copy(
        name,
        (agent, from_scope),
        [(goal, where or "user") for goal, where in goals],
        replace=replaces,
        dry_run=dry_run,
    )
    _print_applied(done, as_json=as_json)


def _switch(*, enabled: bool) -> Callable[..., None]:
    def command(
        name: str,
        agents: tuple[str, ...],
        everywhere: bool,
        scope: str | None,
        project: Path | None,
        dry_run: bool,
        as_json: bool,
    ) -> None:
        chosen = _chosen_agents(agents, everywhere=everywhere)
        done = _here(project).switch(name, enabled, chosen, scope, dry_run=dry_run)
        _print_applied(done, as_json=as_json)

    return command


for _name, _on, _help in (
    ("enable", True, "Switch a server on, each client's own way."),
    ("disable", False, "Switch a server off and keep it, each client's own way."),
):
    _body = json_option(_dry_run(_places(click.argument("name")(_switch(enabled=_on)))))
    servers.add_command(click.command(_name, help=_help)(_body))


@servers.command()
@click.argument("name", required=False)
@_options(_agent, _scope, _project)
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=30.0, show_default=True, help="Seconds per server."
)
@json_option
def check(
    name: str | None,
    agents: tuple[str, ...],
    scope: str | None,
    project: Path | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Connect to servers, as their agents would, and ask for their tools."""
    from counsel.cli import servers_check

    ok = servers_check.run(_here(project), name, agents or EVERY_AGENT, scope, timeout, as_json=as_json)
    if not ok:
        click.get_current_context().exit(1)


@servers.command()
@click.argument("id", required=False)
@click.option("--list", "listed", is_flag=True, help="Show what can be undone.")
@_dry_run
@json_option
def undo(id: str | None, listed: bool, dry_run: bool, as_json: bool) -> None:  # noqa: A002 - the option's name
    """Take back the last change, or one by its id, and nothing else."""
    here = _here(None)
    if listed:
        _print_history(here, as_json=as_json)
        return
    operation, plan, done = here.undo(id, dry_run=dry_run)
    if as_json:
        output.document({"undone": operation.as_dict(), **plan.as_dict(dry_run=dry_run, operation=done)})
        return
    _print_diffs(plan, dry_run=dry_run)
    click.echo(f"{'Would undo' if dry_run else 'Undone'}: {operation.what} ({operation.id})")


def _here(project: Path | None) -> Servers:
    """`Servers.here`, without the settings that these commands do not need."""
    folder = Path(os.path.abspath(project or Path.cwd()))  # noqa: PTH100 - links stay, as clients see them
    return Servers(place(os.environ, folder), Path(home(os.environ)))


# ── from flags ───────────────────────────────────────────────────────────────────────────────────────


def _chosen_agents(agents: tuple[str, ...], *, everywhere: bool) -> tuple[str, ...] | None:
    if agents and everywhere:
        raise click.UsageError("--agent and --everywhere exclude each other.")
    return EVERY_AGENT if everywhere else agents or None


def _agent_and_scope(text: str, scope: str | None) -> tuple[str, str | None]:
    agent, _, named = text.strip().partition(":")
    if agent not in AGENTS:
        raise click.UsageError(f"{agent!r} is no agent; agents are {', '.join(AGENTS)}.")
    if named and named not in SCOPES:
        raise click.UsageError(f"{named!r} is no scope; scopes are {', '.join(SCOPES)}.")
    return agent, named or scope


def _from_flags(name: str | None, given: dict[str, Any]) -> Server:
    if not name:
        raise click.UsageError("A name is missing: counsel servers add NAME …")
    if bool(given.get("command")) == bool(given.get("url")):
        raise click.UsageError("Say what it is: -- COMMAND ARG…, or --url URL, or --from FILE.")
    return fields.made(name, given)


def _given(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags that were used, as the fields of a server."""
    used = {key: value for key, value in flags.items() if value not in (None, (), {})}
    if command := used.pop("command", None):
        used |= {"command": command[0], "args": command[1:]}
    return used


# ── words ────────────────────────────────────────────────────────────────────────────────────────────


def _print_listing(found: Listing, *, reveal: bool) -> None:
    groups: dict[str, list[Found]] = defaultdict(list)
    for one in found.servers:
        groups[one.scope].append(one)
    if not found.servers:
        output.words("No agent has an MCP server here.")
    for scope in SCOPES:
        if groups[scope]:
            click.echo(f"{scope.capitalize()}")
            output.table(["server", *AGENTS, "what", "notes"], _matrix(groups[scope], reveal=reveal))
            for path in dict.fromkeys(str(one.home.target.path) for one in groups[scope]):
                click.echo(f"  {path}")
            click.echo()
    _print_problems(found)


def _matrix(rows: list[Found], *, reveal: bool) -> list[list[str]]:
    by_name: dict[str, list[Found]] = defaultdict(list)
    for one in rows:
        by_name[one.server.name].append(one)
    return [_row(name, same, reveal=reveal) for name, same in by_name.items()]


def _row(name: str, same: list[Found], *, reveal: bool) -> list[str]:
    first = same[0].as_dict(reveal=reveal)
    what = first["url"] or " ".join([first["command"] or "", *first["args"]])
    cells = [" ".join(_cell(one) for one in same if one.agent == agent) for agent in AGENTS]
    notes = [f"differs: {', '.join(same[0].drift)}"] if same[0].drift else []
    notes += [f"{one.agent}: shadowed by {one.shadowed_by}" for one in same if one.shadowed_by]
    return [name, *cells, f"{first['transport']} {what}", "; ".join(notes)]


def _cell(one: Found) -> str:
    return "on" if one.server.enabled else "off"


def _print_problems(found: Listing) -> None:
    for problem in found.problems:
        name = f" {problem['name']}:" if "name" in problem else ""
        where = "" if problem["path"] in problem["error"] else f"{problem['path']}:"
        output.words(f"problem: {where}{name} {problem['error']}")


def _print_applied(done: Applied, *, as_json: bool) -> None:
    if as_json:
        output.document(done.as_dict())
        return
    _print_diffs(done.plan, dry_run=done.dry_run)
    for result in done.plan.results:
        words = f"would be {result.action}" if done.dry_run else result.action
        click.echo(f"{AGENTS[result.agent].label}: {result.name} {words} ({result.scope}, {result.path})")
        for warning in result.warnings:
            output.words(f"  note: {warning}")
    if done.id:
        output.words(f"counsel servers undo {done.id} takes this back")


def _print_diffs(plan: Plan, *, dry_run: bool) -> None:
    if dry_run:
        for one in plan.diffs():
            sys.stdout.write(one["diff"])


def _print_history(here: Servers, *, as_json: bool) -> None:
    known = here.history()
    if as_json:
        output.document({"operations": [one.as_dict() for one in known]})
        return
    for one in known:
        click.echo(f"{one.id}  {one.what}  {', '.join(str(entry.target.path) for entry in one.entries)}")


def _words(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return str(value)

"""`counsel servers …`: the MCP servers of all agents."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from counsel import paths
from counsel.agents.definitions import SCOPES, WITH_SERVERS, workspace_of
from counsel.agents.server_format import Server
from counsel.cli import ListingGroup, completers, json_option
from counsel.cli.servers import options as option
from counsel.cli.servers import output as printing
from counsel.cli.terminal import output
from counsel.cli.terminal.numbers import Number
from counsel.configfiles.write.safewrite import Reader
from counsel.run_paths import home
from counsel.servers import fields, paste
from counsel.servers.service import Servers


@click.group(cls=ListingGroup, context_settings={"help_option_names": ["-h", "--help"]})
def servers() -> None:
    """List, add, change and check the MCP servers of Claude Code, Codex, Gemini CLI, Cursor, OpenCode and VS Code.

    Without a verb: the list. Only the intended bytes of a file change; every write can be undone.
    """
    gc.disable()  # one ~/.claude.json can make a million objects: collecting garbage would double the run time


@servers.command("list", short_help="List all servers of all agents, by scope.")
@option.together(option.agent, option.any_scope, option.project, option.reveal)
@json_option
def list_(
    agents: tuple[str, ...], scope: str | None, project: Path | None, reveal: bool, as_json: bool
) -> None:
    """List all servers of all agents: scopes, files, shadowed entries and differences between agents."""
    service = _service(project)
    listing = service.listing(agents or WITH_SERVERS, scope)
    if as_json:
        output.document(listing.as_dict(reveal=reveal))
    else:
        printing.print_listing(listing, agents or service.present("project"), reveal=reveal)


@servers.command()
@click.argument("name", shell_complete=completers.servers)
@option.together(option.agent, option.any_scope, option.project, option.reveal)
@json_option
def show(
    name: str, agents: tuple[str, ...], scope: str | None, project: Path | None, reveal: bool, as_json: bool
) -> None:
    """Show one server, wherever it is configured."""
    matches = _service(project).find(name, agents or WITH_SERVERS, scope)
    rows = [row.as_dict(reveal=reveal) for row in matches]
    if as_json:
        output.document({"servers": rows})
    else:
        printing.print_places(rows)


@servers.command()
@click.argument("name", required=False)
@option.command
@option.places
@option.server_fields
@click.option(
    "--from",
    "source",
    type=click.File("r"),
    help="Read JSON or TOML in any agent's format from this file; - is stdin.",
)
@option.literal
@click.option("--replace", "replaces", is_flag=True, help="Replace an existing server of the same name.")
@option.dry_run
@json_option
def add(
    name: str | None,
    agents: tuple[str, ...],
    everywhere: bool,
    scope: str | None,
    project: Path | None,
    source: Any,
    literal: bool,
    replaces: bool,
    dry_run: bool,
    as_json: bool,
    **flags: object,
) -> None:
    """Add a server.

    \b
    counsel servers add NAME --agent claude,codex -- COMMAND ARG…
    counsel servers add NAME --everywhere --url https://… [--token-env NAME]
    counsel servers add --agent gemini --from pasted.json
    """
    if not option.chosen_agents(agents, everywhere=everywhere):
        raise click.UsageError("Name the agents: --agent claude,codex or --everywhere.")
    values = option.fields_of(flags)
    if source is not None:
        new, origin = paste.servers(option.read(source), name)
        new = [fields.patched(server, values, literal=literal) for server in new]
    else:
        new, origin = [option.from_flags(name, values, literal=literal)], None
    outcome = _service(project).add(
        new,
        agents or None,
        scope or "user",
        origin=origin,
        replace=replaces,
        notes=fields.reference_notes(values, literal=literal),
        dry_run=dry_run,
    )
    printing.print_applied(outcome, as_json=as_json)


@servers.command()
@click.argument("name", shell_complete=completers.servers)
@option.command
@option.places
@option.server_fields
@click.option("--remove-env", multiple=True, metavar="NAME", help="Remove a variable.")
@click.option("--remove-header", multiple=True, metavar="NAME", help="Remove a header.")
@click.option("--unset", multiple=True, type=click.Choice(option.UNSET), help="Remove a field.")
@option.literal
@option.dry_run
@json_option
def update(
    name: str,
    agents: tuple[str, ...],
    everywhere: bool,
    scope: str | None,
    project: Path | None,
    remove_env: tuple[str, ...],
    remove_header: tuple[str, ...],
    unset: tuple[str, ...],
    literal: bool,
    dry_run: bool,
    as_json: bool,
    **flags: object,
) -> None:
    """Change fields of a server; all others stay unchanged."""
    values = option.fields_of(flags)
    for field, names in (("env", remove_env), ("headers", remove_header)):
        if names:
            values[field] = {**dict.fromkeys(names), **values.get(field, {})}
    values = {**dict.fromkeys(option.UNSET[name] for name in unset), **values}
    if not values:
        raise click.UsageError("Nothing to change: give a field, such as --url or -e NAME=value.")

    def change(server: Server) -> Server:
        return fields.patched(server, values, literal=literal)

    targets = option.chosen_agents(agents, everywhere=everywhere)
    notes = fields.reference_notes(values, literal=literal)
    outcome = _service(project).update(name, change, targets, scope, notes=notes, dry_run=dry_run)
    printing.print_applied(outcome, as_json=as_json)


@servers.command()
@click.argument("name", shell_complete=completers.servers)
@option.places
@option.dry_run
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
    """Remove a server."""
    targets = option.chosen_agents(agents, everywhere=everywhere)
    printing.print_applied(_service(project).remove(name, targets, scope, dry_run=dry_run), as_json=as_json)


@servers.command()
@click.argument("name", shell_complete=completers.servers)
@click.argument("to", metavar="NEW_NAME")
@option.places
@option.dry_run
@json_option
def rename(
    name: str,
    to: str,
    agents: tuple[str, ...],
    everywhere: bool,
    scope: str | None,
    project: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Rename a server; nothing else about its entry changes."""
    targets = option.chosen_agents(agents, everywhere=everywhere)
    printing.print_applied(
        _service(project).rename(name, to, targets, scope, dry_run=dry_run), as_json=as_json
    )


@servers.command(short_help="Copy a server to other agents or scopes.")
@click.argument("name", shell_complete=completers.servers)
@click.option("--from", "source", required=True, metavar="AGENT[:SCOPE]", help="Source agent and scope.")
@click.option(
    "--to", required=True, multiple=True, metavar="AGENT[:SCOPE]", help="Destination agent and scope [:user]."
)
@click.option(
    "--scope",
    "-s",
    type=click.Choice(SCOPES),
    default=None,
    help="Scope of destinations without one.",
)
@option.project
@click.option("--replace", "replaces", is_flag=True, help="Replace an existing server of the same name.")
@option.dry_run
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
    destinations = [
        option.agent_and_scope(destination, scope or "user")
        for argument in to
        for destination in argument.split(",")
    ]
    agent, from_scope = option.agent_and_scope(source, None)
    outcome = _service(project).copy(
        name,
        (agent, from_scope),
        [(to_agent, to_scope or "user") for to_agent, to_scope in destinations],
        replace=replaces,
        dry_run=dry_run,
    )
    printing.print_applied(outcome, as_json=as_json)


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
        targets = option.chosen_agents(agents, everywhere=everywhere)
        outcome = _service(project).switch(name, enabled, targets, scope, dry_run=dry_run)
        printing.print_applied(outcome, as_json=as_json)

    return command


for _name, _on, _help in (
    ("enable", True, "Enable a server, by each client's own mechanism."),
    ("disable", False, "Disable a server, by each client's own mechanism."),
):
    _body = json_option(
        option.dry_run(
            option.any_places(click.argument("name", shell_complete=completers.servers)(_switch(enabled=_on)))
        )
    )
    servers.add_command(click.command(_name, help=_help)(_body))


@servers.command(short_help="Connect to servers and list their tools.")
@click.argument("name", required=False, shell_complete=completers.servers)
@option.together(option.agent, option.any_scope, option.project)
@click.option("--timeout", type=Number(min=0.1), default=30.0, show_default=True, help="Seconds per server.")
@click.option(
    "--trust-folder",
    is_flag=True,
    help="Trust the project's folder for this run: its own servers may start, and the others start there.",
)
@json_option
def check(
    name: str | None,
    agents: tuple[str, ...],
    scope: str | None,
    project: Path | None,
    timeout: float,
    trust_folder: bool,
    as_json: bool,
) -> None:
    """Connect to servers as their agents would, and list their tools.

    Servers from a repository's own files start only by NAME or with --scope project, and only in a folder that
    an agent was told to trust. If no agent trusts the folder, your own servers start in an empty folder instead.
    """
    from counsel.cli.servers import check as servers_check

    ok = servers_check.run(
        _service(project),
        name,
        agents or WITH_SERVERS,
        scope,
        timeout,
        trust_folder=trust_folder,
        as_json=as_json,
    )
    if not ok:
        click.get_current_context().exit(1)


@servers.command()
@click.argument("id", required=False)
@click.option("--list", "as_list", is_flag=True, help="List the changes that can be undone.")
@option.dry_run
@json_option
def undo(id: str | None, as_list: bool, dry_run: bool, as_json: bool) -> None:  # noqa: A002 - the option's name
    """Undo the last change, or the one with this ID, and nothing else."""
    service = _service(None)
    if as_list:
        printing.print_history(service, as_json=as_json)
        return
    operation, plan, undo_id = service.undo(id, dry_run=dry_run)
    if as_json:
        output.document({"undone": operation.as_dict(), **plan.as_dict(dry_run=dry_run, operation=undo_id)})
        return
    printing.print_diffs(plan, dry_run=dry_run)
    if not any(write.changes for write in plan.writes):
        output.message("the files no longer contain this change")
    output.line(f"{'Would undo' if dry_run else 'Undone'}: {operation.what} ({operation.id})")


def _service(project: Path | None) -> Servers:
    """`Servers.here`, without the settings that these commands do not need."""
    folder = Path(os.path.abspath(project or paths.current_folder()))  # noqa: PTH100 - keeps links, as the clients do
    return Servers(workspace_of(os.environ, folder), Path(home(os.environ)), _reader)


def _reader() -> Reader:
    """A reader that stays referenced until the process ends: freeing the objects of a large file costs 10 ms."""
    _readers.append(Reader())
    return _readers[-1]


_readers: list[Reader] = []

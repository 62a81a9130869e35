"""`counsel servers …`: the agents' MCP servers from one place."""

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
from counsel.cli import json_option, output
from counsel.cli import servers_options as option
from counsel.cli import servers_output as words
from counsel.configfiles.write.safewrite import Reader
from counsel.front.run_paths import home
from counsel.servers import fields, paste
from counsel.servers.service import Servers


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def servers() -> None:
    """List, add, change, check the MCP servers of Claude Code, Codex, Gemini CLI, Cursor, OpenCode and VS Code.

    Only the intended bytes of a file change; every write can be undone.
    """
    gc.disable()  # a short life with a million objects from one ~/.claude.json: collecting would double its time


@servers.command("list", short_help="All servers of all agents, by scope.")
@option.together(option.agent, option.any_scope, option.project, option.reveal)
@json_option
def list_(
    agents: tuple[str, ...], scope: str | None, project: Path | None, reveal: bool, as_json: bool
) -> None:
    """All servers of all agents: which scope, which file, what shadows, what differs."""
    here = _here(project)
    found = here.listing(agents or WITH_SERVERS, scope)
    if as_json:
        output.document(found.as_dict(reveal=reveal))
    else:
        words.print_listing(found, agents or here.present("project"), reveal=reveal)


@servers.command()
@click.argument("name")
@option.together(option.agent, option.any_scope, option.project, option.reveal)
@json_option
def show(
    name: str, agents: tuple[str, ...], scope: str | None, project: Path | None, reveal: bool, as_json: bool
) -> None:
    """One server, at every place that has it."""
    found = _here(project).find(name, agents or WITH_SERVERS, scope)
    rows = [one.as_dict(reveal=reveal) for one in found]
    if as_json:
        output.document({"servers": rows})
    else:
        words.print_places(rows)


@servers.command()
@click.argument("name", required=False)
@option.command
@option.places
@option.server_fields
@click.option(
    "--from", "source", type=click.File("r"), help="A file with JSON or TOML of any agent's form; - is stdin."
)
@option.literal
@click.option("--replace", "replaces", is_flag=True, help="Put it in the place of a server of the same name.")
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
    **flags: Any,
) -> None:
    """Add a server.

    \b
    counsel servers add NAME --agent claude,codex -- COMMAND ARG…
    counsel servers add NAME --everywhere --url https://… [--token-env NAME]
    counsel servers add --agent gemini --from pasted.json
    """
    if not option.chosen_agents(agents, everywhere=everywhere):
        raise click.UsageError("Say which agents: --agent claude,codex or --everywhere.")
    given = option.given(flags)
    if source is not None:
        found, origin = paste.servers(option.read(source), name)
        found = [fields.patched(server, given, literal=literal) for server in found]
    else:
        found, origin = [option.from_flags(name, given, literal=literal)], None
    done = _here(project).add(
        found,
        agents or None,
        scope or "user",
        origin=origin,
        replace=replaces,
        notes=fields.reference_notes(given, literal=literal),
        dry_run=dry_run,
    )
    words.print_applied(done, as_json=as_json)


@servers.command()
@click.argument("name")
@option.command
@option.places
@option.server_fields
@click.option("--remove-env", multiple=True, metavar="NAME", help="Take a variable out.")
@click.option("--remove-header", multiple=True, metavar="NAME", help="Take a header out.")
@click.option("--unset", multiple=True, type=click.Choice(option.UNSET), help="Take a field out.")
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
    **flags: Any,
) -> None:
    """Change the named fields of a server; all others stay as they are."""
    given = option.given(flags)
    for name_of, gone in (("env", remove_env), ("headers", remove_header)):
        if gone:
            given[name_of] = {**dict.fromkeys(gone), **given.get(name_of, {})}
    given = {**dict.fromkeys(option.UNSET[name] for name in unset), **given}
    if not given:
        raise click.UsageError("Say what to change, such as --url or -e NAME=value.")

    def change(server: Server) -> Server:
        return fields.patched(server, given, literal=literal)

    chosen = option.chosen_agents(agents, everywhere=everywhere)
    notes = fields.reference_notes(given, literal=literal)
    done = _here(project).update(name, change, chosen, scope, notes=notes, dry_run=dry_run)
    words.print_applied(done, as_json=as_json)


@servers.command()
@click.argument("name")
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
    """Take a server out."""
    chosen = option.chosen_agents(agents, everywhere=everywhere)
    words.print_applied(_here(project).remove(name, chosen, scope, dry_run=dry_run), as_json=as_json)


@servers.command()
@click.argument("name")
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
    """Give a server another name; its entry stays where and as it is."""
    chosen = option.chosen_agents(agents, everywhere=everywhere)
    words.print_applied(_here(project).rename(name, to, chosen, scope, dry_run=dry_run), as_json=as_json)


@servers.command(short_help="Copy a server to other agents or scopes.")
@click.argument("name")
@click.option("--from", "source", required=True, metavar="AGENT[:SCOPE]", help="Where it is now.")
@click.option(
    "--to", required=True, multiple=True, metavar="AGENT[:SCOPE]", help="Where it shall be, too [:user]."
)
@click.option(
    "--scope",
    "-s",
    type=click.Choice(SCOPES),
    default=None,
    help="The scope at --to where it says none.",
)
@option.project
@click.option("--replace", "replaces", is_flag=True, help="Put it in the place of a server of the same name.")
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
    goals = [option.agent_and_scope(one, scope or "user") for given in to for one in given.split(",")]
    agent, from_scope = option.agent_and_scope(source, None)
    done = _here(project).copy(
        name,
        (agent, from_scope),
        [(goal, where or "user") for goal, where in goals],
        replace=replaces,
        dry_run=dry_run,
    )
    words.print_applied(done, as_json=as_json)


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
        chosen = option.chosen_agents(agents, everywhere=everywhere)
        done = _here(project).switch(name, enabled, chosen, scope, dry_run=dry_run)
        words.print_applied(done, as_json=as_json)

    return command


for _name, _on, _help in (
    ("enable", True, "Switch a server on, each client's own way."),
    ("disable", False, "Switch a server off and keep it, each client's own way."),
):
    _body = json_option(option.dry_run(option.any_places(click.argument("name")(_switch(enabled=_on)))))
    servers.add_command(click.command(_name, help=_help)(_body))


@servers.command(short_help="Connect to servers and ask for their tools.")
@click.argument("name", required=False)
@option.together(option.agent, option.any_scope, option.project)
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=30.0, show_default=True, help="Seconds per server."
)
@click.option(
    "--trust-folder",
    is_flag=True,
    help="Trust the project's folder this once: start its own servers, and the others in it.",
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
    """Connect to servers, as their agents would, and ask for their tools.

    What a repository brings in files of its own is started only by NAME or with --scope project, and only in a
    folder that an agent was told to trust. Elsewhere the user's own servers are started in an empty folder.
    """
    from counsel.cli import servers_check

    ok = servers_check.run(
        _here(project),
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
@click.option("--list", "listed", is_flag=True, help="Show what can be undone.")
@option.dry_run
@json_option
def undo(id: str | None, listed: bool, dry_run: bool, as_json: bool) -> None:  # noqa: A002 - the option's name
    """Take back the last change, or one by its id, and nothing else."""
    here = _here(None)
    if listed:
        words.print_history(here, as_json=as_json)
        return
    operation, plan, done = here.undo(id, dry_run=dry_run)
    if as_json:
        output.document({"undone": operation.as_dict(), **plan.as_dict(dry_run=dry_run, operation=done)})
        return
    words.print_diffs(plan, dry_run=dry_run)
    if not any(one.changes for one in plan.writes):
        output.message("nothing is left of it in the files")
    output.line(f"{'Would undo' if dry_run else 'Undone'}: {operation.what} ({operation.id})")


def _here(project: Path | None) -> Servers:
    """`Servers.here`, without the settings that these commands do not need."""
    folder = Path(os.path.abspath(project or paths.current_folder()))  # noqa: PTH100 - links stay, as clients see them
    return Servers(workspace_of(os.environ, folder), Path(home(os.environ)), _reader)


def _reader() -> Reader:
    """Kept to the end of the process, which is near: to take the objects of a large file apart costs 10 ms."""
    _kept.append(Reader())
    return _kept[-1]


_kept: list[Reader] = []

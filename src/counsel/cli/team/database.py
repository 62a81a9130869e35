"""`counsel database`: check whether a PostgreSQL database fits this release, migrate it, import history."""

from __future__ import annotations

from typing import Any

import click

from counsel.cli import CommandRow, LazyGroup, json_option, user
from counsel.cli.terminal import output
from counsel.errors import InvalidArgument

ROWS = {
    "status": CommandRow(
        "counsel.cli.team.database:status", "Show whether this release can use the database."
    ),
    "migrate": CommandRow("counsel.cli.team.database:migrate", "Create or upgrade counsel's tables."),
    "import": CommandRow("counsel.cli.team.database_import:import_", "Import a person's own history."),
}


@click.group(cls=LazyGroup, rows=ROWS)
def database() -> None:
    """Prepare a PostgreSQL database that several servers share. Needs `pip install 'counsel[team]'`.

    The address is COUNSEL_DATABASE, the setting `database`, or --database. Put a password in one of the first two or
    in ~/.pgpass: other users of this machine can see the command line.
    """


address_option = click.option(
    "--database", "url", metavar="URL", help="postgresql://USER@HOST/NAME; default: COUNSEL_DATABASE."
)


@click.command()
@address_option
@json_option
@click.pass_context
def status(ctx: click.Context, *, url: str | None, as_json: bool) -> None:
    """Show whether this release can use the database. Changes nothing; exits with 1 if it cannot be used."""
    address = url_of(url)
    state = _administration().status(address)
    if as_json:
        output.document(
            {
                "database": state.database,
                "server": state.server,
                "schema": state.schema,
                "release_schema": state.release_schema,
                "usable": state.problem is None,
                "problem": state.problem,
                "hint": state.hint,
            }
        )
    else:
        output.line(
            f"{state.database}: PostgreSQL {state.server}, schema {state.schema} of {state.release_schema}"
        )
        for text in filter(None, (state.problem, state.hint)):
            output.message(text)
    ctx.exit(0 if state.problem is None else 1)


@click.command()
@address_option
@json_option
def migrate(*, url: str | None, as_json: bool) -> None:
    """Create or upgrade counsel's tables, in one transaction.

    Migrate first, then upgrade the servers one by one; servers of the earlier release keep running.
    """
    address = url_of(url)
    before, after = _administration().migrate(address)
    if as_json:
        output.document({"before": before, "after": after})
    elif before == after:
        output.line(f"Nothing to do: the database has schema {after}.")
    else:
        output.line(f"Migrated from schema {before} to {after}.")


def url_of(option: str | None) -> str:
    if url := option or user.caller().settings.database:
        return url
    raise InvalidArgument(
        "No database is configured.",
        hint="Set COUNSEL_DATABASE or pass --database postgresql://USER@HOST/NAME.",
    )


def _administration() -> Any:
    from counsel.engine.store import administration

    return administration()

"""`counsel people`: the people of a team's server, their tokens and the audit log, on a machine that has the
database."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from counsel import amounts
from counsel.cli import json_option
from counsel.cli.team.people_keys import keys
from counsel.cli.team.people_limits import limit, limits
from counsel.cli.team.team_database import log_change, run_in_store
from counsel.cli.terminal import output, times
from counsel.errors import InvalidArgument
from counsel.people import ROLES

if TYPE_CHECKING:
    from counsel.engine.store.people import PersonRecord
    from counsel.engine.team.people.directory import Directory, NewToken

T = TypeVar("T")
_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@click.group()
def people() -> None:
    """Manage the people of a team's server and their tokens.

    Run this where COUNSEL_DATABASE is the team's database. Admins without access to it use the console or
    /api/team/people.
    """


for _command in (keys, limit, limits):
    people.add_command(_command)


def _days(command: Callable[..., object]) -> Callable[..., object]:
    summary = "Days until the token expires (default: never)."
    return click.option("--days", type=click.IntRange(1, 3650), help=summary)(command)


_role = click.option("--role", type=click.Choice(ROLES), help="What the person may do.")
_groups = click.option(
    "--group", "groups", multiple=True, metavar="GROUP", help="A group of the person; repeatable."
)
_force = click.option("--force", is_flag=True, help="Do it even if this is the last admin.")


@people.command()
@click.argument("name")
@_role
@_groups
@_days
@json_option
def add(name: str, role: str | None, groups: tuple[str, ...], days: int | None, as_json: bool) -> None:
    """Add a person. Their token is shown once."""
    new_token = _in_directory(lambda directory: directory.add(name, role or "member", groups, days))
    log_change(new_token.person.name, f"added as {new_token.person.role}, token {new_token.token.id}")
    _print_token(new_token, as_json=as_json)


@people.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List everyone, with their tokens."""
    records = _in_directory(lambda directory: directory.listed())
    if as_json:
        output.document({"people": [_person_document(record) for record in records]})
    elif not records:
        output.message("Nobody yet: `counsel people add NAME --role admin` adds the first.")
    else:
        rows = [
            [
                record.person.name,
                record.person.role,
                ", ".join(record.person.groups),
                str(len(record.tokens)),
                _last_use(record),
                "disabled" if record.disabled else "",
            ]
            for record in records
        ]
        output.table(["name", "role", "groups", "tokens", "used", ""], rows, shortened=("name", "groups"))


@people.command()
@click.argument("name")
@_force
@json_option
def disable(name: str, force: bool, as_json: bool) -> None:
    """End a person's access.

    Their tokens and sessions stop working everywhere at once. Calls with a waiting client stop; background jobs finish
    and are stored. Nothing is deleted; `enable` lets the person back in.
    """
    _report_change(
        _in_directory(lambda directory: directory.disable(name, force=force)), "disabled", as_json=as_json
    )


@people.command()
@click.argument("name")
@json_option
def enable(name: str, as_json: bool) -> None:
    """Let a disabled person back in, with the same tokens."""
    _report_change(_in_directory(lambda directory: directory.enable(name)), "enabled", as_json=as_json)


@people.command()
@click.argument("name")
@_role
@_groups
@click.option("--no-groups", is_flag=True, help="Remove the person from all groups.")
@_force
@json_option
def change(
    name: str, role: Any, groups: tuple[str, ...], no_groups: bool, force: bool, as_json: bool
) -> None:
    """Change a person's role, or replace their groups."""
    if groups and no_groups:
        raise click.UsageError("--no-groups removes the person from all groups: leave out --group.")
    if role is None and not groups and not no_groups:
        raise click.UsageError("Nothing to change: add --role, --group or --no-groups.")
    new_groups = groups if groups or no_groups else None
    record = _in_directory(
        lambda directory: directory.change(name, role=role, groups=new_groups, force=force)
    )
    group_text = f"groups: {', '.join(record.person.groups)}" if record.person.groups else "no groups"
    _report_change(record, f"now {record.person.role}, {group_text}", as_json=as_json)


@people.command()
@click.argument("name")
@_days
@click.option(
    "--overlap", metavar="TIME", help="How long their other tokens keep working, such as `1h` or `2d`."
)
@json_option
def rotate(name: str, days: int | None, overlap: str | None, as_json: bool) -> None:
    """Make a new token for a person and end all others."""
    seconds = _seconds(overlap) if overlap else 0.0
    new_token = _in_directory(lambda directory: directory.rotate(name, days=days, overlap=seconds))
    log_change(new_token.person.name, f"rotated, token {new_token.token.id}")
    _print_token(new_token, as_json=as_json)


@people.command()
@click.argument("name")
@click.option("--label", default="", help="What the token is for, such as a machine's name.")
@click.option("--end", metavar="ID", help="End this token of the person instead.")
@_days
@json_option
def token(name: str, label: str, end: str | None, days: int | None, as_json: bool) -> None:
    """Make another token for a person, or end one.

    A second token is for another machine, for example.
    """
    if end is not None:
        if label or days:
            raise click.UsageError("--end ends a token: leave out --label and --days.")
        _report_change(
            _in_directory(lambda directory: directory.end_token(name, end)),
            f"token {end} ended",
            as_json=as_json,
        )
        return
    new_token = _in_directory(lambda directory: directory.add_token(name, days=days, label=label))
    log_change(new_token.person.name, f"token {new_token.token.id} added")
    _print_token(new_token, as_json=as_json)


@people.command()
@click.option(
    "--since", default="30d", show_default=True, metavar="TIME", help="How far back, such as `12h` or `30d`."
)
@json_option
def usage(since: str, as_json: bool) -> None:
    """Show each person's usage, without their prompts."""
    from counsel.engine.team.people import documents

    start = time.time() - _seconds(since)
    rows = run_in_store(lambda store: store.people.usage(start))
    if as_json:
        output.document({"people": [documents.used(row) for row in rows]})
        return
    table = [
        [
            row.name or row.person or "(nobody)",
            str(row.calls),
            str(row.failed) if row.failed else "",
            str(row.input),
            str(row.output),
            amounts.dollars(row.cost, complete=not row.unpriced),
            times.ago(row.last),
        ]
        for row in rows
    ]
    if table:
        output.table(
            ["name", "calls", "failed", "in", "out", "cost", "last call"], table, shortened=("name",)
        )
    else:
        output.message("No calls in that time.")


@people.command()
@click.option(
    "--since", default="7d", show_default=True, metavar="TIME", help="How far back, such as `12h` or `30d`."
)
@click.option("--person", metavar="NAME", help="Show only this person's records.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Maximum number of records.",
)
@json_option
def audit(since: str, person: str | None, limit: int, as_json: bool) -> None:
    """Show who did what, when. Newest first."""
    from counsel.engine.team.people import documents, names

    subject = names.folded(person) if person else None
    start = time.time() - _seconds(since)
    records = run_in_store(lambda store: store.audit.read(start, subject, limit))
    if as_json:
        output.document({"records": [documents.audited(record) for record in records]})
        return
    rows = [
        [
            times.local(row.at),
            row.name or "?",
            row.action,
            row.object,
            row.address,
            row.detail.splitlines()[0] if row.detail else "",
        ]
        for row in records
    ]
    if rows:
        output.table(
            ["when", "who", "what", "object", "from", "detail"], rows, shortened=("object", "detail")
        )
    else:
        output.message("No records in that time.")


def _in_directory(work: Callable[[Directory], Awaitable[T]]) -> T:
    from counsel.engine.team.people.directory import Directory

    return run_in_store(lambda store: work(Directory(store.people)))


# ── output ───────────────────────────────────────────────────────────────────────────────────────────


def _report_change(record: PersonRecord, outcome: str, *, as_json: bool) -> None:
    log_change(record.person.name, outcome)
    if as_json:
        output.document(_person_document(record))
    else:
        output.message(f"{record.person.name}: {outcome}.")


def _person_document(record: PersonRecord) -> dict[str, object]:
    from counsel.engine.team.people import documents

    return documents.person(record)


def _print_token(new_token: NewToken, *, as_json: bool) -> None:
    from counsel.engine.team.people import documents

    if as_json:
        output.document(documents.new_token(new_token))
        return
    output.message(f"{new_token.person.name} ({new_token.person.role}). The token is shown this once:")
    output.line(new_token.secret)


def _last_use(record: PersonRecord) -> str:
    times_used = [token.used for token in record.tokens if token.used]
    return times.ago(max(times_used)) if times_used else "never"


def _seconds(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isdecimal() or len(number) > 6:
        raise InvalidArgument(f"{text[:40]!r} is not a duration.", hint="Use one such as 30m, 12h, 7d or 4w.")
    return float(int(number) * _UNITS[unit])

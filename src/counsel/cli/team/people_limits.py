"""`counsel people limit` and `limits`: what people, groups and providers may spend, and how many calls they may
make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from counsel.cli import json_option, user
from counsel.cli.team.team_database import log_change, run_in_store
from counsel.cli.terminal import output

if TYPE_CHECKING:
    from counsel.engine.store.limits import Kind, LimitRow
    from counsel.engine.store.protocol import Store

_NONE = "none"


def _amount(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | str | None:
    if value is None or value.lower() == _NONE:
        return value and _NONE
    try:
        return float(value)
    except ValueError:
        raise click.BadParameter(f"use a number, or `{_NONE}` for no limit.") from None


def _count(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    amount = _amount(ctx, param, value)
    if isinstance(amount, float) and not amount.is_integer():
        raise click.BadParameter("use a whole number.")
    return int(amount) if isinstance(amount, float) else amount


@click.command()
@click.argument("name", required=False)
@click.option("--group", metavar="GROUP", help="Limit all members of a group together.")
@click.option("--provider", metavar="PROVIDER", help="Limit the whole team's calls to a provider.")
@click.option("--day", callback=_amount, metavar="USD", help="Maximum US dollars per day (UTC), or `none`.")
@click.option("--month", callback=_amount, metavar="USD", help="Maximum US dollars per month, or `none`.")
@click.option(
    "--per-minute", callback=_count, metavar="N", help="Maximum number of calls started per minute."
)
@click.option("--at-once", callback=_count, metavar="N", help="Maximum number of calls at the same time.")
@json_option
def limit(name: str | None, group: str | None, provider: str | None, as_json: bool, **values: Any) -> None:
    """Limit a person, a group or a provider.

    The limits apply to all servers together. A limit without an option stays unchanged; `none` removes it. Without
    options, the command shows the current limits.
    """
    subjects = [(kind, value) for kind, value in _kinds(name, group, provider) if value]
    if len(subjects) != 1:
        raise click.UsageError("Name exactly one: a person (NAME), --group or --provider.")
    kind, subject = subjects[0]
    changes = {option: value for option, value in values.items() if value is not None}
    row = run_in_store(lambda store: _set(store, kind, subject or "", changes))
    if changes:
        log_change(row.shown or row.name, f"limits of the {kind}: {_summary(row)}")
    if as_json:
        output.document(_document(row))
    else:
        output.message(f"{row.shown or row.name}: {_summary(row)}.")
    if kind == "group" and not run_in_store(lambda store: _has_members(store, row.name)):
        output.message(f"note: nobody is in the group {row.name} yet")


def _kinds(name: str | None, group: str | None, provider: str | None) -> list[tuple[Kind, str | None]]:
    return [("person", name), ("group", group), ("provider", provider)]


@click.command()
@json_option
def limits(as_json: bool) -> None:
    """List all limits."""
    rows = run_in_store(lambda store: store.limits.listed())
    if as_json:
        output.document({"limits": [_document(row) for row in rows]})
    elif not rows:
        output.message("No limits: `counsel people limit NAME --day USD` sets one.")
    else:
        table = [[row.kind, row.shown or row.name, *(_cell(value) for value in _values(row))] for row in rows]
        output.table(
            ["", "name", "usd/day", "usd/month", "per minute", "at once"], table, shortened=("name",)
        )


async def _set(store: Store, kind: Kind, subject: str, changes: dict[str, Any]) -> LimitRow:
    from counsel.engine.team.limits import new_row

    settings = user.caller().settings
    target = await new_row(
        store, settings, kind=kind, name=subject, day=None, month=None, per_minute=None, at_once=None
    )
    rows = {(row.kind, row.name): row for row in await store.limits.listed()}
    current = rows.get((kind, target.name), target)
    if not changes:
        return current
    fields = {name: getattr(current, name) for name in ("day", "month", "per_minute", "at_once")}
    fields |= {name: None if value == _NONE else value for name, value in changes.items()}
    row = await new_row(store, settings, kind=kind, name=subject, **fields)
    await store.limits.set(row)
    return row


async def _has_members(store: Store, group: str) -> bool:
    return any(group in record.person.groups for record in await store.people.listed())


def _values(row: LimitRow) -> tuple[float | None, ...]:
    return row.day, row.month, row.per_minute, row.at_once


def _summary(row: LimitRow) -> str:
    names = ("${:g} a day", "${:g} a month", "{:g} calls a minute", "{:g} calls at once")
    parts = [name.format(value) for name, value in zip(names, _values(row), strict=True) if value is not None]
    return ", ".join(parts) or "no limits"


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _document(row: LimitRow) -> dict[str, object]:
    return {
        "kind": row.kind,
        "name": row.shown or row.name,
        "day_usd": row.day,
        "month_usd": row.month,
        "per_minute": row.per_minute,
        "at_once": row.at_once,
    }

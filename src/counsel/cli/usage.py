"""`counsel usage`: tokens, cost and response times of calls."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from counsel import amounts
from counsel.cli import archive, json_option, user
from counsel.cli.terminal import output
from counsel.text import counted

if TYPE_CHECKING:
    from counsel.engine.history.documents import BudgetReport, By, UsageSum, UsageSummary

_WIDE = 110  # width that a terminal needs for all columns
_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def _seconds(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    match = re.fullmatch(r"(\d{1,6})([mhdw])", value.strip().lower())
    if not match:
        raise click.BadParameter("use a number and m, h, d or w, such as 12h or 7d.")
    return int(match[1]) * _UNITS[match[2]]


@click.command()
@click.option(
    "--since", default="7d", show_default=True, callback=_seconds, help="Period, such as 30m, 12h, 7d or 4w."
)
@click.option(
    "--by",
    type=click.Choice(["model", "provider", "day", "project", "client", "tool"]),
    default="model",
    show_default=True,
    help="Group calls by this.",
)
@json_option
def usage(since: int, by: By, as_json: bool) -> None:
    """Show calls, tokens, cost, errors and response times."""
    with archive.open_for_reading() as records:
        summary = archive.run(records.usage(time.time() - since, by, local=not as_json))
        budgets = archive.run(records.budgets(user.caller().settings))
    if as_json:
        output.document({**summary, "budgets": budgets})
    else:
        _print(summary, by)
        _print_budgets(budgets)
        if login := user.caller().settings.team:
            output.message(f"Costs of calls through the team server {login.host} were computed there.")


def _print(report: UsageSummary, by: By) -> None:
    if not report["groups"]:
        output.message("No calls in this period.")
        return
    narrow = (output.width() or _WIDE) < _WIDE
    total = report["total"]
    rows = [_row(group[by], group, narrow=narrow) for group in report["groups"]]
    columns = (
        ["calls", "in", "out", "cost", "p95"]
        if narrow
        else ["calls", "errors", "in", "out", "cost", "p50", "p95"]
    )
    output.table([by, *columns], [*rows, _row("total", total, narrow=narrow)])
    for note in _notes(total, narrow=narrow):
        output.message(note)


def _print_budgets(budgets: list[BudgetReport]) -> None:
    """Print what is left of each budget, if there are any."""
    if not budgets:
        return
    rows = [
        [
            entry["budget"],
            *map(
                _dollars,
                (entry["limit_usd"], entry["spent_usd"], entry["reserved_usd"], entry["left_usd"]),
            ),
            entry["until"][:16].replace("T", " "),
        ]
        for entry in budgets
    ]
    output.table(["budget", "limit", "spent", "reserved", "left", "until"], rows)
    output.message("Agents have no prices, so no budget counts them.")


def _dollars(usd: float) -> str:
    return amounts.dollars(usd)


def _row(name: str, group: UsageSum, *, narrow: bool) -> list[str]:
    times = group["response_ms"]
    failures = sum(group["errors"].values())
    answers = group["calls"] - failures
    with_usage = answers - group["calls_without_usage"]
    price = amounts.dollars(group["cost_usd"], complete=not group["calls_without_price"])
    sums = [
        amounts.count(tokens, reports=with_usage, calls=answers, brief=narrow)
        for tokens in (group["input_tokens"], group["output_tokens"])
    ]
    if narrow:
        return [name, str(group["calls"]), *sums, price, _time(times["p95"])]
    return [name, str(group["calls"]), str(failures), *sums, price, _time(times["p50"]), _time(times["p95"])]


def _notes(total: UsageSum, *, narrow: bool) -> Iterator[str]:
    """The meaning of the marks in the table, if it has any."""
    if without_price := total["calls_without_price"]:
        yield f"?, +: the price of {_calls(without_price)} is unknown and not in the sum."
    if without_usage := total["calls_without_usage"]:
        yield f"?, +: {_calls(without_usage)} did not report tokens."
    if narrow and (count := sum(total["errors"].values())):
        yield f"{_calls(count)} failed."


def _calls(number: int) -> str:
    return counted(number, "call")


def _time(ms: int | None) -> str:
    return "" if ms is None else f"{ms / 1000:.2f} s"

"""`counsel usage`: tokens, cost and response times of calls."""

from __future__ import annotations

import re
import time
from typing import Any

import click

from counsel.answer_notes import cost
from counsel.cli import connect, json_option, output
from counsel.types import Json

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def _seconds(_ctx: click.Context, _param: click.Parameter, value: str) -> int:
    match = re.fullmatch(r"(\d{1,6})([mhdw])", value.strip().lower())
    if not match:
        raise click.BadParameter("use a number and m, h, d or w, such as 12h or 7d.")
    return int(match[1]) * _UNITS[match[2]]


@click.command()
@click.option("--since", default="7d", show_default=True, callback=_seconds, help="Period: 30m, 12h, 7d, 4w.")
@click.option(
    "--by",
    type=click.Choice(["model", "provider", "day"]),
    default="model",
    show_default=True,
    help="Group calls by this.",
)
@json_option
def usage(since: int, by: Any, as_json: bool) -> None:
    """Show calls, tokens, cost, errors and response times."""
    from counsel.engine.history.archive import Archive

    archive = Archive(connect.caller().settings.home)
    try:
        report = connect.run(archive.usage(time.time() - since, by))
    finally:
        connect.run(archive.close())
    if as_json:
        output.document(report)
    else:
        _print(report)


def _print(report: Json) -> None:
    if not report["groups"]:
        output.message("No calls in this period.")
        return
    rows = [_row(group[report["by"]], group) for group in report["groups"]]
    output.table(
        [report["by"], "calls", "errors", "in", "out", "cost", "p50", "p95"],
        [*rows, _row("total", report["total"])],
    )


def _row(name: str, group: Json) -> list[str]:
    times = group["response_ms"]
    return [
        name,
        str(group["calls"]),
        str(sum(group["errors"].values())),
        f"{group['input_tokens']:,}",
        f"{group['output_tokens']:,}",
        cost(group["cost_usd"]) + ("+" if group["calls_without_price"] else ""),
        _time(times["p50"]),
        _time(times["p95"]),
    ]


def _time(ms: int | None) -> str:
    return "" if ms is None else f"{ms / 1000:.2f} s"

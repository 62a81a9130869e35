"""`counsel doctor`: what is set up, what is wrong, and how to fix it."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import groupby

import click

from counsel import caller
from counsel.caller import Caller
from counsel.cli import doctor_checks, json_option, output
from counsel.cli.doctor_checks import Finding

_COLOURS = {"ok": "green", "warn": "yellow", "problem": "red"}


@click.command()
@click.option("--online", is_flag=True, help="Also connect to the providers and test the keys.")
@click.option(
    "--repair", is_flag=True, help="Repair the database, its backups and file modes; deletes nothing."
)
@click.option("--yes", is_flag=True, help="With --repair: replace a damaged database without confirmation.")
@json_option
@click.pass_context
def doctor(ctx: click.Context, *, online: bool, repair: bool, yes: bool, as_json: bool) -> None:
    """Check keys, providers, files and versions. Never shows a key; changes nothing without --repair.

    Exits with 1 if there is a problem; warnings do not affect the exit code.
    """
    user = caller.here("cli")
    findings = _repaired(user, yes=yes, as_json=as_json) if repair else []
    findings += doctor_checks.examine(user, online=online)
    if as_json:
        output.document(document(findings))
    else:
        _print(findings)
    if doctor_checks.worst(findings) == "problem":
        ctx.exit(1)


def _repaired(caller: Caller, *, yes: bool, as_json: bool) -> list[Finding]:
    from counsel.cli.doctor_repair import repair

    def confirm(question: str) -> bool:
        if yes or as_json or not sys.stdin.isatty():
            return yes
        agreed = click.confirm(question, err=True)
        if not agreed:
            output.message("The database was not changed.")
        return agreed

    return repair(caller, confirm)


def document(findings: list[Finding]) -> dict[str, object]:
    counts = Counter[str](finding.level for finding in findings)
    return {
        "level": doctor_checks.worst(findings),
        "counts": {level: counts[level] for level in _COLOURS},
        "findings": [finding.as_dict() for finding in findings],
    }


def _print(findings: list[Finding]) -> None:
    for area, group in groupby(findings, key=lambda finding: finding.area):
        output.line(area)
        for finding in group:
            output.line(f"  {finding.level:<7}  {finding.what}", colour=_COLOURS[finding.level])
            if finding.todo:
                output.line(f"           {finding.todo}")
    counts = Counter(finding.level for finding in findings)
    output.line(f"\nproblems: {counts['problem']}, warnings: {counts['warn']}")

"""`counsel doctor`: what is set up, what is wrong, what to do."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import click

from counsel import caller
from counsel import doctor as doctor_
from counsel.cli import json_option, output
from counsel.doctor import Finding

_COLOURS = {"ok": "green", "warn": "yellow", "problem": "red"}


@click.command()
@click.option("--online", is_flag=True, help="Also reach the providers and see whether they take the keys.")
@json_option
@click.pass_context
def doctor(ctx: click.Context, *, online: bool, as_json: bool) -> None:
    """Check keys, providers, files and versions. Changes nothing and shows no key.

    Exits with 1 when there is a problem; warnings are none.
    """
    findings = doctor_.examine(caller.here("cli"), online=online)
    if as_json:
        output.document(document(findings))
    else:
        _print(findings)
    if doctor_.worst(findings) == "problem":
        ctx.exit(1)


def document(findings: list[Finding]) -> dict[str, object]:
    counts = Counter[str](finding.level for finding in findings)
    return {
        "level": doctor_.worst(findings),
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

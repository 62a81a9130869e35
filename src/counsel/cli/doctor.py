"""`counsel doctor`: what is set up, what is wrong, and how to fix it."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import groupby

import click

from counsel import caller
from counsel.caller import Caller
from counsel.cli import json_option
from counsel.cli.terminal import output
from counsel.doctor import checks
from counsel.doctor.messages import Finding

_COLOURS = {"ok": "green", "info": "", "off": "dim", "warn": "yellow", "problem": "red"}
_MARKS = {"ok": "✓", "info": "·", "off": "–", "warn": "!", "problem": "✗"}  # noqa: RUF001 - the dash is meant


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
    user = caller.local_caller("cli")
    findings = _repair(user, yes=yes, as_json=as_json) if repair else []
    findings += checks.examine(user, online=online)
    if as_json:
        output.document(checks.document(findings))
    else:
        _print(findings)
    if checks.worst(findings) == "problem":
        ctx.exit(1)


def _repair(caller: Caller, *, yes: bool, as_json: bool) -> list[Finding]:
    from counsel.doctor.repair import repair

    def confirm(question: str) -> bool:
        if yes or as_json or not sys.stdin.isatty():
            return yes
        consent = click.confirm(question, err=True)
        if not consent:
            output.message("The database was not changed.")
        return consent

    return repair(caller, confirm)


def _wrap(text: str) -> list[str]:
    """Wrap the text to the terminal's width. A word that is longer, such as a path, stays whole."""
    import textwrap  # not needed with --json

    width = output.width()
    if width is None:
        return [text]
    return textwrap.wrap(text, max(20, width - 4), break_long_words=False, break_on_hyphens=False) or [""]


def _print(findings: list[Finding]) -> None:
    for area, group in groupby(findings, key=lambda finding: finding.area):
        output.line(area)
        for finding in group:
            for number, line in enumerate(_wrap(finding.what)):
                mark = " " if number else _MARKS[finding.level]
                output.line(f"  {mark} {line}", colour=_COLOURS[finding.level])
            for line in _wrap(finding.todo) if finding.todo else ():
                output.line(f"    {line}")
    counts = Counter(finding.level for finding in findings)
    output.line(f"\nproblems: {counts['problem']}, warnings: {counts['warn']}")

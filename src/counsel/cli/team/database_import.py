"""`counsel database import`: add a person's own history to a team's shared database."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from counsel.cli import json_option, user
from counsel.cli.team import database
from counsel.cli.team.team_database import log_change
from counsel.cli.terminal import output
from counsel.text import counted

if TYPE_CHECKING:
    from counsel.engine.store.history import ImportReport

_PAUSE = 1.0  # seconds between two lines of progress


@click.command("import")
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[FILE]")
@click.option(
    "--home",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The COUNSEL_HOME that the history comes from.",
)
@click.option(
    "--person", metavar="NAME", help="The person who gets the history; required once the team has people."
)
@click.option("--dry-run", is_flag=True, help="Count what would be added, and add nothing.")
@database.address_option
@json_option
def import_(
    *,
    file: Path | None,
    home: Path | None,
    person: str | None,
    dry_run: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Add a person's conversations, finished jobs, images and usage from a SQLite database (FILE).

    Without FILE and --home, your own database is read. The source is never changed. A second import adds what is new
    since the first; jobs that are still running are left out until they end.
    """
    if file and home:
        raise click.UsageError("Pass FILE or --home, not both.")
    address = database.url_of(url)
    report = _run(_source(file, home), address, person, dry_run=dry_run)
    if person and any(report.added) and not dry_run:
        log_change(person, f"history imported: {', '.join(_counts(report))}", address)
    if as_json:
        output.document(_document(report, dry_run=dry_run))
        return
    for line in _lines(report, dry_run=dry_run):
        output.line(line)
    for text in _notes(report):
        output.message(text)


def _source(file: Path | None, home: Path | None) -> Path:
    from counsel.engine.store import DATABASE

    return file or (home or user.caller().settings.home) / DATABASE


def _run(path: Path, url: str, person: str | None, *, dry_run: bool) -> ImportReport:
    from counsel.engine.store import import_history
    from counsel.engine.team.people.names import folded

    owner = None if person is None else folded(person)
    return import_history(path, url, owner, dry_run=dry_run, progress=_Progress().show)


class _Progress:
    """A line on stderr every second, for people."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def show(self, text: str) -> None:
        if sys.stderr.isatty() and time.monotonic() - self._last > _PAUSE:
            self._last = time.monotonic()
            output.message(f"{text} …")


def _document(report: ImportReport, *, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "added": {
            "conversations": report.conversations,
            "messages": report.messages,
            "jobs": report.jobs,
            "usage": report.usage,
            "images": report.images,
        },
        "present": report.present,
        "open_jobs": report.open_jobs,
        "renamed": report.renamed,
        "untagged": report.untagged,
        "diverged": report.diverged,
        "problem": report.problem,
    }


def _lines(report: ImportReport, *, dry_run: bool) -> Iterator[str]:
    if not any(report.added):
        yield "Nothing to add: the database already has everything."
        return
    parts = _counts(report)
    yield f"{'Would add' if dry_run else 'Added'} {', '.join(parts[:-1])} and {parts[-1]}."


def _counts(report: ImportReport) -> list[str]:
    return [
        counted(report.conversations, "conversation"),
        counted(report.messages, "message"),
        counted(report.jobs, "job"),
        counted(report.images, "image"),
        counted(report.usage, "usage record"),
    ]


def _notes(report: ImportReport) -> Iterator[str]:
    if report.problem:
        yield f"warning: {report.problem}."
    if report.open_jobs:
        yield f"{counted(len(report.open_jobs), 'job')} not added: still running. Import again when they end."
    for name, new_name in report.renamed.items():
        yield f"{name} is in use by someone else: added as {new_name}."
    for name in report.untagged:
        yield f"{name} was added without its tag, which another conversation of the same folder has."
    for name in report.diverged:
        yield f"{name} was continued in both places. The database keeps its own version."

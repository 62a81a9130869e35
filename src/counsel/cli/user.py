"""The user of this shell, for commands. Without asyncio, which takes 20 ms: many commands need no event loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from counsel.caller import Caller, local_caller
from counsel.cli.terminal import output


def caller(cwd: str | None = None, roots: tuple[Path, ...] = ()) -> Caller:
    """The user of this shell. `roots`: folders from the command line. Each problem is reported once per command."""
    user = local_caller("cli", cwd=Path(cwd) if cwd else None)
    context = click.get_current_context(silent=True)
    reports = context.find_root().meta.setdefault(__name__, set()) if context else set()
    for problem in user.settings.problems:
        if problem not in reports:
            output.message(f"warning: {problem}")
        reports.add(problem)
    return replace(user, roots=roots)

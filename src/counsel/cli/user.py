"""The user of this shell, for commands. Without asyncio, which takes 20 ms: many commands need no event loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from counsel.caller import Caller, here
from counsel.cli import output


def caller(cwd: str | None = None, roots: tuple[Path, ...] = ()) -> Caller:
    """The user of this shell. `roots`: folders that the command line names."""
    user = here("cli", cwd=Path(cwd) if cwd else None)
    for problem in user.settings.problems:
        output.message(f"warning: {problem}")
    return replace(user, roots=roots)

"""Questions to the person before something changes."""

from __future__ import annotations

import click

from counsel.cli import output

UNCHANGED = "Nothing was changed."


def confirm(question: str) -> None:
    """Return if the answer is yes. Otherwise the command ends here."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:  # Ctrl-C or Ctrl-D; click has begun no new line
        output.message(f"\n{UNCHANGED}")
        raise click.exceptions.Exit(130) from None
    if not agreed:
        output.message(UNCHANGED)
        raise click.exceptions.Exit(1)

"""Asks for confirmation before something changes."""

from __future__ import annotations

import click

from counsel.cli.terminal import output

UNCHANGED = "Nothing was changed."


def confirm(question: str) -> None:
    """Return if the answer is yes; otherwise exit the command."""
    try:
        consent = click.confirm(question, err=True)
    except click.Abort:  # Ctrl-C or Ctrl-D; click does not end the line
        output.message(f"\n{UNCHANGED}")
        raise click.exceptions.Exit(130) from None
    if not consent:
        output.message(UNCHANGED)
        raise click.exceptions.Exit(1)

"""`counsel models`: what can be asked, and what it would take."""

from __future__ import annotations

import click

from counsel.cli import json_option
from counsel.errors import Internal


@click.command()
@json_option
def models(*, as_json: bool) -> None:  # noqa: ARG001
    """List the models that counsel knows."""
    raise Internal("The catalog is not built yet.")

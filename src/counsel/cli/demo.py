"""`counsel demo`."""

from __future__ import annotations

import click

from counsel.cli import json_option
from counsel.errors import Internal


@click.command()
@json_option
def demo(*, as_json: bool) -> None:  # noqa: ARG001
    """Try counsel without any key."""
    raise Internal("The demo is not built yet.")

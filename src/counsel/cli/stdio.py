"""`counsel stdio` for callers that come through the frame; `counsel.__main__` goes straight to the front."""

from __future__ import annotations

import sys
from importlib import import_module

import click


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)
@click.pass_context
def stdio(ctx: click.Context) -> None:
    """Speak MCP on stdin and stdout."""
    sys.exit(import_module("counsel.front.main").main(ctx.args))

"""`counsel stdio` when click has parsed the command line; `counsel.__main__` usually starts the front directly."""

from __future__ import annotations

import sys
from importlib import import_module

import click


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)
@click.pass_context
def stdio(ctx: click.Context) -> None:
    """Serve MCP on stdin and stdout."""
    sys.exit(import_module("counsel.front.main").main(ctx.args))

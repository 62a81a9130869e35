"""docs/use/cli.md: every command with its options, as `--help` shows them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from counsel.cli import cli
from tools.generate import within


def commands() -> str:
    return within(
        "docs/use/cli.md", commands="\n\n".join(_walk(cli, click.Context(cli, info_name="counsel")))
    )


def _walk(group: click.Group, parent: click.Context) -> Iterator[str]:
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=parent)
        if isinstance(command, click.Group):
            yield from _walk(command, context)
        else:
            yield _page(command, context)


def _page(command: click.Command, context: click.Context) -> str:
    usage = " ".join([context.command_path, *_pieces(command, context)])
    description = inspect.cleandoc(command.help or "").replace("\b\n", "")
    rows = [
        f"| `{names}` | {text} |"
        for param in command.params
        if isinstance(param, click.Option) and (record := param.get_help_record(context))
        for names, text in [(record[0].replace("|", "\\|"), record[1].replace("|", "\\|"))]
    ]
    table = "\n".join(["| option | what it does |", "|---|---|", *rows])
    return f"### `{usage}`\n\n{description}\n\n{table}" if rows else f"### `{usage}`\n\n{description}"


def _pieces(command: click.Command, context: click.Context) -> list[str]:
    return [piece for param in command.params for piece in param.get_usage_pieces(context)]

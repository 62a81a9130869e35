"""docs/use/cli.md: every command with its options, as `--help` says them."""

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


def _walk(group: click.Group, above: click.Context) -> Iterator[str]:
    for name in group.list_commands(above):
        command = group.get_command(above, name)
        assert command is not None
        here = click.Context(command, info_name=name, parent=above)
        if isinstance(command, click.Group):
            yield from _walk(command, here)
        else:
            yield _page(command, here)


def _page(command: click.Command, here: click.Context) -> str:
    usage = " ".join([here.command_path, *_pieces(command, here)])
    description = inspect.cleandoc(command.help or "").replace("\b\n", "")
    rows = [
        f"| `{names}` | {text} |"
        for param in command.params
        if isinstance(param, click.Option) and (record := param.get_help_record(here))
        for names, text in [(record[0].replace("|", "\\|"), record[1].replace("|", "\\|"))]
    ]
    table = "\n".join(["| option | what it does |", "|---|---|", *rows])
    return f"### `{usage}`\n\n{description}\n\n{table}" if rows else f"### `{usage}`\n\n{description}"


def _pieces(command: click.Command, here: click.Context) -> list[str]:
    return [piece for param in command.params for piece in param.get_usage_pieces(here)]

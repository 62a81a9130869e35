"""Options that take names: `--agent claude,codex --agent gemini`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., object])


def parser(
    names: Collection[str],
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], tuple[str, ...]]:
    """`a,b` and `c` become a, b and c: known names, without duplicates."""

    def split(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
        values = [part.strip() for item in value for part in item.split(",") if part.strip()]
        if unknown := [name for name in values if name not in names]:
            raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(names)}.")
        if value and not values:  # a script's empty variable must not mean all of them
            raise click.BadParameter(f"the value is empty; use one of {', '.join(names)}.")
        return tuple(dict.fromkeys(values))

    return split


def completer(names: Collection[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """For shell completion: completes the name after the last comma."""

    def candidates(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, prefix = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names if name.startswith(prefix)]

    return candidates


def agents(names: Collection[str]) -> Callable[[Decorated], Decorated]:
    """`--agent`, for the agents that support the command."""
    return click.option(
        "--agent",
        "-a",
        "agents",
        multiple=True,
        callback=parser(names),
        shell_complete=completer(names),
        metavar="AGENT",
        help=f"Agents, separated by commas: {', '.join(names)}.",
    )

"""`counsel agents`: which agents are installed, and whether they can be asked."""

from __future__ import annotations

import click

from counsel.cli import json_option, user
from counsel.cli.terminal import output
from counsel.types import Json


@click.command()
@click.argument("verb", required=False, type=click.Choice(["list"]), metavar="[list]")
@json_option
def agents(verb: str | None, as_json: bool) -> None:  # noqa: ARG001 - `list` is the default
    """List the coding agents on this machine: version, login, program, config files, MCP servers and skills.

    Reads files only; starts nothing. An agent that is installed and logged in can be asked by name, as in
    `counsel ask -m codex …`.
    """
    from counsel.overview import agents_overview

    caller = user.caller()
    rows = agents_overview(caller)
    if as_json:
        output.document({"agents": rows})
        return
    home = caller.env.get("HOME", "")
    output.table(
        ["agent", "version", "logged in", "servers", "skills", "program", "config files"],
        [_row(row, home) for row in rows],
    )


def _row(agent: Json, home: str) -> list[str]:
    installed = agent["installed"]
    return [
        agent["agent"],
        (agent["version"] or "?") if installed else "-",
        _login(agent) if installed else "-",
        _number(agent["servers"]),
        _number(agent["skills"]),
        _short(agent["path"], home) if installed else agent["reason"],
        ", ".join(_short(path, home) for path in agent["config_files"]) or "-",
    ]


def _login(agent: Json) -> str:
    """`yes`; or `no` or `?` with the reason."""
    if agent["logged_in"]:
        return "yes"
    return (
        f"{'no' if agent['logged_in'] is False else '?'}: {agent['reason'].removeprefix('not logged in: ')}"
    )


def _short(path: str, home: str) -> str:
    return f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path


def _number(count: int | None) -> str:
    return "?" if count is None else str(count)

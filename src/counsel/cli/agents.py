"""`counsel agents`: which agents are here, and whether they can be asked."""

from __future__ import annotations

import click

from counsel.cli import connect, json_option, output
from counsel.types import Json


@click.command()
@click.argument("verb", required=False, type=click.Choice(["list"]), metavar="[list]")
@json_option
def agents(verb: str | None, as_json: bool) -> None:  # noqa: ARG001 - `list` is what happens anyway
    """The coding agents on this machine: version, login, program, config files, MCP servers and skills.

    Nothing is started: files tell. An agent that is installed and logged in can be asked by its name, as in
    `counsel ask -m codex …`.
    """
    from counsel.overview import roster

    who = connect.caller()
    found = roster(who)
    if as_json:
        output.document({"agents": found})
        return
    home = who.env.get("HOME", "")
    output.table(
        ["agent", "version", "logged in", "servers", "skills", "program", "config files"],
        [_row(each, home) for each in found],
    )


def _row(found: Json, home: str) -> list[str]:
    here = found["installed"]
    return [
        found["agent"],
        (found["version"] or "?") if here else "-",
        _login(found) if here else "-",
        _number(found["servers"]),
        _number(found["skills"]),
        _short(found["path"], home) if here else found["reason"],
        ", ".join(_short(path, home) for path in found["config_files"]) or "-",
    ]


def _login(found: Json) -> str:
    """When it is not sure: why, or what to do."""
    if found["logged_in"]:
        return "yes"
    return (
        f"{'no' if found['logged_in'] is False else '?'}: {found['reason'].removeprefix('not logged in: ')}"
    )


def _short(path: str, home: str) -> str:
    return f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path


def _number(count: int | None) -> str:
    return "?" if count is None else str(count)

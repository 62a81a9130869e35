"""`counsel agents`: which agents are here, and whether they can be asked."""

from __future__ import annotations

import click

from counsel.cli import connect, json_option, output
from counsel.types import Json

_LOGIN = {True: "yes", False: "no", None: "?"}


@click.command()
@json_option
def agents(as_json: bool) -> None:
    """The coding agents on this machine: version, login, config files, MCP servers and skills.

    Nothing is started: files tell. An agent that is installed and logged in can be asked by its name, as in
    `counsel ask -m codex …`.
    """
    from counsel.roster import roster

    found = roster(connect.caller())
    if as_json:
        output.document({"agents": found})
        return
    output.table(
        ["agent", "version", "logged in", "servers", "skills", "where, or what to do"],
        [_row(each) for each in found],
    )


def _row(found: Json) -> list[str]:
    here = found["installed"]
    return [
        found["agent"],
        (found["version"] or "?") if here else "-",
        _LOGIN[found["logged_in"]] if here else "-",
        _number(found["servers"]),
        _number(found["skills"]),
        found["path"] if found["usable"] else found["reason"],
    ]


def _number(count: int | None) -> str:
    return "?" if count is None else str(count)

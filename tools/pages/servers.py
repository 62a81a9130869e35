"""The generated part of docs/servers.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from counsel.agents.definitions import AGENTS, Place
from counsel.agents.server_format import Format
from counsel.servers.formats import FORMATS
from tools.generate import within

_PLACE = Place(Path("~"), {}, Path("PROJECT"))


def servers() -> str:
    return within("docs/servers.md", agents="\n".join(_agents()))


def _agents() -> Iterator[str]:
    yield "| agent | scope: file | transports | names | a reference | same name in two scopes |"
    yield "|---|---|---|---|---|---|"
    for form in FORMATS.values():
        homes = [f"{home.scope}: `{home.target.path}`" for home in form.homes(_PLACE) if home.writable]
        transports = ", ".join(name for name in ("stdio", "http", "sse") if name in form.transports)
        used = f"{' over '.join(form.precedence)}" if form.precedence else "both are started"
        row = [
            AGENTS[form.agent].label,
            "<br>".join(homes),
            transports,
            form.names_words,
            f"`{form.syntax.example}`",
            used,
        ]
        yield f"| {' | '.join(row)} |"
    yield ""
    for form in FORMATS.values():
        yield from _lacks(form)


def _lacks(form: Format) -> Iterator[str]:
    for words in form.lacks.values():
        yield f"- {words}."
    if form.no_switch:
        yield f"- {form.no_switch}."

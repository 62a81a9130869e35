"""The generated part of docs/use/servers.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from counsel.agents.definitions import AGENTS, Workspace
from counsel.agents.server_format import ServerFormat
from counsel.servers.formats import FORMATS
from tools.generate import within

_WORKSPACE = Workspace(Path("~"), {}, Path("PROJECT"))


def servers() -> str:
    return within("docs/use/servers.md", agents="\n".join(_agents()))


def _agents() -> Iterator[str]:
    yield "| agent | scope: file | transports | names | a reference | same name in two scopes |"
    yield "|---|---|---|---|---|---|"
    for fmt in FORMATS.values():
        tables = [f"{home.scope}: `{home.target.path}`" for home in fmt.tables(_WORKSPACE) if home.writable]
        transports = ", ".join(name for name in ("stdio", "http", "sse") if name in fmt.transports)
        precedence = f"{' over '.join(fmt.precedence)}" if fmt.precedence else "both are started"
        row = [
            AGENTS[fmt.agent].label,
            "<br>".join(tables),
            transports,
            fmt.names_text,
            f"`{fmt.syntax.example}`",
            precedence,
        ]
        yield f"| {' | '.join(row)} |"
    yield ""
    for fmt in FORMATS.values():
        yield from _lacks(fmt)


def _lacks(fmt: ServerFormat) -> Iterator[str]:
    for words in fmt.unsupported.values():
        yield f"- {words}."
    if fmt.no_switch:
        yield f"- {fmt.no_switch}."

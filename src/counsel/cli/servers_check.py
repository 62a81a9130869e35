"""The words of `counsel servers check`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from counsel.agents.base import AGENTS
from counsel.cli import output
from counsel.servers.check import Checked, check, chosen
from counsel.servers.service import Servers

_MARKS = {"ok": "ok", "failed": "FAILED", "timeout": "TIMEOUT", "disabled": "off", "skipped": "skipped"}


def run(
    here: Servers,
    name: str | None,
    agents: Sequence[str],
    scope: str | None,
    timeout: float,
    *,
    as_json: bool,
) -> bool:
    """Whether every server that is switched on answered."""
    rows, skipped = chosen(here, name, agents, scope)
    if rows and sys.stderr.isatty() and not as_json:
        output.words(f"Connecting to {len(rows)} servers …")
    results = asyncio.run(check(rows, here.place, timeout, None if as_json else _print))
    if as_json:
        output.document({"checks": [result.as_dict() for result in (*results, *skipped)]})
        return _fine(results)
    for left in skipped:
        _print(left)
    if not rows and not skipped:
        output.words("No agent has an MCP server here.")
    return _fine(results)


def _fine(results: Sequence[Checked]) -> bool:
    return all(result.status in {"ok", "disabled"} for result in results)


def _print(result: Checked) -> None:
    found = result.found
    head = f"{_MARKS[result.status]:8}{found.server.name} ({AGENTS[found.agent].label}, {found.scope})"
    if result.status == "ok":
        tools = ", ".join(result.tools) or "no tools"
        output.line(f"{head}: {result.latency_ms} ms, protocol {result.protocol_version}, {tools}")
    else:
        output.line(f"{head}{f': {result.error}' if result.error else ''}")
    for name in result.unset:
        output.line(f"        {name} is not set")
    for line in result.stderr:
        output.line(f"        stderr: {line}")
    sys.stdout.flush()

"""What `counsel servers check` prints."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Collection, Coroutine, Sequence

from counsel.agents.definitions import AGENTS
from counsel.cli.terminal import output
from counsel.servers.check import CheckResult, check, rows_to_check
from counsel.servers.service import Servers
from counsel.text import counted

_MARKS = {"ok": "ok", "failed": "FAILED", "timeout": "TIMEOUT", "disabled": "off", "skipped": "skipped"}


def run(
    service: Servers,
    name: str | None,
    agents: Collection[str],
    scope: str | None,
    timeout: float,
    *,
    trust_folder: bool,
    as_json: bool,
) -> bool:
    """Check the servers; return whether every enabled one answered."""
    rows, skipped = rows_to_check(service, name, agents, scope, trust_folder=trust_folder)
    if rows and sys.stderr.isatty() and not as_json:
        output.message(f"Connecting to {counted(len(rows), 'server')} …")
    try:
        progress = None if as_json else _print
        checks = check(rows, service.workspace, timeout, progress, trust_folder=trust_folder)
        results = asyncio.run(_end_servers_on_signals(checks))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    if as_json:
        output.document({"checks": [result.as_dict() for result in (*results, *skipped)]})
        return _all_ok(results)
    for result in skipped:
        _print(result)
    if not rows and not skipped:
        output.message("No agent has an MCP server in this folder.")
    return _all_ok(results)


def _all_ok(results: Sequence[CheckResult]) -> bool:
    return all(result.status in {"ok", "disabled"} for result in results)


async def _end_servers_on_signals(checks: Coroutine[object, object, list[CheckResult]]) -> list[CheckResult]:
    """Run the checks. On SIGTERM or SIGHUP, end the started servers first."""
    task = asyncio.current_task()
    assert task is not None  # a coroutine runs in a task
    for signum in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(signum, task.cancel)
    return await checks


def _print(result: CheckResult) -> None:
    row = result.row
    head = f"{_MARKS[result.status]:8}{row.server.name} ({AGENTS[row.agent].label}, {row.scope})"
    if result.status == "ok":
        tools = ", ".join(result.tools) or "no tools"
        output.line(f"{head}: {result.latency_ms} ms, protocol {result.protocol_version}, {tools}")
    else:
        output.line(f"{head}{f': {result.error}' if result.error else ''}")
    if result.unset:
        output.line(f"        not set here: {', '.join(result.unset)}")
    for line in result.stderr:
        output.line(f"        stderr: {line}")
    sys.stdout.flush()

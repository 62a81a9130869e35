"""`counsel daemon`: show whether it runs, and stop it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import click

from counsel.cli import CommandRow, LazyGroup, json_option
from counsel.cli.terminal import output

if TYPE_CHECKING:
    from counsel.daemon.server import DaemonStatus

ROWS = {
    "status": CommandRow("counsel.cli.daemon:status", "Show whether the daemon runs, and its clients."),
    "stop": CommandRow("counsel.cli.daemon:stop", "Stop the daemon; its jobs continue in the next one."),
}


@click.group(cls=LazyGroup, rows=ROWS)
def daemon() -> None:
    """Show or stop the background process that all clients share. It starts on demand and exits when idle."""


@click.command()
@json_option
def status(*, as_json: bool) -> None:
    """Show whether the daemon runs, and its clients."""
    state = asyncio.run(_status())
    if as_json:
        output.document(state or {"running": False})
    else:
        output.line(_text(state))


@click.command()
@json_option
def stop(*, as_json: bool) -> None:
    """Stop the daemon. Running jobs are saved and continue in the next one."""
    was_running = asyncio.run(_stop())
    if as_json:
        output.document({"stopped": was_running})
    else:
        output.line("The daemon has stopped." if was_running else "No daemon is running.")


async def _status() -> DaemonStatus | None:
    from counsel.daemon.rpc_client import find  # `--help` does not need it

    engine = await find()
    if engine is None:
        return None
    try:
        return await engine.daemon_status()
    finally:
        await engine.close()


async def _stop() -> bool:
    from counsel.daemon.rpc_client import find

    engine = await find()
    if engine is None:
        return False
    await engine.daemon_stop()
    return True


def _text(state: DaemonStatus | None) -> str:
    if state is None:
        return "No daemon is running. It starts on demand."
    minutes = int((time.time() - state["started_at"]) / 60)
    lines = [
        f"counsel {state['version']} has been running for {minutes} min (pid {state['pid']})",
        f"  {state['socket']}",
    ]
    lines += [f"  {client['client']} (counsel {client['version']})" for client in state["clients"]]
    return "\n".join(lines)

"""`counsel ask-service`: a session's askModel socket, for programs that host agents."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from pathlib import Path

import click

from counsel.agents.definitions import AGENTS
from counsel.caller import Caller
from counsel.cli import connect, user
from counsel.errors import InvalidArgument


@click.command("ask-service")
@click.option("--session", help="Session id (default: SESSION_ID, or a new one).")
@click.option(
    "--as",
    "agent",
    type=click.Choice(list(AGENTS)),
    help="The agent that asks; it is never asked itself.",
)
@click.option(
    "--until-eof",
    is_flag=True,
    help="Exit when standard input is closed, for example when the parent process dies.",
)
@connect.standalone_option
def ask_service(*, session: str | None, agent: str | None, until_eof: bool, standalone: bool) -> None:
    """Serve the askModel socket of one session until SIGTERM.

    Prints one line of JSON when it is ready: {"session", "socket", "pid"}. The protocol is in docs/use/askmodel.md;
    counsel.askmodel.client speaks it.
    """
    caller = user.caller()
    name = session or caller.settings.session_id or f"s-{secrets.token_hex(8)}"
    connect.run(_serve(caller, name, agent, until_eof=until_eof, standalone=standalone))


async def _serve(
    caller: Caller, session: str, agent: str | None, *, until_eof: bool, standalone: bool
) -> None:
    from counsel.askmodel.service import AskService
    from counsel.mcp.identity import ClientIdentity

    identity = ClientIdentity(env=dict(os.environ), cwd=Path.cwd(), agent=agent)
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    if until_eof:
        _stop_at_eof(stop)
    async with (
        connect.engine(caller, standalone=standalone) as engine,
        AskService(engine, identity, session, caller.settings.home) as service,
    ):
        details = {"session": service.session, "socket": service.path, "pid": os.getpid()}
        sys.stdout.write(json.dumps(details) + "\n")
        sys.stdout.flush()
        await stop.wait()


def _stop_at_eof(stop: asyncio.Event) -> None:
    try:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _read_stdin, stop)
    except (AttributeError, OSError, ValueError):  # closed, or a regular file, which the kernel cannot watch
        raise InvalidArgument(
            "--until-eof needs a pipe or terminal as standard input.",
            hint="Keep a pipe open for as long as the service is needed, or omit --until-eof.",
        ) from None


def _read_stdin(stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 1 << 12):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()

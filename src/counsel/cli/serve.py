"""`counsel serve`: MCP and the API over HTTP."""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from counsel.cli.team.database_option import database_option, use_database
from counsel.cli.terminal import output
from counsel.errors import ConfigInvalid, CounselError
from counsel.settings import Settings, load

if TYPE_CHECKING:
    from counsel.requests import LocalEngine


@click.command()
@click.option("--host", help="Address to listen on (default: 127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65535), help="Port (default: 3157; 0: any free port).")
@click.option("--transport", type=click.Choice(["http", "stdio"]), help="Transport (default: http).")
@database_option
def serve(host: str | None, port: int | None, transport: str | None, database: str | None) -> None:
    """Serve MCP at /mcp, the console at /, counsel's API at /api, and OpenAI's and Anthropic's APIs at /v1.

    A token protects all of them. It is COUNSEL_TOKEN; if that is not set, the first start creates one in
    COUNSEL_HOME/token.
    """
    use_database(database)
    settings = load()
    for problem in settings.problems:
        output.message(f"warning: {problem}")
    _check_login(settings, host or settings.host)
    if (transport or settings.transport) == "stdio":
        from counsel.daemon.standalone import serve as standalone

        sys.exit(standalone(None))
    asyncio.run(_serve(settings, host or settings.host, settings.port if port is None else port))


def _check_login(settings: Settings, host: str) -> None:
    """Refuse to serve others after `counsel login`: they would ask in this person's name."""
    from counsel.team_login import is_loopback

    if settings.team and not is_loopback(host):
        raise ConfigInvalid(
            f"This machine has joined {settings.team.host}: counsel does not listen on {host} for others.",
            hint="Others can join that server themselves. Run `counsel logout` first, or listen on 127.0.0.1.",
        )


async def _serve(settings: Settings, host: str, port: int) -> None:
    from counsel import logs, tracing
    from counsel.daemon.process_limits import prepare_process
    from counsel.http import serve as http

    prepare_process()
    logs.setup(settings, stderr=True)
    tracing.setup(settings)

    def announce(bound_host: str, bound_port: int) -> None:
        logs.announce(
            settings,
            f"counsel is listening on {http.address(bound_host, bound_port)}/mcp ({_token(settings)}). Ctrl-C stops it.",
        )
        logs.announce(
            settings, _console(settings, settings.public_url or http.address(bound_host, bound_port))
        )

    async def open_engine(home: Path) -> LocalEngine:
        from counsel.daemon.server import GARBAGE, whole_engine  # imported once the server listens

        gc.set_threshold(GARBAGE)
        return await whole_engine(home)

    try:
        await http.serve(open_engine, settings, host, port, announce)
    finally:
        await asyncio.to_thread(tracing.close)


def _token(settings: Settings) -> str:
    if settings.database:
        return "tokens: `counsel people add NAME`"
    return f"token: {'COUNSEL_TOKEN' if settings.token else settings.home / 'token'}"


def _console(settings: Settings, url: str) -> str:
    """The console's address; with a sign-in link only on a terminal: a key does not belong in a log."""
    from counsel.http import auth
    from counsel.http.console.sessions import ConsoleSessions

    if sys.stderr.isatty() and not settings.database:
        with suppress(CounselError):  # the link cannot be stored; the token still signs in
            key = ConsoleSessions(settings.home, auth.token(settings)).new_link(str(Path.cwd()))
            return f"Open the console with this link (it signs in once, within five minutes):\n  {url}/login#{key}"
    return f"Console: {url}/ (sign in with {'your' if settings.database else 'the'} token)."

"""`counsel worker`: runs jobs of a team, and serves nobody."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import click

from counsel.cli import output
from counsel.cli.database_option import database_option, use_database
from counsel.errors import InvalidArgument
from counsel.requests import LocalEngine
from counsel.settings import Settings, load


@click.command()
@click.option(
    "--concurrency", type=click.IntRange(1), help="Jobs at the same time (default: COUNSEL_CONCURRENCY, 64)."
)
@click.option(
    "--health-port",
    type=click.IntRange(0, 65535),
    help="Answer /health and /ready on this port; 0: any free one.",
)
@click.option("--health-host", default="127.0.0.1", show_default=True, help="Address for that port.")
@database_option
def worker(concurrency: int | None, health_port: int | None, health_host: str, database: str | None) -> None:
    """Run jobs of a team: more capacity for the servers that share its database.

    SIGTERM lets its jobs finish for COUNSEL_DRAIN_SECONDS; the others continue on other servers. A second signal ends it
    at once.
    """
    use_database(database)
    if concurrency is not None:
        os.environ["COUNSEL_CONCURRENCY"] = str(concurrency)
    settings = load()
    for problem in settings.problems:
        output.message(f"warning: {problem}")
    if not settings.database:
        raise InvalidArgument(
            "A worker needs the database of a team.",
            hint="Set COUNSEL_DATABASE, or pass --database postgresql://USER@HOST/NAME.",
        )
    asyncio.run(_run(settings, health_host, health_port))


async def _run(settings: Settings, host: str, port: int | None) -> None:
    from counsel import caller, logs
    from counsel.daemon.draining import until_hurried
    from counsel.daemon.process_limits import prepare_process
    from counsel.daemon.server import default_engine

    prepare_process()
    logs.setup(settings, stderr=True)
    engine = await default_engine(settings.home)
    try:
        engine.register_caller(caller.here("worker", cwd=Path.cwd()))
        stopping, hurry = asyncio.Event(), asyncio.Event()
        _handle_signals(stopping, hurry)
        health = await _health(engine, settings, host, port, stopping)
        output.message(f"counsel worker runs up to {settings.concurrency} jobs. Ctrl-C stops it.")
        await stopping.wait()
        output.message(
            f"counsel worker takes no more jobs; those that run have {settings.drain_seconds} seconds to finish."
        )
        await until_hurried(engine.drain(settings.drain_seconds), hurry)
        if health is not None:
            health.close()
    finally:
        await engine.close(keep=True)


def _handle_signals(stopping: asyncio.Event, hurry: asyncio.Event) -> None:
    def handle() -> None:
        (hurry if stopping.is_set() else stopping).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, handle)


async def _health(
    engine: LocalEngine, settings: Settings, host: str, port: int | None, stopping: asyncio.Event
) -> asyncio.Server | None:
    """For an orchestrator; no token, and nothing else is answered."""
    if port is None:
        return None
    from counsel.http import worker_health

    server = await worker_health.serve(engine, settings, host, port, stopping.is_set)
    with suppress(IndexError):
        output.message(f"Health: http://{host}:{server.sockets[0].getsockname()[1]}/health")
    return server

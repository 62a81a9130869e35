"""`counsel worker`: run a team's jobs, without serving clients."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import click

from counsel.cli.team.database_option import database_option, use_database
from counsel.cli.terminal import output
from counsel.errors import InvalidArgument
from counsel.requests import LocalEngine
from counsel.settings import Settings, load


@click.command()
@click.option(
    "--concurrency", type=click.IntRange(1), help="Jobs at the same time (default: COUNSEL_CONCURRENCY, 64)."
)
@click.option(
    "--probe-port",
    type=click.IntRange(0, 65535),
    help="Answer /health, /ready and /metrics on this port (default: COUNSEL_PROBE_PORT).",
)
@database_option
def worker(concurrency: int | None, probe_port: int | None, database: str | None) -> None:
    """Run a team's jobs: adds capacity to the servers that share its database.

    After SIGTERM, its jobs have COUNSEL_DRAIN_SECONDS to finish; unfinished ones continue on other servers. A second
    signal ends the worker at once.
    """
    use_database(database)
    if concurrency is not None:
        os.environ["COUNSEL_CONCURRENCY"] = str(concurrency)
    settings = load()
    for problem in settings.problems:
        output.message(f"warning: {problem}")
    if not settings.database:
        raise InvalidArgument(
            "A worker needs a team's database.",
            hint="Set COUNSEL_DATABASE, or pass --database postgresql://USER@HOST/NAME.",
        )
    asyncio.run(_run(settings, probe_port))


async def _run(settings: Settings, port: int | None) -> None:
    from counsel import caller, logs, tracing
    from counsel.daemon.draining import until_second_signal
    from counsel.daemon.process_limits import prepare_process
    from counsel.daemon.server import whole_engine

    prepare_process()
    logs.setup(settings, stderr=True)
    tracing.setup(settings)
    engine = await whole_engine(settings.home)
    try:
        engine.register_caller(caller.local_caller("worker", cwd=Path.cwd()))
        stopping, second_signal = asyncio.Event(), asyncio.Event()
        _handle_signals(stopping, second_signal)
        probes = await _probes(engine, settings, port, stopping)
        logs.announce(settings, f"counsel worker runs up to {settings.concurrency} jobs. Ctrl-C stops it.")
        await stopping.wait()
        logs.announce(
            settings,
            f"counsel worker takes no more jobs; running ones have {settings.drain_seconds} seconds to finish.",
        )
        await until_second_signal(engine.drain(settings.drain_seconds), second_signal)
        if probes is not None:
            probes.close()
    finally:
        await engine.close(keep=True)
        await asyncio.to_thread(tracing.close)


def _handle_signals(stopping: asyncio.Event, second_signal: asyncio.Event) -> None:
    def handle() -> None:
        (second_signal if stopping.is_set() else stopping).set()

    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, handle)


async def _probes(
    engine: LocalEngine, settings: Settings, port: int | None, stopping: asyncio.Event
) -> asyncio.Server | None:
    """Serve probes for an orchestrator and Prometheus, and nothing else."""
    if port is None and not settings.probe_port:
        return None
    from counsel import logs
    from counsel.http.worker_probes import WorkerProbes

    probes = WorkerProbes(engine, settings, stopping.is_set)
    server = await probes.serve(settings.host, settings.probe_port if port is None else port)
    logs.announce(settings, f"Probes: http://{settings.host}:{server.sockets[0].getsockname()[1]}/ready")
    return server

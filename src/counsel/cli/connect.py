"""How a command reaches the engine: through the daemon, or in this process with `--standalone`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

from counsel.caller import Caller, here
from counsel.cli import output
from counsel.requests import Engine

T = TypeVar("T")


def caller(cwd: str | None = None, roots: tuple[Path, ...] = ()) -> Caller:
    """The user of this shell. `roots`: folders that the command line names."""
    from dataclasses import replace

    user = here("cli", cwd=Path(cwd) if cwd else None)
    for problem in user.settings.problems:
        output.message(f"warning: {problem}")
    return replace(user, roots=roots)


@asynccontextmanager
async def engine(caller: Caller, *, standalone: bool = False) -> AsyncIterator[Engine]:
    if standalone:
        from counsel import logs
        from counsel.engine.engine import open_engine

        logs.setup(caller.settings, stderr=caller.settings.log_level == "debug")
        local = await open_engine(caller.settings.home)
        try:
            yield local
        finally:
            await local.close()
        return
    remote = await import_module("counsel.daemon.rpc_client").connect(caller)
    try:
        yield remote
    finally:
        await remote.close()


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def standalone_option(command: Callable[..., object]) -> Callable[..., object]:
    summary = "Run the engine in this process instead of the daemon."
    return click.option("--standalone", is_flag=True, help=summary)(command)

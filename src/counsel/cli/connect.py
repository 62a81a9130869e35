"""How a command reaches the engine: through the daemon, or in this process with `--standalone`."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Self, TypeVar

import click

from counsel.caller import Caller
from counsel.cli.terminal import closed_window
from counsel.cli.terminal.stopped import Stopped
from counsel.requests import Engine

T = TypeVar("T")


@asynccontextmanager
async def engine(
    caller: Caller, *, standalone: bool = False, resume_jobs: bool = False
) -> AsyncIterator[Engine]:
    """Connect to an engine.

    `resume_jobs`: a standalone engine continues this caller's interrupted jobs, as the daemon always does.
    """
    if standalone:
        from counsel import logs
        from counsel.engine.engine import open_engine

        logs.setup(caller.settings, stderr=caller.settings.log_level == "debug")
        local = (await open_engine(caller.settings.home, takes_jobs=False)).for_machine()
        if resume_jobs:
            local.register_caller(caller)
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


def run(work: Coroutine[object, object, T]) -> T:
    """Run the work to its end. A closed window (SIGHUP) and SIGTERM stop it in order, as Ctrl-C does."""
    signals = _StopSignals()
    try:
        return asyncio.run(signals.watch(work))
    except (asyncio.CancelledError, Stopped):
        raise click.exceptions.Exit(128 + signals.received) from None


class Loop:
    """An event loop that runs while a message is answered, and stops while the person types."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._contexts = AsyncExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._runner.run(self._contexts.aclose())
        finally:
            self._runner.close()

    def enter(self, context: AbstractAsyncContextManager[T]) -> T:
        """Enter the context until the loop closes."""
        return self._runner.run(self._contexts.enter_async_context(context))

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Like the function `run`, but Ctrl-C stops only the work: it raises `Stopped`."""
        signals = _StopSignals()
        try:
            return self._runner.run(signals.watch(work))
        except (asyncio.CancelledError, KeyboardInterrupt, Stopped):
            if signals.received != signal.SIGINT:
                raise click.exceptions.Exit(128 + signals.received) from None
            raise Stopped from None


class _StopSignals:
    def __init__(self) -> None:
        self.received = int(signal.SIGINT)
        self._terminals = [file for file in (1, 2) if os.isatty(file)]

    async def watch(self, work: Coroutine[object, object, T]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        signals = (signal.SIGHUP, signal.SIGTERM)
        signums = [signum for signum in signals if signal.getsignal(signum) is not signal.SIG_IGN]  # `nohup`
        for signum in signums:
            loop.add_signal_handler(signum, self._stop, signum, task)
        try:
            return await work
        finally:  # a loop that is not running would ignore the signals
            for signum in signums:
                loop.remove_signal_handler(signum)

    def _stop(self, signum: signal.Signals, task: asyncio.Task[object]) -> None:
        self.received = signum
        if signum == signal.SIGHUP:
            closed_window.write_nowhere(*self._terminals)
        task.cancel()


def standalone_option(command: Callable[..., object]) -> Callable[..., object]:
    summary = "Run the engine in this process instead of the daemon."
    return click.option("--standalone", is_flag=True, help=summary)(command)

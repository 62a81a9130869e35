"""The daemon's server: its connections, its files, and when it exits."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

from counsel import __version__, logs, resource_errors, run_paths, settings, strict_json
from counsel.daemon.connection import ConnectedClient, Connection
from counsel.daemon.console import DaemonConsole
from counsel.daemon.files import BACKLOG, AlreadyRunning, DaemonFiles
from counsel.daemon.process_limits import PendingConnections, most_connections, prepare_process
from counsel.errors import CounselError
from counsel.lazy_import import import_in_thread
from counsel.requests import LocalEngine

log = logging.getLogger("counsel.daemon")

OpenEngine: TypeAlias = Callable[[Path], Awaitable[LocalEngine]]
GARBAGE = 10_000  # allocations between garbage collections; a call leaves no cycles
CHECK_FILES = 1.0  # seconds between checks of the lock and the socket, which cost four `stat`


def run(ready: Callable[[], None], open_engine: OpenEngine | None = None) -> int:
    home = Path(run_paths.home(os.environ))
    if problem := run_paths.home_problem(os.environ):
        sys.stderr.write(f"{problem} {run_paths.HOME_HINT}\n")
        return 1
    gc.set_threshold(GARBAGE)
    prepare_process()
    logs.setup(settings.load(), stderr=False)
    try:
        files = DaemonFiles(home)
        files.take()
        asyncio.run(_serve(files, ready, open_engine or default_engine))
    except AlreadyRunning:
        ready()
    except (CounselError, OSError) as error:  # the process that started us shows the last line
        log.exception("the daemon cannot start")
        with contextlib.suppress(OSError):  # a full disk: the exit status gives the reason
            sys.stderr.write(f"{error}\n")
            sys.stderr.flush()
        return (error.errno if isinstance(error, OSError) else None) or 1
    return 0


async def whole_engine(home: Path) -> LocalEngine:
    engine: LocalEngine = await import_module("counsel.engine.engine").open_engine(home)
    return engine


async def default_engine(home: Path) -> LocalEngine:
    """The engine for this machine's own clients, without the jobs of a team that shares its database."""
    engine = await import_module("counsel.engine.engine").open_engine(home)
    for_machine: LocalEngine = engine.for_machine()
    return for_machine


async def _serve(files: DaemonFiles, ready: Callable[[], None], open_engine: OpenEngine) -> None:
    engine = await open_engine(files.home)
    server = DaemonServer(engine, files)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.end, "signal")
    await server.listen()
    log.info("daemon %s listening: pid %s", __version__, os.getpid())
    ready()
    importing = asyncio.create_task(_import_ahead())
    reopening = asyncio.create_task(server.console.reopen())
    try:
        reason = await server.end_reason()
        log.info("daemon exiting: %s", reason)
    finally:
        importing.cancel()
        reopening.cancel()
        await server.close()
        await engine.close(keep=True)  # interrupts calls, does not cancel them
        files.release()


async def _import_ahead() -> None:
    """Import modules that make calls faster but are not needed at the start."""
    try:
        await import_in_thread(("msgspec", "counsel.models.connections.http1"))
        strict_json.accelerate()
    except ImportError:
        log.exception("cannot import ahead: JSON is read and written by the standard library")
    gc.freeze()  # the imported modules live as long as the daemon


class Refusals:
    """When no more files can be opened, refuses connections with the help of a reserved descriptor.

    Without it, the kernel would connect a front, which gets no answer and takes the daemon for suspended.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._spare: int | None = None
        self._reserve()

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        cause = resource_errors.cause(context.get("exception"))
        if cause is None or "accept" not in str(context.get("message")):
            loop.default_exception_handler(context)
            return
        log.error("refused a connection: %s", cause[0])
        self._refuse(b"@" + json.dumps({"refused": f"{cause[0]}: {cause[1]}"}).encode() + b"\n")

    def close(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def _refuse(self, line: bytes) -> None:
        self.close()
        with contextlib.suppress(OSError):
            for _ in range(BACKLOG):
                connection, _ = self._listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.sendall(line)
        self._reserve()

    def _reserve(self) -> None:
        with contextlib.suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


class DaemonStatus(TypedDict):
    running: Literal[True]
    pid: int
    version: str
    home: str
    socket: str
    clients: list[ConnectedClient]
    started_at: float


class DaemonServer:
    """The engine and its connections."""

    def __init__(self, engine: LocalEngine, files: DaemonFiles) -> None:
        self.engine = engine
        self.files = files
        self.home = files.home
        self.console = DaemonConsole(engine, files.home)
        self.retired = False  # the home was replaced: accept no new calls, write nothing more there
        self.connections: set[Connection] = set()
        self._pending: PendingConnections[Connection] = PendingConnections()  # no hello yet
        self._most = most_connections()
        self.started = time.time()
        self._idle_after = settings.load().daemon_idle_seconds
        self._end_reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_check: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None
        self._refusals: Refusals | None = None
        self._repairs = 0  # checks in a row that found a file missing
        self._file_watch: asyncio.Task[None] | None = None
        self._console_closing: asyncio.Task[None] | None = None
        self._restart_idle_timer()

    async def end_reason(self) -> str:
        return await self._end_reason

    def end(self, reason: str) -> None:
        if not self._end_reason.done():
            self._end_reason.set_result(reason)

    def admit(self, connection: Connection) -> bool:
        """Admit a connection. False when there are too many and no silent one can be closed instead."""
        if len(self.connections) >= self._most:
            oldest = self._pending.oldest()
            if oldest is None:
                return False
            self._pending.discard(oldest)
            self.connections.discard(oldest)
            oldest.close_if_silent("replaced by a newer connection")
        self.connections.add(connection)
        self._pending.add(connection)
        return True

    def greeted(self, connection: Connection) -> None:
        self._pending.discard(connection)

    def remove(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._pending.discard(connection)
        if not self.connections:
            self._restart_idle_timer()

    def _restart_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(self._idle_after, self._start_idle_check)

    def _start_idle_check(self) -> None:
        self._idle_check = asyncio.ensure_future(self._end_if_idle())

    async def _end_if_idle(self) -> None:
        if self.connections:
            return
        if self.console.in_use or await self._busy():
            self._restart_idle_timer()
        else:
            self.end("idle")

    async def _busy(self) -> bool:
        try:
            return await self.engine.busy()
        except Exception:  # with a damaged database, the daemon still exits when idle
            log.exception("cannot read the jobs from the database")
            return False

    # ── our files ──

    async def listen(self) -> None:
        previous, listener = self._server, self.files.listen()
        loop = asyncio.get_running_loop()
        if self._refusals is not None:
            self._refusals.close()
        self._refusals = Refusals(listener)
        loop.set_exception_handler(self._refusals.handle)
        self._server = await loop.create_unix_server(lambda: Connection(self).pipe, sock=listener)
        if previous is not None:
            previous.close()
        self._file_watch = self._file_watch or asyncio.ensure_future(self._watch_files())

    async def _watch_files(self) -> None:
        while not self._end_reason.done():
            await asyncio.sleep(CHECK_FILES)
            try:
                await self._check_files()
                if not self.retired:
                    self.console.note_use()
            except OSError as error:  # the state is unknown, or cannot be repaired now
                log.warning("the daemon's files: %s", error)
            except Exception:
                log.exception("checking the daemon's files failed")

    async def _check_files(self) -> None:
        if self.retired:
            await self._close_idle_connections()
            return
        state = self.files.state()
        self._repairs = 0 if state == "ours" else self._repairs + 1
        if not self.engine.home_is_ours():
            self._retire()
        elif self._repairs > 1:  # not at the first check: an `rm -r` may be in progress
            await self._repair_files()

    async def _repair_files(self) -> None:
        """Recreate a deleted lock or socket, unless another daemon was quicker."""
        if self.files.state() == "lost" and not self.files.regain():
            self._retire()
            return
        log.warning("%s was deleted; creating it again", self.files.socket)
        await self.listen()
        self._repairs = 0

    def _retire(self) -> None:
        """Leave this path to another daemon: finish the calls in progress, accept no others."""
        log.warning(
            "%s was deleted, moved or replaced: this daemon exits when its calls are answered", self.home
        )
        self.retired = True
        logs.leave_file()
        self._console_closing = asyncio.ensure_future(self.console.close(for_good=False))
        if self._server is not None:
            self._server.close()
        self.files.release()

    async def _close_idle_connections(self) -> None:
        for connection in [connection for connection in self.connections if not connection.busy]:
            await connection.close("handover")
        if not self.connections:
            self.end("the home was replaced")

    def status(self) -> DaemonStatus:
        return {
            "running": True,
            "pid": os.getpid(),
            "version": __version__,
            "home": str(self.home),
            "socket": self.files.socket,
            "clients": [connection.about() for connection in self.connections if connection.role == "mcp"],
            "started_at": self.started,
        }

    async def close(self) -> None:
        """Close everything. Calls in progress go to the next daemon: their fronts send them again."""
        self.files.remove_socket()
        if self._server is not None:
            self._server.close()
        for timer in (self._idle_timer, self._file_watch):
            if timer is not None:
                timer.cancel()
        for connection in list(self.connections):
            await connection.close("handover")
        if self._console_closing is not None:
            await self._console_closing
        await self.console.close(for_good=self._end_reason.done() and self._end_reason.result() == "idle")

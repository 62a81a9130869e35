"""What the daemon is from the inside: the lease on COUNSEL_HOME, the socket, its visitors, and when it is over."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import json
import logging
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from counsel import __version__, logs, private, settings, shortage
from counsel.doors import place
from counsel.doors.socket import Visit
from counsel.requests import LocalEngine
from counsel.types import Json

log = logging.getLogger("counsel.daemon")

OpenEngine: TypeAlias = Callable[[Path], Awaitable[LocalEngine]]
BACKLOG = 512
GARBAGE = 10_000  # objects between looks for cycles; a call leaves none
LEASE_PATIENCE = 10.0  # seconds for the daemon before us to finish


class Occupied(Exception):
    """Another daemon serves this COUNSEL_HOME."""


def run(ready: Callable[[], None], open_engine: OpenEngine | None = None) -> int:
    home = Path(place.home(os.environ))
    gc.set_threshold(GARBAGE)
    private.process()
    logs.setup(settings.load(), stderr=False)
    try:
        with lease(home):
            asyncio.run(_serve(home, ready, open_engine or default_engine))
    except Occupied:
        ready()
    return 0


async def default_engine(home: Path) -> LocalEngine:
    engine: LocalEngine = await import_module("counsel.engine.engine").open_engine(home)
    return engine


@contextlib.contextmanager
def lease(home: Path) -> Iterator[None]:
    """Hold the one lock that proves that a daemon lives; the kernel lets go of it whatever happens to us."""
    path = Path(place.run_folder(str(home))) / "daemon.lock"
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(file, home)
        os.ftruncate(file, 0)
        os.write(file, json.dumps({"pid": os.getpid(), "version": __version__}).encode())
        yield
    finally:
        os.close(file)


def _lock(file: int, home: Path) -> None:
    until = time.monotonic() + LEASE_PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _answers(home):
                raise Occupied from None
            if time.monotonic() > until:
                raise
            time.sleep(0.02)  # the one before us is finishing what it writes
        else:
            return


def _answers(home: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(place.socket(str(home)))
        except OSError:
            return False
    return True


def listen(path: str) -> socket.socket:
    """Bind under another name, then rename: nobody ever sees a socket that does not listen, or not ours alone."""
    fresh = f"{path}.{os.getpid()}"
    Path(fresh).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(fresh)
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    Path(fresh).replace(path)
    return listener


async def _serve(home: Path, ready: Callable[[], None], open_engine: OpenEngine) -> None:
    engine = await open_engine(home)
    house = House(engine, home)
    path = place.socket(str(home))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, house.end, "signal")
    listener = listen(path)
    loop.set_exception_handler(Refusals(listener).handle)
    server = await loop.create_unix_server(lambda: Visit(house).pipe, sock=listener)
    log.info("daemon %s listens: pid %s", __version__, os.getpid())
    gc.freeze()  # what was imported stays as long as the daemon
    ready()
    try:
        why = await house.over()
        log.info("daemon ends: %s", why)
    finally:
        _remove(path)  # first of all, so that no door comes to one that is leaving
        server.close()
        await house.close()
        await engine.close(keep=True)  # an orderly end interrupts calls, it does not cancel them


def _remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)
    with contextlib.suppress(
        OSError
    ):  # a folder in /tmp that held nothing else; COUNSEL_HOME/run holds the locks
        Path(path).parent.rmdir()


class Refusals:
    """When no more files may be opened, whoever comes is told so, through one that was kept for it.

    Else a door would be connected by the kernel, hear nothing, and take the daemon for suspended.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._spare: int | None = None
        self._keep()

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        found = shortage.cause(context.get("exception"))
        if found is None or "accept" not in str(context.get("message")):
            loop.default_exception_handler(context)
            return
        log.error("a connection was refused: %s", found[0])
        self._refuse(b"@" + json.dumps({"refused": f"{found[0]}: {found[1]}"}).encode() + b"\n")

    def _refuse(self, words: bytes) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        with contextlib.suppress(OSError):
            for _ in range(BACKLOG):
                connection, _ = self._listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.sendall(words)
        self._keep()

    def _keep(self) -> None:
        with contextlib.suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


class House:
    """The engine and everybody who visits it."""

    def __init__(self, engine: LocalEngine, home: Path) -> None:
        self.engine = engine
        self.home = home
        self.visits: set[Visit] = set()
        self.started = time.time()
        self._idle_after = settings.load().daemon_idle_seconds
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._watch: asyncio.TimerHandle | None = None
        self._look: asyncio.Task[None] | None = None
        self._wait_for_idleness()

    async def over(self) -> str:
        return await self._over

    def end(self, why: str) -> None:
        if not self._over.done():
            self._over.set_result(why)

    def enter(self, visit: Visit) -> None:
        self.visits.add(visit)

    def leave(self, visit: Visit) -> None:
        self.visits.discard(visit)
        if not self.visits:
            self._wait_for_idleness()

    def _wait_for_idleness(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = asyncio.get_running_loop().call_later(self._idle_after, self._begin_look)

    def _begin_look(self) -> None:
        self._look = asyncio.ensure_future(self._end_if_idle())

    async def _end_if_idle(self) -> None:
        if self.visits:
            return
        if await self._busy():
            self._wait_for_idleness()
        else:
            self.end("idle")

    async def _busy(self) -> bool:
        try:
            return await self.engine.busy()
        except Exception:  # a damaged database is no reason to stay for ever
            log.exception("the database cannot be asked for jobs")
            return False

    def status(self) -> Json:
        return {
            "running": True,
            "pid": os.getpid(),
            "version": __version__,
            "home": str(self.home),
            "socket": place.socket(str(self.home)),
            "clients": [visit.about() for visit in self.visits if visit.role == "mcp"],
            "started_at": self.started,
        }

    async def close(self) -> None:
        """Calls that are being answered are left to the next daemon: their fronts send them again."""
        if self._watch is not None:
            self._watch.cancel()
        for visit in list(self.visits):
            await visit.close("handover")

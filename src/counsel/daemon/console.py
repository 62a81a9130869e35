"""The console's port in the daemon: opened on demand, and reopened by the next daemon after a crash.

An open page reconnects to its old address, so `run/console.json` stores the port.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from counsel import paths, run_paths, settings
from counsel.errors import CounselError
from counsel.lazy_import import import_in_thread
from counsel.mcp.identity import ClientIdentity
from counsel.requests import LocalEngine

if TYPE_CHECKING:
    from counsel.http.console.server import ConsoleServer

log = logging.getLogger("counsel.daemon")
SERVER = "counsel.http.console.server"  # imported when a console is opened: most daemons open none
RECENT = 12 * 3600.0  # seconds after which an open page counts as closed: its session has expired
NOTE_EVERY = 600.0  # seconds between notes that a page is connected


class OpenConsole(TypedDict):
    url: str
    port: int
    key: str  # of a one-time link


class DaemonConsole:
    def __init__(self, engine: LocalEngine, home: Path) -> None:
        self._engine = engine
        self._home = home
        self._file = Path(run_paths.run_folder(str(home))) / "console.json"
        self._server: ConsoleServer | None = None
        self._identity: ClientIdentity | None = None
        self._noted = 0.0
        self._opening = asyncio.Lock()

    @property
    def in_use(self) -> bool:
        return self._server is not None and self._server.in_use

    async def open(self, env: Mapping[str, str], project: Path, port: int = 0) -> OpenConsole:
        """Open the port for a user with these variables, and make a link. 0: the last port, or a free one."""
        await self._listen({**env, "COUNSEL_HOME": str(self._home)}, project, port)
        assert self._server is not None  # `_listen` raises otherwise
        key = await asyncio.to_thread(self._server.sessions.new_link, str(project))
        return {"url": self._server.url, "port": self._server.port, "key": key}

    async def hold(self, env: Mapping[str, str], project: Path, port: int) -> None:
        """Keep the port open until the caller or the daemon exits. Return at once if another port had to be used."""
        await self._listen({**env, "COUNSEL_HOME": str(self._home)}, project, 0)
        if self._server is not None and self._server.port == port:
            await asyncio.Event().wait()

    async def _listen(self, env: Mapping[str, str], project: Path, port: int) -> None:
        async with self._opening:
            if self._identity is None:
                self._identity = ClientIdentity(env=env, cwd=project)
            else:
                self._identity.move(env, project)
            self._engine.register_caller(self._identity.caller("http"))
            if self._server is not None and port in {0, self._server.port}:
                return
            await import_in_thread((SERVER,))
            module = import_module(SERVER)
            server = await module.ConsoleServer.start(
                self._engine,
                settings.load(),  # the daemon's own, whose token is the same for every daemon of this home
                self._identity,
                port or self._remembered().get("port") or module.PORT,
                exactly=bool(port),
            )
            previous, self._server = self._server, server
            log.info("the console is at %s", server.url)
            self._remember(project)
        if previous is not None:
            await previous.close()

    # ── the next daemon ──

    async def reopen(self) -> None:
        """Open the port again after a crash or an update: an open page may be looking for it."""
        note = self._remembered()
        age = time.time() - note.get("at", 0.0)
        if not note.get("open") or not 0 <= age < RECENT:
            return
        try:
            await self._listen(dict(os.environ) | {"COUNSEL_HOME": str(self._home)}, _folder(note), 0)
        except (CounselError, OSError):
            log.exception("the console's port cannot be opened again")

    def note_use(self) -> None:
        """Note that a page is connected. Called every second."""
        if self.in_use and self._identity is not None and time.time() - self._noted > NOTE_EVERY:
            self._remember(self._identity.cwd)

    def _remember(self, project: Path, *, is_open: bool = True) -> None:
        assert self._server is not None  # only called while the console is open
        self._noted = time.time()
        note = {"port": self._server.port, "at": self._noted, "open": is_open, "project": str(project)}
        with suppress(OSError, UnicodeEncodeError):  # then the next daemon does not reopen the port
            paths.write_private(str(self._file), json.dumps(note).encode(), replace=True)

    def _remembered(self) -> _Note:
        try:
            note = json.loads(self._file.read_bytes()[:100_000])
        except (OSError, ValueError):
            return {}
        return _checked(note)

    async def close(self, *, for_good: bool) -> None:
        """Close the port. `for_good`: it is unused, so the next daemon does not reopen it."""
        if self._server is not None:
            if for_good and self._identity is not None:
                self._remember(self._identity.cwd, is_open=False)
            server, self._server = self._server, None
            await server.close()


class _Note(TypedDict, total=False):
    port: int
    at: float
    open: bool
    project: str


def _checked(note: object) -> _Note:
    if not isinstance(note, dict):
        return {}
    port, at = note.get("port"), note.get("at")
    if not isinstance(port, int) or not 0 < port < 65536 or not isinstance(at, int | float):
        return {}
    return {"port": port, "at": at, "open": note.get("open") is True, "project": str(note.get("project"))}


def _folder(note: _Note) -> Path:
    project = Path(note.get("project", ""))
    return project if project.is_absolute() else Path.home()

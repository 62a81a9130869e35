"""What `counsel serve` answers while the engine is still being imported and opened.

That is more than half of the time from its start to its first answer. `/health` needs nothing of it and is answered at once;
everything else is let in by the guard and waits. The words "counsel listens", and the failure of a start, come when they
always came: when everything is there, or cannot be.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from counsel import __version__, strict_json
from counsel.errors import Internal
from counsel.http.auth import App, Receive, Scope, Send, refuse
from counsel.lazy_dataclass import dataclass
from counsel.lazy_import import imported
from counsel.requests import LocalEngine
from counsel.settings import Settings

OpenEngine: TypeAlias = Callable[[Path], Awaitable[LocalEngine]]
Said: TypeAlias = Callable[[str, int], None]
HEALTH = {"status": "ok", "version": __version__}
SWITCH = (
    0.0005  # seconds for which the importing thread may keep the interpreter from an answer; usually 0.005
)
MODULES = ("counsel.daemon.server", "counsel.engine.engine", "counsel.http.app", "msgspec")


@dataclass(frozen=True, slots=True)
class Door:
    app: App
    close: Callable[[], Awaitable[None]]  # before the server goes: calls are left to the journal


class LateDoor:
    """The door from its first moment on. `failed` is called when the rest cannot be loaded; `leave` then raises why."""

    def __init__(self, open_engine: OpenEngine, settings: Settings, said: Said) -> None:
        self._open_engine = open_engine
        self._settings = settings
        self._said = said
        self._engine: LocalEngine | None = None
        self._door: Door | None = None
        self._loading: asyncio.Task[None] | None = None
        self.failed: Callable[[], None] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._door is None:
            if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == "/health":
                await _healthy(send)
                return
            await asyncio.wait({self._loading} if self._loading else ())
        if self._door is None:
            await refuse(503, Internal("counsel could not be started."), send)
        else:
            await self._door.app(scope, receive, send)

    def load(self, host: str, port: int) -> None:
        """The socket listens: now the rest."""
        self._loading = asyncio.create_task(self._load(host, port))
        self._loading.add_done_callback(lambda _: None if self._door else self.failed())

    async def _load(self, host: str, port: int) -> None:
        await imported(MODULES)
        strict_json.accelerate()
        from counsel.http import app as http_app  # noqa: PLC0415 - they are here by now
        from counsel.http.api import routes

        await imported(routes.ROOMS)
        self._engine = engine = await self._open_engine(self._settings.home)
        self._door = http_app.unguarded(engine, self._settings, routes.routes(engine, self._settings))
        gc.freeze()  # what was imported stays as long as the server
        self._said(host, port)

    async def close(self) -> None:
        if self._door is not None:
            await self._door.close()
        elif self._loading is not None:
            self._loading.cancel()

    async def leave(self) -> None:
        try:
            if self._loading is not None:
                with suppress(asyncio.CancelledError):
                    await self._loading
        finally:
            if self._engine is not None:
                await self._engine.close(keep=True)


async def _healthy(send: Send) -> None:
    body = json.dumps(HEALTH, separators=(",", ":")).encode()
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})

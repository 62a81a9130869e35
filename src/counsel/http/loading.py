"""What `counsel serve` answers while the engine is still being imported and opened.

That is more than half of the time from its start to its first answer. `/health` does not need the engine and is answered
at once; other requests pass the guard and wait. "counsel is listening" is printed, and a failed start reported, only when
everything is loaded or cannot be.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from counsel import __version__, strict_json
from counsel.errors import Internal
from counsel.http.auth import App, Receive, Scope, Send, refuse
from counsel.lazy_dataclass import dataclass
from counsel.lazy_import import import_in_thread
from counsel.requests import LocalEngine
from counsel.settings import Settings

if TYPE_CHECKING:
    from counsel.engine.store.protocol import Store

OpenEngine: TypeAlias = Callable[[Path], Awaitable[LocalEngine]]
Announce: TypeAlias = Callable[[str, int], None]
HEALTH = {"status": "ok", "version": __version__}
_STARTING = {
    "status": "not_ready",
    "version": __version__,
    "reasons": [{"code": "starting", "text": "The server is starting."}],
}
_AT_ONCE: dict[str, tuple[int, object]] = {"/health": (200, HEALTH), "/ready": (503, _STARTING)}
_LOOK = 0.05  # seconds between looks whether a client waits
MODULES = (
    "counsel.daemon.server",
    "counsel.engine.engine",
    "counsel.http.app",
    "counsel.http.api.routes",
    "msgspec",
)


@dataclass(frozen=True, slots=True)
class HttpApp:
    app: App
    close: Callable[[], Awaitable[None]]  # before the server exits: calls stay in the database
    drain: Callable[[], Coroutine[object, object, None]] | None = None  # before that: a team's jobs may end
    is_waiting: Callable[[], bool] = bool  # a client waits for the answer to its request


class _Stored(Protocol):
    """An engine with the database: the real one."""

    store: Store


class LoadingApp:
    """The application from the start of the process. `failed` is called when it cannot be loaded; `leave` then raises the reason."""

    def __init__(self, open_engine: OpenEngine, settings: Settings, announce: Announce) -> None:
        self._open_engine = open_engine
        self._settings = settings
        self._announce = announce
        self._engine: LocalEngine | None = None
        self._app: HttpApp | None = None
        self._loading: asyncio.Task[None] | None = None
        self.failed: Callable[[], None] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] in _AT_ONCE:
                await _answer(send, *_AT_ONCE[scope["path"]])
                return
            await asyncio.wait({self._loading} if self._loading else ())
        if self._app is None:
            await refuse(503, Internal("counsel could not be started."), send, scope.get("path", ""))
        else:
            await self._app.app(scope, receive, send)

    def load(self, host: str, port: int) -> None:
        """Load everything else, now that the socket listens."""
        self._loading = asyncio.create_task(self._load(host, port))
        self._loading.add_done_callback(lambda _: None if self._app else self.failed())

    async def _load(self, host: str, port: int) -> None:
        await import_in_thread(MODULES)
        strict_json.accelerate()
        from counsel.http import app as http_app  # imported by now
        from counsel.http.api import routes
        from counsel.mcp.identity import ClientIdentity

        self._engine = engine = await self._open_engine(self._settings.home)
        # one for all: what `/api` changes, the next request to `/v1` and `/mcp` sees, too
        identity = ClientIdentity(env=self._settings.own_env, cwd=Path.cwd())
        table = routes.routes(engine, self._settings, identity)
        self._app = http_app.unguarded(engine, self._settings, table, identity)
        gc.freeze()  # imported modules stay as long as the server
        self._announce(host, port)

    async def store(self) -> Store:
        """The engine's, once it is open: a team's tokens are looked up there."""
        if self._engine is None and self._loading is not None:
            await asyncio.wait({self._loading})
        if self._engine is None:
            raise Internal("counsel could not be started.")
        return cast("_Stored", self._engine).store

    async def drain(self) -> None:
        """Also for clients that wait here for jobs of other servers: they have no other connection."""
        if self._app is None or self._engine is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.drain_seconds):
                await self._engine.drain(self._settings.drain_seconds)
                while self._app.is_waiting():  # noqa: ASYNC110 - each interface knows its own clients
                    await asyncio.sleep(_LOOK)

    async def close(self) -> None:
        if self._app is not None:
            await self._app.close()
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


async def _answer(send: Send, status: int, document: object) -> None:
    body = json.dumps(document, separators=(",", ":")).encode()
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""The application of `counsel serve` while the engine is still being imported and opened.

That takes more than half of the time between the server's start and its first response. `/health` does not need the
engine and is answered at once; other requests pass the guard and wait. "counsel is listening" is printed, or a failed
start reported, only when everything is loaded or cannot be.
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
from counsel.settings import Settings

if TYPE_CHECKING:  # at runtime, results and requests would be imported before the port is open
    from counsel.engine.store.protocol import Store
    from counsel.requests import LocalEngine

OpenEngine: TypeAlias = "Callable[[Path], Awaitable[LocalEngine]]"
Announce: TypeAlias = Callable[[str, int], None]
HEALTH = {"status": "ok", "version": __version__}
_STARTING = {
    "status": "not_ready",
    "version": __version__,
    "reasons": [{"code": "starting", "text": "The server is starting."}],
}
_AT_ONCE: dict[str, tuple[int, object]] = {"/health": (200, HEALTH), "/ready": (503, _STARTING)}
_POLL = 0.05  # seconds between two checks whether clients still wait
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
    drain: Callable[[], Coroutine[object, object, None]] | None = (
        None  # before `close`: lets a team's jobs finish
    )
    is_waiting: Callable[[], bool] = bool  # whether a client waits for the answer to its request


class _HasStore(Protocol):
    """An engine with direct access to the database."""

    store: Store


class LoadingApp:
    """The application from the start of the process.

    Calls `on_failure` if it cannot be loaded; `close_engine` then raises the reason.
    """

    def __init__(self, open_engine: OpenEngine, settings: Settings, announce: Announce) -> None:
        self._open_engine = open_engine
        self._settings = settings
        self._announce = announce
        self._engine: LocalEngine | None = None
        self._app: HttpApp | None = None
        self._loading: asyncio.Task[None] | None = None
        self.on_failure: Callable[[], None] = lambda: None

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
        """Begin to load everything else, now that the socket listens."""
        self._loading = asyncio.create_task(self._load(host, port))
        self._loading.add_done_callback(lambda _: None if self._app else self.on_failure())

    async def _load(self, host: str, port: int) -> None:
        await import_in_thread(MODULES)
        strict_json.accelerate()
        from counsel.http import app as http_app  # imported already, in MODULES
        from counsel.http.api import routes
        from counsel.mcp.identity import ClientIdentity

        self._engine = engine = await self._open_engine(self._settings.home)
        # shared by all routes: the next request to `/v1` or `/mcp` sees what `/api` has changed
        identity = ClientIdentity(env=self._settings.own_env, cwd=Path.cwd())
        rows = routes.routes(engine, self._settings, identity)
        self._app = http_app.unguarded(engine, self._settings, rows, identity)
        gc.freeze()  # imported modules stay as long as the server
        self._announce(host, port)

    async def store(self) -> Store:
        """Wait until the engine is open; return its store, in which a team's tokens are looked up."""
        if self._engine is None and self._loading is not None:
            await asyncio.wait({self._loading})
        if self._engine is None:
            raise Internal("counsel could not be started.")
        return cast("_HasStore", self._engine).store

    async def drain(self) -> None:
        """Let jobs finish, and clients wait for jobs of other servers: they have no other connection."""
        if self._app is None or self._engine is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.drain_seconds):
                await self._engine.drain(self._settings.drain_seconds)
                while self._app.is_waiting():  # noqa: ASYNC110 - each interface knows its own clients
                    await asyncio.sleep(_POLL)

    async def close(self) -> None:
        if self._app is not None:
            await self._app.close()
        elif self._loading is not None:
            self._loading.cancel()

    async def close_engine(self) -> None:
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

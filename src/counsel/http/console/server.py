"""The HTTP server on a loopback port of a process that has an engine already: the daemon, while the console is used."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from counsel.errors import ConfigInvalid
from counsel.http import app, auth, serve
from counsel.http.api import routes
from counsel.http.console.sessions import ConsoleSessions
from counsel.mcp.identity import ClientIdentity
from counsel.requests import LocalEngine
from counsel.settings import Settings

HOST = "127.0.0.1"
PORT = 3158  # `counsel serve` has 3157


class _Server(serve.Server):
    """A server that leaves signals and failed accepts to its process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def prepare(self) -> None:
        return


class ConsoleServer:
    def __init__(self, server: _Server, sessions: ConsoleSessions, port: int) -> None:
        self.port = port
        self.sessions = sessions
        self._server = server
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls, engine: LocalEngine, settings: Settings, identity: ClientIdentity, port: int, *, exactly: bool
    ) -> Self:
        """Listen on `port`. If it is taken, use a free one, or raise `ConfigInvalid` if `exactly` is set."""
        secret = auth.token(settings)
        try:
            listener = serve.listen(HOST, port)
        except ConfigInvalid:
            if exactly:
                raise
            listener = serve.listen(HOST, 0)
        rows = routes.routes(engine, settings, identity)
        application = app.build(engine, settings, host=HOST, secret=secret, routes=rows, identity=identity)
        ready = asyncio.Event()
        bound_port = int(listener.getsockname()[1])
        server = _Server(application, HOST, bound_port, lambda *_: ready.set(), settings.max_connections)
        console = cls(server, ConsoleSessions(settings.home, secret), bound_port)
        console._task = asyncio.create_task(server.serve(sockets=[listener]))
        await ready.wait()
        return console

    @property
    def url(self) -> str:
        return serve.address(HOST, self.port)

    @property
    def in_use(self) -> bool:
        """Whether a page is connected."""
        return bool(self._server.server_state.connections)

    async def close(self) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await self._task

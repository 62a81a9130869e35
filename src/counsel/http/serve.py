"""`counsel serve`: the HTTP server. Its application is in `loading.py` at first, then in `app.py`."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from counsel.daemon.draining import until_second_signal
from counsel.daemon.process_limits import MOST_CONNECTIONS, limit_accept_warnings, most_connections
from counsel.errors import ConfigInvalid
from counsel.http import auth
from counsel.http.connection import Connection, Pool
from counsel.http.guarding import guarded
from counsel.http.loading import HttpApp, LoadingApp, OpenEngine
from counsel.settings import Settings

if TYPE_CHECKING:
    from counsel.http.team.access import TeamAccess

BACKLOG = 512
TICK = 1.0  # seconds between two checks of the connections' time limits
UVICORN_TICKS = 10  # of uvicorn's ticks, a tenth of a second each, in one TICK


class Server(uvicorn.Server):
    """uvicorn without an access log: a URL or a header may contain a secret."""

    def __init__(
        self,
        app: HttpApp,
        host: str,
        port: int,
        announce: Callable[[str, int], None],
        most: int = MOST_CONNECTIONS,
    ) -> None:
        pool = Pool(most_connections(most))
        config = uvicorn.Config(
            app.app,
            http=partial(Connection, pool=pool),  # type: ignore[arg-type] # it is only called
            backlog=BACKLOG,
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # any local process could send them: `proxies.py` reads those of trusted ones
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=5,
        )
        self._stopped = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None  # while it serves
        super().__init__(config)
        self._app = app
        self._announce = announce
        self._hurry = asyncio.Event()

    @property
    def should_exit(self) -> bool:
        return self._should_exit

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        """Stop serving. Any thread may set it."""
        self._should_exit = value
        if value and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)

    async def main_loop(self) -> None:
        """Tick once a second: uvicorn's own loop wakes an idle server's processor ten times as often."""
        self._loop = asyncio.get_running_loop()
        counter = 0
        while not await self.on_tick(counter):
            counter += UVICORN_TICKS
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK):
                    await self._stopped.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let signals only stop the server: uvicorn would raise them again before the engine is closed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    async def on_tick(self, counter: int) -> bool:
        now = time.monotonic()
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                connection.enforce(now)
        return await super().on_tick(counter)

    def prepare(self) -> None:
        limit_accept_warnings(asyncio.get_running_loop())

    async def startup(self, sockets: Any = None) -> None:
        self.prepare()
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._announce(host, port)

    async def shutdown(self, sockets: Any = None) -> None:
        await self._drain()
        await self._app.close()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A second signal ends a team's server at once: other servers continue its jobs."""
        if self.should_exit:
            self._hurry.set()
            self.force_exit = self._app.drain is not None
        super().handle_exit(sig, frame)

    async def _drain(self) -> None:
        """Let jobs finish. Requests are answered meanwhile: clients wait for jobs, and `/ready` tells the balancer."""
        if self._app.drain is not None:
            await until_second_signal(self._app.drain(), self._hurry)


async def serve(
    open_engine: OpenEngine, settings: Settings, host: str, port: int, announce: Callable[[str, int], None]
) -> None:
    """Serve until a signal arrives. `announce` gets the address once everything is loaded."""
    is_team = bool(settings.database)
    secret = settings.token if is_team else auth.token(settings)
    if secret or not is_team:
        auth.check_bind(host, secret)
    listener = listen(host, port)
    loading = LoadingApp(open_engine, settings, announce)
    team = _team_access(loading, secret) if is_team else None
    guard = guarded(loading, settings, host=host, secret=secret, team=team)
    app = HttpApp(guard, loading.close, loading.drain if is_team else None)
    server = Server(app, host, port, loading.load, settings.max_connections)
    loading.on_failure = partial(setattr, server, "should_exit", True)
    try:
        await server.serve(sockets=[listener])
    finally:
        if team is not None:
            team.close()
        await loading.close_engine()


def _team_access(loading: LoadingApp, operator_token: str) -> TeamAccess:
    from counsel.http.team.access import TeamAccess  # loaded on a team's server only

    return TeamAccess(loading.store, operator_token)


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        reason = _reason(error)
        raise ConfigInvalid(
            f"counsel cannot listen on {address(host, port)}: {reason}.",
            hint="Is another `counsel serve` running? Choose another port with `--port`; 0 takes any free one.",
        ) from error
    # asyncio sets TCP_NODELAY only on sockets whose protocol is TCP, and `create_server` sets none: a reply's body
    # would wait for the client's delayed ACK of its head, 41 ms on every request after a connection's first
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=listener.detach())


def _reason(error: OSError | OverflowError) -> str:
    """The system's message: `create_server` adds the address in Python's notation."""
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and error.errno:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error)


def address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

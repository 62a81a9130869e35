"""`counsel serve`: the engine with the HTTP door open. `/mcp`, `/health`, `/metrics`, and the rooms' `/api`."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from counsel import __version__
from counsel.dataclass import dataclass
from counsel.doors import api, auth
from counsel.doors.auth import App, Guard
from counsel.doors.http_connection import Connection, Pool
from counsel.doors.listening import MOST_CONNECTIONS, most_connections, say_little_about_accepting
from counsel.doors.streamable import Streamable
from counsel.doors.visitor import Visitor
from counsel.errors import ConfigInvalid
from counsel.requests import Engine
from counsel.settings import Settings

BACKLOG = 512
TICKS = 10  # of uvicorn, a tenth of a second each, between two looks at the connections' limits of time


def build(
    engine: Engine, settings: Settings, *, host: str, secret: str, routes: Iterable[BaseRoute] = ()
) -> Door:
    """The whole door: everything but `/health` behind the token."""
    visitor = Visitor(env=settings.own_env, cwd=Path.cwd())
    engine.meet(visitor.caller("http"))
    mcp = Streamable(engine, visitor)
    inner = Starlette(
        routes=[
            Route("/mcp", mcp, methods=["GET", "POST", "DELETE"]),
            Route("/health", _health),
            Route("/metrics", _metrics(engine)),
            *routes,
        ],
        exception_handlers={404: api.nowhere, Exception: api.failed},
    )
    inner.state.closing = closing = asyncio.Event()  # streams that have no end of their own end with it
    guard = Guard(inner, secret=secret, host=host, origins=settings.cors_origins)

    async def close() -> None:
        closing.set()
        await mcp.close()

    return Door(guard, close)


@dataclass(frozen=True, slots=True)
class Door:
    app: App
    close: Callable[[], Awaitable[None]]  # before the server goes: calls are left to the journal


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok", "version": __version__})


def _metrics(engine: Engine) -> Callable[[Request], object]:
    async def metrics(_: Request) -> Response:
        text = getattr(engine, "metrics_text", None)
        if text is None:
            return PlainTextResponse("counsel keeps no metrics here\n", status_code=404)
        return PlainTextResponse(await text(), media_type="text/plain; version=0.0.4")

    return metrics


class Server(uvicorn.Server):
    """uvicorn without a word about requests: an address or a header may hold a secret."""

    def __init__(
        self,
        door: Door,
        host: str,
        port: int,
        said: Callable[[str, int], None],
        most: int = MOST_CONNECTIONS,
    ) -> None:
        pool = Pool(most_connections(most))
        config = uvicorn.Config(
            door.app,
            http=partial(Connection, pool=pool),  # type: ignore[arg-type] # it is only called
            backlog=BACKLOG,
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=5,
        )
        super().__init__(config)
        self._door = door
        self._said = said

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A signal ends the serving and no more: uvicorn's own raises it again, before the engine is closed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS == 0:
            now = time.monotonic()
            for connection in list(self.server_state.connections):
                if isinstance(connection, Connection):
                    connection.enforce(now)
        return await super().on_tick(counter)

    async def startup(self, sockets: Any = None) -> None:
        say_little_about_accepting(asyncio.get_running_loop())
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._said(host, port)

    async def shutdown(self, sockets: Any = None) -> None:
        await self._door.close()
        await super().shutdown(sockets)


async def serve(
    engine: Engine, settings: Settings, host: str, port: int, said: Callable[[str, int], None]
) -> None:
    """Serve until a signal. `said` is told the address once it is open."""
    secret = auth.token(settings)
    auth.check_bind(host, secret)
    listener = _listen(host, port)
    door = build(engine, settings, host=host, secret=secret, routes=api.routes(engine, settings))
    await Server(door, host, port, said, settings.max_connections).serve(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        reason = _reason(error)
        raise ConfigInvalid(
            f"counsel cannot listen on {address(host, port)}: {reason}.",
            hint="Is another `counsel serve` running? `--port` takes another port, 0 any free one.",
        ) from error
    # asyncio sets TCP_NODELAY only on sockets that name TCP as their protocol, and `create_server` names none: a reply's
    # body then waits for the client's delayed ACK of its head, 41 ms on every request after a connection's first
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=listener.detach())


def _reason(error: OSError | OverflowError) -> str:
    """The system's words: `create_server` adds the address to them as Python writes it."""
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and error.errno:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error)


def address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

"""Connections to the vendors that are kept open for the next request."""

from __future__ import annotations

import asyncio
import ssl
import time

from counsel.models.connections.connect import open_socket
from counsel.models.connections.http1 import (
    Connection,
    ConnectTimeout,
    DeadlineExceeded,
    Key,
    Response,
    Trust,
)
from counsel.models.connections.request_head import Address

KEEP_SECONDS = 15.0  # that an idle connection is kept open
MAX_IDLE = 100  # connections to one server
_READ_BYTES = 64 * 1024


class Pool:
    """Idle connections by server, newest last. `close` it at the end."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(_READ_BYTES))  # shared by all connections: each read is copied
        self._idle: dict[Key, list[Connection]] = {}
        self._open: set[Connection] = set()
        self._default: ssl.SSLContext | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def request(
        self,
        address: Address,
        head: bytes,
        body: bytes | None,
        *,
        trust: Trust,
        connect: float,
        until: float,
    ) -> Response:
        """The response, once its head has arrived. Raises `OSError`, `NotHttp`, `DeadlineExceeded`."""
        key = (address.host, address.port, (trust or await self._default_trust()) if address.is_tls else None)
        connection = self._take(key) or await self._connect(key, connect, until)
        response = connection.send(head, body)
        try:
            await response.head(until)
        except BaseException:
            response.close()
            raise
        return response

    def _take(self, key: Key) -> Connection | None:
        idle = self._idle.get(key)
        while idle:
            connection = idle.pop()
            if connection.is_open and connection.expires > time.monotonic():
                return connection
            connection.abort()
        return None

    async def _connect(self, key: Key, seconds: float, until: float) -> Connection:
        loop = asyncio.get_running_loop()
        host, port, trust = key
        deadline = loop.time() + seconds
        try:
            async with asyncio.timeout_at(min(deadline, until)):
                sock = await open_socket(host, port)
                _, connection = await loop.create_connection(
                    lambda: Connection(self, key),
                    sock=sock,
                    ssl=trust,
                    server_hostname=host if trust else None,
                )
        except TimeoutError:
            if loop.time() < min(deadline, until):  # the system's own limit
                raise
            raise (ConnectTimeout if deadline <= until else DeadlineExceeded) from None
        self._open.add(connection)
        return connection

    async def _default_trust(self) -> ssl.SSLContext:
        if self._default is None:
            context = await asyncio.to_thread(ssl.create_default_context)  # parses 150 certificates
            context.set_alpn_protocols(["http/1.1"])
            self._default = self._default or context
        return self._default

    def keep(self, connection: Connection) -> None:
        idle = self._idle.setdefault(connection.key, [])
        if self._is_closed or len(idle) >= MAX_IDLE:
            connection.abort()
            return
        connection.expires = time.monotonic() + KEEP_SECONDS
        idle.append(connection)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(KEEP_SECONDS, self._close_expired)

    def forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        idle = self._idle.get(connection.key)
        if idle and connection in idle:
            idle.remove(connection)

    def _close_expired(self) -> None:
        """Close connections that have been idle for too long."""
        self._sweep, now = None, time.monotonic()
        for key, idle in list(self._idle.items()):
            for connection in [connection for connection in idle if connection.expires <= now]:
                idle.remove(connection)
                connection.abort()
            if not idle:
                del self._idle[key]
        if self._idle:
            self._sweep = asyncio.get_running_loop().call_later(KEEP_SECONDS, self._close_expired)

    def close(self) -> None:
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._open):
            connection.abort()

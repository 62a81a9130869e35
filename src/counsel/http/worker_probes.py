"""`/health`, `/ready` and `/metrics` of `counsel worker`, without a web framework."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from contextlib import suppress

from counsel import strict_json
from counsel.errors import ConfigInvalid
from counsel.http.loading import HEALTH
from counsel.http.probes import Readiness, response
from counsel.requests import LocalEngine
from counsel.settings import Settings

_TIMEOUT = 10.0  # seconds for a request
_LONGEST = 8192  # bytes of a request's head
_JSON = "application/json"


class WorkerProbes:
    def __init__(self, engine: LocalEngine, settings: Settings, is_draining: Callable[[], bool]) -> None:
        self._engine = engine
        self._settings = settings
        self._readiness = Readiness(engine, settings, is_draining)

    async def serve(self, host: str, port: int) -> asyncio.Server:
        try:
            return await asyncio.start_server(self._serve_connection, host, port, limit=_LONGEST)
        except OSError as error:
            raise ConfigInvalid(
                f"counsel cannot listen on {host}:{port}: {error.strerror}.",
                hint="Choose another --probe-port.",
            ) from error

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, IndexError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_TIMEOUT):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                status, kind, body = await self._answer(head.split(" ", 2)[1], head)
                writer.write(
                    f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
                    "cache-control: no-store\r\nconnection: close\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        writer.close()

    async def _answer(self, path: str, head: str) -> tuple[str, str, bytes]:
        if path == "/health":
            return "200 OK", _JSON, strict_json.dumps(HEALTH).encode()
        if path == "/ready":
            ready = response(await self._readiness.reasons())
            status = "200 OK" if ready.status_code == 200 else "503 Service Unavailable"
            return status, _JSON, bytes(ready.body)
        if path == "/metrics" and self._may_read_metrics(head):
            text = await self._engine.metrics_text(people=self._settings.metrics_people)
            return "200 OK", "text/plain; version=0.0.4", text.encode()
        return ("401 Unauthorized" if path == "/metrics" else "404 Not Found"), _JSON, b"{}"

    def _may_read_metrics(self, head: str) -> bool:
        token = self._settings.metrics_token
        headers = [line.partition(":") for line in head.split("\r\n")[1:]]
        authorization = next(
            (value.strip() for name, _, value in headers if name.lower() == "authorization"), ""
        )
        return bool(token) and hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode())

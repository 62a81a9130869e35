"""`/health` and `/ready` of `counsel worker`: two answers, without a web framework."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from counsel import strict_json
from counsel.errors import ConfigInvalid
from counsel.http.loading import HEALTH
from counsel.http.probes import Readiness, response
from counsel.requests import LocalEngine
from counsel.settings import Settings

_PATIENCE = 5.0  # seconds for a request
_LONGEST = 8192  # bytes


async def serve(
    engine: LocalEngine, settings: Settings, host: str, port: int, is_draining: Callable[[], bool]
) -> asyncio.Server:
    readiness = Readiness(engine, settings, is_draining)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _answer(head.split(b" ", 2)[1], readiness))
                await writer.drain()
        writer.close()

    try:
        return await asyncio.start_server(answer, host, port, limit=_LONGEST)
    except OSError as error:
        raise ConfigInvalid(
            f"counsel cannot listen on {host}:{port}: {error.strerror}.", hint="Choose another --health-port."
        ) from error


async def _answer(path: bytes, readiness: Readiness) -> bytes:
    status, body = b"404 Not Found", b"{}"
    if path == b"/health":
        status, body = b"200 OK", strict_json.dumps(HEALTH).encode()
    elif path == b"/ready":
        ready = response(await readiness.reasons())
        status = b"200 OK" if ready.status_code == 200 else b"503 Service Unavailable"
        body = bytes(ready.body)
    return (
        b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        b"cache-control: no-store\r\nconnection: close\r\n\r\n%s" % (status, len(body), body)
    )

"""A server that reads a request, writes a head, and then blocks of bytes until the client disconnects."""

from __future__ import annotations

import asyncio
import json
import ssl
import zlib
from collections.abc import Iterator
from typing import Any, Self

SSE = "text/event-stream"


def event(**delta: Any) -> bytes:
    """A chunk of OpenAI's chat format."""
    return b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n"


def bomb(block: bytes, times: int = 20) -> Iterator[bytes]:
    """The block without end, compressed to a thousandth of its size."""
    stream = zlib.compressobj(1, zlib.DEFLATED, 31)
    while True:
        yield b"".join(stream.compress(block) for _ in range(times)) + stream.flush(zlib.Z_SYNC_FLUSH)


class RawServer:
    """Sends `first`, then `blocks`. `until_closed`: keeps the connection open after the last one."""

    def __init__(
        self,
        blocks: Iterator[bytes] | None = None,
        *,
        first: bytes = b"",
        status: str = "200 OK",
        kind: str = SSE,
        head: str = "",
        until_closed: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.blocks, self.first = blocks or iter(()), first
        self.head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{head}connection: close\r\n\r\n".encode()
        self.until_closed, self.tls = until_closed, tls
        self.requests: list[bytes] = []
        self.sent = 0
        self.closed = asyncio.Event()  # by the client
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.requests.append(await _request(reader))
            writer.write(self.head + self.first)
            await writer.drain()
            for block in self.blocks:
                writer.write(block)
                self.sent += len(block)
                await writer.drain()
                await asyncio.sleep(0)  # draining does not wait while there is room
            if self.until_closed:
                await reader.read()
                self.closed.set()
        except (ConnectionError, asyncio.IncompleteReadError):
            self.closed.set()
        finally:
            writer.close()


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [
        line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
    ]
    return head + (await reader.readexactly(int(lengths[0])) if lengths else b"")

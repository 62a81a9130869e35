"""A small HTTP proxy: CONNECT, and requests with an absolute URL.

Every host is mapped to one server on this machine.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field
from typing import Self


@dataclass
class FakeProxy:
    """`target`: host and port of the server. `credentials`: the required `user:password`."""

    target: tuple[str, int]
    credentials: str = ""
    refuse: int = 0  # answer this status instead
    requests: list[str] = field(
        default_factory=list
    )  # "CONNECT api.example:443", "POST http://api.example/v1/…"
    port: int = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    @property
    def url(self) -> str:
        user = f"{self.credentials}@" if self.credentials else ""
        return f"http://{user}127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = None
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            line, _, rest = head.partition(b"\r\n")
            method, address, _ = line.decode().split(" ")
            self.requests.append(f"{method} {address}")
            if status := self._refusal(rest):
                writer.write(
                    f"HTTP/1.1 {status} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
                )
                await writer.drain()
                return
            from_upstream, upstream = await asyncio.open_connection(*self.target)
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = "/" + address.partition("://")[2].partition("/")[2]
                upstream.write(f"{method} {path} HTTP/1.1\r\nconnection: close\r\n".encode() + rest)
            await asyncio.gather(_pump(reader, upstream), _pump(from_upstream, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            if upstream is not None:
                upstream.close()

    def _refusal(self, headers: bytes) -> int:
        expected = b"basic " + base64.b64encode(self.credentials.encode())
        values = [line for line in headers.split(b"\r\n") if line.lower().startswith(b"proxy-authorization:")]
        if self.credentials and not any(line[20:].strip()[6:] == expected[6:] for line in values):
            return 407
        return self.refuse


async def _pump(source: asyncio.StreamReader, into: asyncio.StreamWriter) -> None:
    while data := await source.read(1 << 16):
        into.write(data)
        await into.drain()
    if into.can_write_eof():
        into.write_eof()
    else:
        into.close()

"""A way to write pieces of an answer beside ASGI, whose layers cost a live stream as much as the write itself."""

from __future__ import annotations

from typing import Protocol

CONNECTION = "connection"  # in the state of a request's scope: its `Chunks`


class Chunks(Protocol):
    """The connection of a request. What wraps `send` to end an answer must wrap or remove this, too."""

    def takes_chunk(self) -> bool:
        """Whether a chunk of the present answer can be written now: the client is there, and has read what was sent."""

    def write_chunk(self, data: bytes) -> None: ...


def chunk(data: bytes) -> bytes:
    """HTTP/1.1's framing."""
    return b"%x\r\n%b\r\n" % (len(data), data)

"""What an application may do beside ASGI, whose layers cost a live stream as much as the write itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

CONNECTION = "connection"  # in the state of a request's scope: its `Chunks`
WATCHED = "watched"  # there, too


class Chunks(Protocol):
    """The connection of a request. What wraps `send` to end an answer must wrap or remove this, too."""

    def takes_chunk(self) -> bool:
        """Whether a chunk of the present answer can be written now: the client is there, and has read what was sent."""

    def write_chunk(self, data: bytes) -> None: ...


class Watched(Protocol):
    """The connection of a request, for code that must know when its client disconnects. (ASGI's `receive` reports it to a task
    that waits for it.) What wraps `receive` to end a request must remove this."""

    def watch(self, lost: Callable[[], None]) -> bool:
        """Call `lost` when the client disconnects. False if it has."""

    def unwatch(self, lost: Callable[[], None]) -> None: ...


def chunk(data: bytes) -> bytes:
    """HTTP/1.1's framing."""
    return b"%x\r\n%b\r\n" % (len(data), data)

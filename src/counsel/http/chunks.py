"""Ways around ASGI for an application: its layers cost a live stream as much as the write itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

CONNECTION = "connection"  # in the state of a request's scope: its `Chunks`
WATCHABLE = "watchable"  # in the same place: its `Watchable`


class Chunks(Protocol):
    """The connection of a request. Code that wraps `send` to end an answer must wrap or remove this, too."""

    def takes_chunk(self) -> bool:
        """Whether a chunk of the current answer can be written now: the client is connected and has read what was
        sent."""

    def write_chunk(self, data: bytes) -> None: ...


class Watchable(Protocol):
    """The connection of a request, for code that must know when its client disconnects; with ASGI's `receive`, a task
    would have to wait. Code that wraps `receive` to end a request must remove this from the request's state."""

    def watch(self, on_disconnect: Callable[[], None]) -> bool:
        """Call `on_disconnect` when the client disconnects. False if it already has."""

    def unwatch(self, on_disconnect: Callable[[], None]) -> None: ...


def chunk(data: bytes) -> bytes:
    """Frame data as a chunk of HTTP/1.1."""
    return b"%x\r\n%b\r\n" % (len(data), data)

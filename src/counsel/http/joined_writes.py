"""A transport that sends what is written within one turn of the event loop together.

uvicorn writes the head, the body and the end of a response separately, and each would be a system call and a packet, of
which the first wakes the client for a head without a body.
"""

from __future__ import annotations

import asyncio
from typing import Any

MOST_WAITING = 64 * 1024  # bytes that wait for the end of the turn


class JoinedWrites:
    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._waiting: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not data:
            return
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(data)
        self._size += len(data)
        if (
            self._size > MOST_WAITING
        ):  # the transport reports a client that reads slowly only once it has the data
            self.flush()

    def write_at_once(self, data: bytes) -> None:
        """Without a turn of the loop, behind what was written before."""
        self.flush()
        self._transport.write(data)

    def flush(self) -> None:
        if self._waiting:
            waiting, self._waiting, self._size = self._waiting, [], 0
            self._transport.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self._waiting, self._size = [], 0
        self._transport.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

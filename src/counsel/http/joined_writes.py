"""A transport that sends what is written within one turn of the event loop together.

uvicorn writes the head, the body and the end of a response separately. Each would be a system call and a packet, and
the first packet would wake the client for a head without a body.
"""

from __future__ import annotations

import asyncio
from typing import Any

MOST_PENDING = 64 * 1024  # bytes that wait for the end of the turn


class JoinedWrites:
    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._pending: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not data:
            return
        if not self._pending:
            asyncio.get_running_loop().call_soon(self.flush)
        self._pending.append(data)
        self._size += len(data)
        # The transport detects a client that reads slowly only once it has the data.
        if self._size > MOST_PENDING:
            self.flush()

    def write_at_once(self, data: bytes) -> None:
        """Write without waiting for the end of the turn, after everything that was written before."""
        self.flush()
        self._transport.write(data)

    def flush(self) -> None:
        if self._pending:
            pieces, self._pending, self._size = self._pending, [], 0
            self._transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self._pending, self._size = [], 0
        self._transport.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

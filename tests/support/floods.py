"""Messages and bounds of the flood tests."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

HELLO = b'@{"hello":{"role":"mcp","cwd":"/","env":{}}}\n'

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": "init",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}

GROWTH = 60  # MiB by which a process may grow


async def hang_up(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
    for writer in writers:
        with suppress(ConnectionError):
            await writer.wait_closed()

"""The MCP SDK's own transports, connected to the front or to the HTTP server of this process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from support.http_server import TOKEN, served
from support.stdio_client import FRONT, SHORT_LIVED, daemon_ends, daemon_pid

INTERFACES = ["front", "http"]


@asynccontextmanager
async def transport(interface: str, home: Path) -> AsyncIterator[Any]:
    if interface == "front":
        command = StdioServerParameters(
            command=sys.executable,
            args=[str(FRONT)],
            env={"COUNSEL_HOME": str(home), **SHORT_LIVED},
            cwd=home,
        )
        try:
            yield stdio_client(command)
        finally:
            if (pid := daemon_pid(home)) is not None:
                os.kill(pid, signal.SIGKILL)
                await daemon_ends(home)
    else:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with served(home) as http, create_mcp_http_client(headers=headers) as client:
            yield streamable_http_client(f"{http.base}/mcp", http_client=client)

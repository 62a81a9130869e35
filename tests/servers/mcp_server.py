"""A real MCP server with one tool, for the clients and for `counsel servers check`.

python mcp_server.py stdio
python mcp_server.py http      prints its port, then serves /mcp (streamable HTTP) and /sse on loopback
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator

from mcp.server import MCPServer

server = MCPServer("tiny", version="1.0")


@server.tool()
def whereami() -> str:
    """Where the server runs."""
    return os.getcwd()  # noqa: PTH109 - what a server would call


def serve_http() -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount

    streamable, events = server.streamable_http_app(), server.sse_app()

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with streamable.router.lifespan_context(streamable):
            yield

    app = Starlette(routes=[Mount("/events", events), Mount("/", streamable)], lifespan=lifespan)
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    server.run("stdio") if sys.argv[1] == "stdio" else serve_http()

"""A real MCP server with tools that behave well and badly.

python tool_server.py PIDFILE          on stdio
python tool_server.py PIDFILE deaf     ends before the handshake
python tool_server.py http             prints its port, then serves /mcp on loopback
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

if "deaf" in sys.argv:  # before the SDK, whose import takes half a second
    Path(sys.argv[1]).write_text(str(os.getpid()), encoding="utf-8")
    sys.stderr.write("I hear nothing\n")
    sys.exit(4)

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("notes", version="1.0")
READS = ToolAnnotations(read_only_hint=True)
WRITES = ToolAnnotations(read_only_hint=False)
NOTES = {"tide": "High water is at 06:40.", "moon": "The moon is new."}


@server.tool(annotations=READS)
def look_up(note: str) -> str:
    """Read one note."""
    return NOTES[note]


@server.tool(annotations=READS)
def everything() -> str:
    """Read far too much."""
    return "x" * 100_000


@server.tool(annotations=READS)
def doze(file: str) -> str:
    """Record in a file that it has begun, and never return."""
    Path(file).write_text("dozing", encoding="utf-8")
    time.sleep(600)
    return "awake"


@server.tool(annotations=READS)
def die() -> str:
    """End the server in the middle of a call."""
    os._exit(3)


@server.tool(annotations=WRITES)
def erase(note: str) -> str:
    """Remove one note."""
    del NOTES[note]
    return "erased"


@server.tool()
def unmarked() -> str:
    """Says nothing about what it does."""
    return "done"


def serve_http() -> None:
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    app = server.streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    if sys.argv[1] == "http":
        serve_http()
        sys.exit()
    Path(sys.argv[1]).write_text(str(os.getpid()), encoding="utf-8")
    server.run("stdio")

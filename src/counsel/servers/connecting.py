"""Connect to an MCP server as its agent would: start it or call it."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any

from counsel import __version__
from counsel.agents.definitions import AGENTS
from counsel.agents.server_format import Server
from counsel.servers import secrets
from counsel.servers.starting import Start
from counsel.untrusted import absolute_paths

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool

# The library would print a traceback for each stray line of a server; the check's result reports such lines.
logging.getLogger("mcp.client").setLevel(logging.CRITICAL)

MOST_PAGES, MOST_TOOLS = 100, 2_000  # of one server's list
TAIL = 10  # lines of a failed server's stderr
LONGEST = 500  # characters of one line


def load() -> None:
    """Import the library: half a second, more on a busy machine, that must not count against a server's time limit."""
    importlib.import_module("mcp")
    for name in ("stdio", "sse", "streamable_http"):
        importlib.import_module(f"mcp.client.{name}")


class LastResponse:
    """The HTTP status of the last response, which the library does not expose."""

    status = 0

    async def note(self, response: Any) -> None:
        self.status = response.status_code

    async def note_post(self, response: Any) -> None:
        """Ignore GET: many servers refuse the one with which a client offers to listen; that is not a failure."""
        if response.request.method == "POST":
            self.status = response.status_code


@asynccontextmanager
async def connected(
    start: Start, errors: IO[str], response: LastResponse | None = None
) -> AsyncIterator[Client]:
    """A connected client, after the handshake. The server's stderr goes to `errors`."""
    from mcp import Client  # half a second of import
    from mcp.types import Implementation

    async with (
        _transport(start, errors, response or LastResponse()) as transport,
        Client(transport, client_info=Implementation(name="counsel", version=__version__)) as client,
    ):
        yield client


async def every_tool(client: Client) -> list[Tool]:
    """The tools of all pages, up to a limit: a server's list may be endless."""
    tools: list[Tool] = []
    cursor = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or len(tools) >= MOST_TOOLS:
            break
    return tools[:MOST_TOOLS]


@asynccontextmanager
async def _transport(start: Start, errors: IO[str], response: LastResponse) -> AsyncIterator[Any]:
    server = start.server
    if server.transport == "stdio":
        yield _stdio_client(start, errors)
        return
    headers = dict(server.headers)
    from counsel.servers.message_limits import http_client

    if server.transport == "sse":
        from mcp.client.sse import sse_client

        def client(*_: object, **options: object) -> Any:
            return _with_hook(http_client(start.env, server.url, **options), response.note)

        yield sse_client(server.url, headers=headers, httpx_client_factory=client)
        return
    from mcp.client.streamable_http import streamable_http_client

    async with _with_hook(http_client(start.env, server.url, headers=headers), response.note_post) as http:
        yield streamable_http_client(server.url, http_client=http)


def _with_hook(http: Any, note: Callable[[object], object]) -> Any:
    http.event_hooks = {**http.event_hooks, "response": [*http.event_hooks["response"], note]}
    return http


def _stdio_client(start: Start, errors: IO[str]) -> object:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    from counsel.servers.message_limits import bound_stdio

    bound_stdio()
    server = start.server
    inherited_env = {} if AGENTS[start.agent].passed_env == "named" else dict(start.env)
    env = {"PATH": start.env.get("PATH", os.defpath), **inherited_env, **server.env}
    parameters = StdioServerParameters(
        command=server.command,
        args=list(server.args),
        env=env if start.trusted else {"PATH": os.defpath, **absolute_paths(env)},
        cwd=start.folder,
    )
    return stdio_client(parameters, errlog=errors)  # type: ignore[arg-type]


def reason(error: BaseException, server: Server, status: int = 0) -> str:
    """Why there is no connection, in one line without secrets. `status`: of the last HTTP response."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    message = secrets.redacted(_error_text(error), server)  # before cutting: half a secret is not recognised
    text = " ".join(message.split())
    if status >= HTTPStatus.BAD_REQUEST:
        text = _http_reason(status, text)
    return text if len(text) < LONGEST else f"{text[: LONGEST - 1]}…"


def _http_reason(status: int, text: str) -> str:
    phrase = next((http_status.phrase for http_status in HTTPStatus if http_status == status), "")
    needs = " (it needs a token or a login)" if status in (401, 403) else ""
    detail = "" if text in _BARE_STATUS or " for url " in text else f": {text}"
    return f"it answered HTTP {status} {phrase}".rstrip() + needs + detail


# The library's messages that add nothing to the status.
_BARE_STATUS = ("Server returned an error response", "Not Found", "Session terminated")


def _error_text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    text = str(error).strip() or type(error).__name__
    if "validation error" in text:  # pydantic's message contains a URL and the whole input
        return "its answer is not MCP"
    return {"Connection closed": "it exited or closed the connection before it answered"}.get(text, text)


def tail(errors: IO[str], server: Server) -> list[str]:
    """The last lines of a server's stderr, without its secrets."""
    errors.seek(0, os.SEEK_END)
    errors.seek(max(0, errors.tell() - 20_000))
    lines = [line.rstrip() for line in errors.read().splitlines() if line.strip()]
    redacted_lines = [secrets.redacted(line, server) for line in lines[-TAIL:]]
    return [line if len(line) < LONGEST else f"…{line[1 - LONGEST :]}" for line in redacted_lines]

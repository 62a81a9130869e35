"""Really connecting to servers, as their agents would: start or call them, shake hands, ask for the tools."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import IO, Any

from counsel import __version__
from counsel.agents.base import Place
from counsel.agents.references import REFERENCE
from counsel.agents.serverform import Server, translated
from counsel.servers import secrets
from counsel.servers.listing import Found

TAIL = 10  # lines of a failed server's stderr
AT_ONCE = 8
# These two hand a server only the variables that its entry names (and the few every program needs).
_FILTERING = frozenset({"codex", "cursor"})


@dataclass(slots=True)
class Checked:
    found: Found
    status: str  # ok, failed, timeout, disabled
    latency_ms: int | None = None
    protocol_version: str | None = None
    server_info: dict[str, str] | None = None
    tools: list[str] = field(default_factory=list)
    error: str | None = None
    stderr: list[str] = field(default_factory=list)
    unset: list[str] = field(default_factory=list)  # variables that the entry refers to and nobody has set

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.found.server.name,
            "agent": self.found.agent,
            "scope": self.found.scope,
            "path": str(self.found.home.target.path),
            "transport": self.found.server.transport,
            "status": self.status,
            "latency_ms": self.latency_ms,
            "protocol_version": self.protocol_version,
            "server_info": self.server_info,
            "tools": self.tools,
            "error": self.error,
            "stderr": self.stderr,
            "unset": self.unset,
        }


async def check(
    rows: Sequence[Found],
    place: Place,
    timeout: float = 30.0,  # noqa: ASYNC109 - it is a result here, not an exception
    progress: Callable[[Checked], None] | None = None,
) -> list[Checked]:
    """Check several at once; servers that are the same in several agents are connected to once."""
    groups: dict[str, list[Found]] = {}
    for row in rows:
        groups.setdefault(_sameness(row), []).append(row)
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(group: list[Found]) -> list[Checked]:
        async with gate:
            first = await check_one(group[0], place, timeout)
        results = [replace(first, found=row) for row in group]
        for result in results:
            if progress is not None:
                progress(result)
        return results

    checked = await asyncio.gather(*(one(group) for group in groups.values()))
    by_row = {id(result.found): result for group in checked for result in group}
    return [by_row[id(row)] for row in rows]


def _sameness(row: Found) -> str:
    means = {name: repr(value) for name, value in row.server.means().items()}
    return repr((row.server.name, sorted(means.items()), row.agent in _FILTERING, row.server.enabled))


async def check_one(found: Found, place: Place, timeout: float) -> Checked:  # noqa: ASYNC109
    if not found.server.enabled:
        return Checked(found, "disabled")
    server, unset = expanded(found.server, place.env)
    result = Checked(found, "failed", unset=unset)
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        try:
            async with asyncio.timeout(timeout):
                await _ask(server, found, place, errors, result)
            result.status = "ok"
        except TimeoutError:
            result.status, result.error = "timeout", f"no answer within {timeout:g} s"
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _cancelled():
                raise
            result.error = secrets.redacted(_reason(error), server)
        result.latency_ms = round((time.perf_counter() - started) * 1000)
        if result.status != "ok":
            result.stderr = _tail(errors, server)
    return result


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _ask(server: Server, found: Found, place: Place, errors: IO[str], result: Checked) -> None:
    from mcp import Client  # noqa: PLC0415 - half a second of import
    from mcp.types import Implementation  # noqa: PLC0415

    async with (
        _transport(server, found, place, errors) as transport,
        Client(transport, client_info=Implementation(name="counsel", version=__version__)) as client,
    ):
        result.protocol_version = client.protocol_version
        if client.server_info is not None:
            result.server_info = {"name": client.server_info.name, "version": client.server_info.version}
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            result.tools += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if not cursor:
                return


@asynccontextmanager
async def _transport(server: Server, found: Found, place: Place, errors: IO[str]) -> AsyncIterator[Any]:
    if server.transport == "stdio":
        yield _started(server, found, place, errors)
        return
    headers = dict(server.headers)
    if server.token_env:
        headers["Authorization"] = f"Bearer {place.env.get(server.token_env, '')}"
    if server.transport == "sse":
        from mcp.client.sse import sse_client  # noqa: PLC0415

        yield sse_client(server.url, headers=headers)
        return
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415
    from mcp.shared._httpx_utils import create_mcp_http_client  # noqa: PLC0415

    async with create_mcp_http_client(headers=headers) as http:
        yield streamable_http_client(server.url, http_client=http)


def _started(server: Server, found: Found, place: Place, errors: IO[str]) -> Any:
    from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415

    inherited = {} if found.agent in _FILTERING else dict(place.env)
    folder = place.project if server.cwd is None else place.project / os.path.expanduser(server.cwd)  # noqa: PTH111
    parameters = StdioServerParameters(
        command=server.command,
        args=list(server.args),
        env={"PATH": place.env.get("PATH", os.defpath), **inherited, **server.env},
        cwd=folder,
    )
    return stdio_client(parameters, errlog=errors)  # type: ignore[arg-type]


def expanded(server: Server, env: Mapping[str, str]) -> tuple[Server, list[str]]:
    """The server with its references filled in, and the variables that have no value: these stay as they are."""
    unset: dict[str, None] = {}

    def fill(text: str) -> str:
        def value(hit: Any) -> str:
            known = env.get(hit[1]) or hit[2]
            if known is None:
                unset[hit[1]] = None
                return str(hit[0])
            return str(known)

        return REFERENCE.sub(value, text)

    filled = translated(server, fill)
    if server.token_env and not env.get(server.token_env):
        unset[server.token_env] = None
    return filled, list(unset)


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    words = str(error).strip() or type(error).__name__
    return words if len(words) < 500 else f"{words[:497]}…"


def _tail(errors: IO[str], server: Server) -> list[str]:
    errors.seek(0, os.SEEK_END)
    errors.seek(max(0, errors.tell() - 20_000))
    lines = [line.rstrip() for line in errors.read().splitlines() if line.strip()]
    return [secrets.redacted(line, server) for line in lines[-TAIL:]]

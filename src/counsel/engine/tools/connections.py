"""Connections to MCP servers for one consultation: their tools, calls with a time limit, and a reliable shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from counsel.agents.definitions import Workspace
from counsel.engine.tools.choose import SharedServer
from counsel.errors import UpstreamError
from counsel.lazy_dataclass import dataclass
from counsel.servers import starting
from counsel.servers.connecting import connected, every_tool, reason, tail

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool

log = logging.getLogger("counsel.tools")

OPEN_SECONDS = 30.0  # to start the server, shake hands and list its tools
CALL_SECONDS = 60.0  # for one call, unless the server's own entry says otherwise
LONGEST_CALL = 600.0
MOST_TEXT = 40_000  # characters of one result


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's result for the model."""

    text: str
    ok: bool
    ms: int


class ServerConnection:
    """One server. A task of its own opens and closes the connection, since anyio requires the same task for both."""

    def __init__(self, shared: SharedServer, workspace: Workspace) -> None:
        self.shared = shared
        self._start = starting.start(shared.row, workspace)
        self.server, self.unset = self._start.server, self._start.unset
        self.tools: list[Tool] = []
        self._client: Client | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"mcp-{self.name}")

    @property
    def name(self) -> str:
        return self.shared.name

    async def wait_until_ready(self) -> None:
        await self._ready

    async def call(self, tool: str, arguments: dict[str, object]) -> ToolOutput:
        """Call a tool. A failure is returned as text for the model; only cancellation raises."""
        began = time.monotonic()
        limit = min(self.server.timeout or CALL_SECONDS, LONGEST_CALL)
        try:
            async with asyncio.timeout(limit):
                text, ok = await self._ask(tool, arguments)
        except TimeoutError:
            text, ok = f"{self.name} did not answer within {limit:g} s.", False
        except Exception as error:  # noqa: BLE001 - other people's servers can fail in any way
            text, ok = f"{self.name} failed: {self._reason(error)}", False
        return ToolOutput(bounded(text), ok, round((time.monotonic() - began) * 1000))

    async def close(self) -> None:
        self._stop.set()
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait({self._task})

    async def _ask(self, tool: str, arguments: dict[str, object]) -> tuple[str, bool]:
        if self._client is None:
            raise ConnectionError("it is not connected")
        result = await self._client.call_tool(tool, arguments)
        return as_text(result), not result.is_error

    async def _run(self) -> None:
        await asyncio.to_thread(importlib.import_module, "mcp")  # the import takes half a second
        with tempfile.TemporaryFile("w+", errors="replace") as errors:
            try:
                async with contextlib.AsyncExitStack() as stack:
                    async with asyncio.timeout(OPEN_SECONDS):
                        self._client = await stack.enter_async_context(connected(self._start, errors))
                        self.tools = await every_tool(self._client)
                    self._ready.set_result(None)
                    await self._stop.wait()
            except BaseException as error:
                self._report_failure(error, errors)
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
            finally:
                self._client = None

    def _report_failure(self, error: BaseException, errors: Any) -> None:
        if self._ready.done():
            log.debug("the connection to %s did not end cleanly: %s", self.name, type(error).__name__)
            return
        timeout_text = f"it did not answer within {OPEN_SECONDS:g} s"
        why = timeout_text if isinstance(error, TimeoutError) else self._reason(error)
        last = tail(errors, self.server)
        failure = UpstreamError(
            f"Could not connect to the MCP server {self.name} ({self.shared.row.agent}): {why}.",
            hint=f"`counsel servers check {self.name}` shows more. If you leave it out of `tools`, the model answers without it.",
            server=self.name,
            stderr=last or None,
        )
        self._ready.set_exception(failure)
        self._ready.exception()  # marks it as retrieved: a cancelled consultation never awaits it

    def _reason(self, error: BaseException) -> str:
        return reason(error, self.server).rstrip(".")


@contextlib.asynccontextmanager
async def open_connections(
    servers: Sequence[SharedServer], workspace: Workspace
) -> AsyncIterator[list[ServerConnection]]:
    """Connect to all servers. Raises `UpstreamError` for the first that fails. Leaves no process behind."""
    connections = [ServerConnection(shared, workspace) for shared in servers]
    try:
        await asyncio.gather(*(connection.wait_until_ready() for connection in connections))
        yield connections
    finally:
        await _wait_despite_cancel(asyncio.gather(*(connection.close() for connection in connections)))


async def _wait_despite_cancel(work: asyncio.Future[Any]) -> None:
    """Wait despite further cancellations, since a server could otherwise outlive us. The SDK limits the wait."""
    cancellation: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation:
        raise cancellation


# ── text for the model ───────────────────────────────────────────────────────────────────────────────


def bounded(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}\n[cut: {MOST_TEXT:,} of {len(text):,} characters]"


def as_text(result: Any) -> str:
    """The result's blocks as text; images and audio are named, not passed on."""
    parts = [_block(block) for block in result.content]
    if not any(parts) and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(parts)


def _block(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    if block.type == "resource":
        resource = block.resource
        return str(resource.text) if hasattr(resource, "text") else f"[{resource.uri}: binary, not passed on]"
    if block.type == "resource_link":
        return f"{block.name}: {block.uri}"
    return f"[{block.type} {getattr(block, 'mime_type', '')}: not passed on]"

"""Open connections to MCP servers for the length of one consultation: their tools, calls with a limit, a sure end."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from counsel.agents.definitions import Workspace
from counsel.engine.tools.choose import Shared
from counsel.errors import UpstreamError
from counsel.lazy_dataclass import dataclass
from counsel.servers import starting
from counsel.servers.connecting import connected, every_tool, reason, tail
from counsel.types import Json

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool

log = logging.getLogger("counsel.toolshare")

OPEN_SECONDS = 30.0  # to start, shake hands and list the tools
CALL_SECONDS = 60.0  # for one call, unless the server's own entry says otherwise
LONGEST_CALL = 600.0
MOST_TEXT = 40_000  # characters of one result


@dataclass(frozen=True, slots=True)
class Said:
    """What a tool answered, as a model reads it."""

    text: str
    ok: bool
    ms: int


class Link:
    """One server. A task of its own holds the connection: anyio wants to be left by the task that entered."""

    def __init__(self, shared: Shared, workspace: Workspace) -> None:
        self.shared = shared
        self._start = starting.start(shared.found, workspace)
        self.server, self.unset = self._start.server, self._start.unset
        self.tools: list[Tool] = []
        self._client: Client | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._holder = asyncio.create_task(self._hold(), name=f"mcp-{self.name}")

    @property
    def name(self) -> str:
        return self.shared.name

    async def opened(self) -> None:
        await self._ready

    async def call(self, tool: str, arguments: Json) -> Said:
        """Never raises but for a cancel: a failure is something that the model can read."""
        began = time.monotonic()
        limit = min(self.server.timeout or CALL_SECONDS, LONGEST_CALL)
        try:
            async with asyncio.timeout(limit):
                text, ok = await self._ask(tool, arguments)
        except TimeoutError:
            text, ok = f"{self.name} did not answer within {limit:g} s.", False
        except Exception as error:  # noqa: BLE001 - other people's servers fail in any way
            text, ok = f"{self.name} failed: {self._reason(error)}", False
        return Said(bounded(text), ok, round((time.monotonic() - began) * 1000))

    async def close(self) -> None:
        self._stop.set()
        if not self._ready.done():
            self._holder.cancel()
        await asyncio.wait({self._holder})

    async def _ask(self, tool: str, arguments: dict[str, object]) -> tuple[str, bool]:
        if self._client is None:
            raise ConnectionError("it is not connected")
        result = await self._client.call_tool(tool, arguments)
        return as_text(result), not result.is_error

    async def _hold(self) -> None:
        await asyncio.to_thread(importlib.import_module, "mcp")  # half a second of import
        with tempfile.TemporaryFile("w+", errors="replace") as errors:
            try:
                async with contextlib.AsyncExitStack() as stack:
                    async with asyncio.timeout(OPEN_SECONDS):
                        self._client = await stack.enter_async_context(connected(self._start, errors))
                        self.tools = await every_tool(self._client)
                    self._ready.set_result(None)
                    await self._stop.wait()
            except BaseException as error:
                self._failed(error, errors)
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
            finally:
                self._client = None

    def _failed(self, error: BaseException, errors: Any) -> None:
        if self._ready.done():
            log.debug("the connection to %s did not end in order: %s", self.name, type(error).__name__)
            return
        late = f"it did not answer within {OPEN_SECONDS:g} s"
        why = late if isinstance(error, TimeoutError) else self._reason(error)
        last = tail(errors, self.server)
        failure = UpstreamError(
            f"Could not connect to the MCP server {self.name} ({self.shared.found.agent}): {why}.",
            hint=f"`counsel servers check {self.name}` shows more. Without it in `tools`, the model answers without its tools.",
            server=self.name,
            stderr=last or None,
        )
        self._ready.set_exception(failure)
        self._ready.exception()  # seen: a consultation that was cancelled meanwhile does not ask for it

    def _reason(self, error: BaseException) -> str:
        return reason(error, self.server).rstrip(".")


@contextlib.asynccontextmanager
async def links(servers: Sequence[Shared], workspace: Workspace) -> AsyncIterator[list[Link]]:
    """All of them, connected; or `UpstreamError` about the first that cannot be. No process is left behind."""
    opened = [Link(shared, workspace) for shared in servers]
    try:
        await asyncio.gather(*(link.opened() for link in opened))
        yield opened
    finally:
        await _to_its_end(asyncio.gather(*(link.close() for link in opened)))


async def _to_its_end(work: asyncio.Future[Any]) -> None:
    """Wait through further cancels: a server whose end nobody awaits would outlive us. The SDK bounds the wait."""
    interrupted: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError as error:
            interrupted = error
    if interrupted:
        raise interrupted


# ── what a model reads ───────────────────────────────────────────────────────────────────────────────


def bounded(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}\n[cut: {MOST_TEXT:,} of {len(text):,} characters]"


def as_text(result: Any) -> str:
    """The result's blocks as text; pictures and sounds are named, not passed on."""
    parts = [_block(block) for block in result.content]
    if not any(parts) and result.structured_content is not None:
        import json

        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(parts)


def _block(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    if block.type == "resource":
        held = block.resource
        return str(held.text) if hasattr(held, "text") else f"[{held.uri}: binary, not passed on]"
    if block.type == "resource_link":
        return f"{block.name}: {block.uri}"
    return f"[{block.type} {getattr(block, 'mime_type', '')}: not passed on]"

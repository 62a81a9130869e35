"""Connect to servers as their agents would: start or call them, do the handshake, list the tools."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import field, replace
from http import HTTPStatus
from typing import IO, Any

from counsel.agents import trust
from counsel.agents.definitions import AGENTS, Workspace
from counsel.errors import InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.servers import secrets, starting
from counsel.servers.connecting import LastResponse, connected, every_tool, load, reason, tail
from counsel.servers.formats import FORMATS
from counsel.servers.listing import ListedServer
from counsel.servers.service import Servers

AT_ONCE = 8
_LONGEST = 2_000  # characters of a tool's description


@dataclass(slots=True)
class CheckResult:
    row: ListedServer
    status: str  # ok, failed, timeout, disabled, skipped
    transport: str = ""  # the one used, if not the declared one
    latency_ms: int | None = None
    protocol_version: str | None = None
    server_info: dict[str, str] | None = None
    tools: list[str] = field(default_factory=list)
    tool_descriptions: dict[str, str] = field(default_factory=dict)
    error: str | None = None
    stderr: list[str] = field(default_factory=list)
    unset: list[str] = field(default_factory=list)  # variables that the entry refers to and that are not set
    response: LastResponse = field(default_factory=LastResponse)
    declared: CheckResult | None = None  # the result of the declared transport, if another one answered

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.row.server.name,
            "agent": self.row.agent,
            "scope": self.row.scope,
            "path": str(self.row.table.target.path),
            "transport": self.transport or self.row.server.transport,
            "status": self.status,
            "latency_ms": self.latency_ms,
            "protocol_version": self.protocol_version,
            "server_info": self.server_info,
            "tools": self.tools,
            "tool_descriptions": self.tool_descriptions,
            "error": self.error,
            "stderr": self.stderr,
            "unset": self.unset,
        }


def chosen(
    here: Servers, name: str | None, agents: Collection[str], scope: str | None, *, trust_folder: bool = False
) -> tuple[list[ListedServer], list[CheckResult]]:
    """The servers to connect to, and those that are skipped.

    A repository can define servers of its own, which run its programs and may get the user's variables. The agents ask
    before they start those. So they are connected to only when requested by name or by scope, and only in a folder that
    the user trusts. Raises `InvalidArgument` about requested ones in another folder.
    """
    rows = list(here.find(name, agents, scope)) if name else _used(here, agents, scope)
    from_project = [row for row in rows if starting.brought(row, here.workspace)]
    own = [row for row in rows if not starting.brought(row, here.workspace)]
    if not from_project or (not scope and (own or not name)):
        return own, [_skipped(row) for row in from_project]
    refused = [row for row in from_project if not (trust_folder or starting.may_start(row, here.workspace))]
    if refused:
        raise starting.not_trusted(refused, here.workspace)
    return rows, []


def _used(here: Servers, agents: Collection[str], scope: str | None) -> list[ListedServer]:
    """In an untrusted folder no agent uses the project's servers, so they do not shadow the user's."""
    rows = here.listing(agents, scope).servers
    ignored = {"project"} if not trust.trusted(here.workspace) else set()
    return [row for row in rows if row.shadowed_by is None or row.shadowed_by in ignored]


def _skipped(row: ListedServer) -> CheckResult:
    return CheckResult(row, "skipped", error=f"it comes from the project; {_HOW.format(row.server.name)}")


_HOW = "`counsel servers check {} --scope project` starts it"


async def check(
    rows: Sequence[ListedServer],
    workspace: Workspace,
    timeout: float = 30.0,  # noqa: ASYNC109 - a timeout is a result here, not an exception
    progress: Callable[[CheckResult], None] | None = None,
    *,
    trust_folder: bool = False,
) -> list[CheckResult]:
    """Check several servers at once; identical servers of several agents are connected to once."""
    groups: dict[str, list[ListedServer]] = {}
    for row in rows:
        groups.setdefault(_identity(row), []).append(row)
    limiter = asyncio.Semaphore(AT_ONCE)

    async def check_group(group: list[ListedServer]) -> list[CheckResult]:
        first = next(filter(_tries_sse, group), group[0])
        async with limiter:
            checked = await check_one(first, workspace, timeout, trust_folder=trust_folder)
        results = [replace(_result_for(row, checked), row=row) for row in group]
        for result in results:
            if progress is not None:
                progress(result)
        return results

    async with asyncio.TaskGroup() as tasks:  # unlike `gather`, it waits for all tasks when it is cancelled
        checked = [tasks.create_task(check_group(group)) for group in groups.values()]
    by_row = {id(result.row): result for group in checked for result in group.result()}
    return [by_row[id(row)] for row in rows]


def _identity(row: ListedServer) -> str:
    means = {name: repr(value) for name, value in row.server.means().items()}
    filtered = row.server.transport == "stdio" and AGENTS[row.agent].hands_on == "named"
    return repr((row.server.name, sorted(means.items()), filtered, row.server.enabled, row.unloaded))


def _tries_sse(row: ListedServer) -> bool:
    return row.server.transport == "http" and FORMATS[row.agent].tries_sse(row.entry)


def _result_for(row: ListedServer, checked: CheckResult) -> CheckResult:
    """An answer over SSE is a failure for an agent that does not try SSE."""
    return checked if checked.declared is None or _tries_sse(row) else checked.declared


async def check_one(
    row: ListedServer,
    workspace: Workspace,
    timeout: float,  # noqa: ASYNC109 - a timeout is a result here, not an exception
    *,
    trust_folder: bool = False,
) -> CheckResult:
    if not row.server.enabled:
        return CheckResult(row, "disabled")
    if row.unloaded:
        return CheckResult(row, "failed", error=f"{row.unloaded}.")
    try:
        start = starting.start(row, workspace, trust_folder=trust_folder)
    except InvalidArgument as refusal:
        return CheckResult(row, "failed", error=f"{refusal} {refusal.hint}")
    load()
    began = time.perf_counter()
    result = await _attempt(row, start, timeout)
    if result.status == "failed" and _may_use_sse(row, result):
        left = timeout - (time.perf_counter() - began)
        over_sse = start.replaced(server=start.server.replaced(transport="sse"))
        fallback = await _attempt(row, over_sse, max(left, 0.1))
        return replace(fallback, declared=result) if fallback.status == "ok" else result
    return result


def _may_use_sse(row: ListedServer, result: CheckResult) -> bool:
    """MCP's rule for older servers, only if the agent itself follows it."""
    refused = result.response.status in (
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.METHOD_NOT_ALLOWED,
    )
    return refused and _tries_sse(row)


async def _attempt(
    row: ListedServer,
    start: starting.Start,
    timeout: float,  # noqa: ASYNC109 - a timeout is a result here, not an exception
) -> CheckResult:
    server = start.server
    result = CheckResult(row, "failed", transport=server.transport, unset=start.unset)
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        task = asyncio.create_task(_ask(start, errors, result))
        try:
            await asyncio.wait({task}, timeout=timeout)
        finally:
            in_time = task.done()
            await _ended(task)
        if result.status == "ok":  # how long it takes to end does not matter
            return result
        result.latency_ms = _since(started)
        if not in_time:
            result.status, result.error = "timeout", f"no answer within {timeout:g} s"
        else:
            error = _failure(task) or ConnectionError("it did not answer")
            result.error = reason(error, server, result.response.status)
        result.stderr = tail(errors, server)
    return result


def _since(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel once and wait, even if this task is cancelled meanwhile: a second cancellation would reach the library while it
    ends the server, which would then be neither ended nor waited for."""
    task.cancel()
    interrupted: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted


def _failure(task: asyncio.Task[None]) -> BaseException | None:
    return asyncio.CancelledError("it was cancelled") if task.cancelled() else task.exception()


async def _ask(start: starting.Start, errors: IO[str], result: CheckResult) -> None:
    started = time.perf_counter()
    async with connected(start, errors, result.response) as client:
        result.protocol_version = client.protocol_version
        if client.server_info is not None:
            result.server_info = {"name": client.server_info.name, "version": client.server_info.version}
        tools = await every_tool(client)
        result.tools = [tool.name for tool in tools]
        result.tool_descriptions = {
            tool.name: secrets.redacted(tool.description[:_LONGEST], start.server)
            for tool in tools
            if tool.description
        }
        result.status, result.latency_ms = "ok", _since(started)

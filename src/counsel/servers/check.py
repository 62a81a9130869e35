"""Connect to servers as their agents would: start or call them, shake hands, list the tools."""

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
_MAX_DESCRIPTION = 2_000  # characters of a tool's description


@dataclass(slots=True)
class CheckResult:
    row: ListedServer
    status: str  # ok, failed, timeout, disabled, skipped
    transport: str = ""  # the transport used; empty: the declared one
    latency_ms: int | None = None
    protocol_version: str | None = None
    server_info: dict[str, str] | None = None
    tools: list[str] = field(default_factory=list)
    tool_descriptions: dict[str, str] = field(default_factory=dict)
    error: str | None = None
    stderr: list[str] = field(default_factory=list)
    unset: list[str] = field(default_factory=list)  # variables that the entry refers to but that are not set
    response: LastResponse = field(default_factory=LastResponse)
    declared: CheckResult | None = None  # the result over the declared transport, if another one answered

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


def rows_to_check(
    servers: Servers,
    name: str | None,
    agents: Collection[str],
    scope: str | None,
    *,
    trust_folder: bool = False,
) -> tuple[list[ListedServer], list[CheckResult]]:
    """The servers to connect to, and those to skip.

    A repository can define servers of its own, which run its programs and may get the user's variables. Agents ask
    before they start such servers, so counsel connects to them only if they are requested by name or by scope, and only
    in a folder that the user trusts. In other folders such a request raises `InvalidArgument`.
    """
    rows = list(servers.find(name, agents, scope)) if name else _effective_rows(servers, agents, scope)
    from_project = [row for row in rows if starting.comes_from_project(row, servers.workspace)]
    own = [row for row in rows if not starting.comes_from_project(row, servers.workspace)]
    if not from_project or (not scope and (own or not name)):
        return own, [_skipped(row) for row in from_project]
    untrusted_rows = [
        row for row in from_project if not (trust_folder or starting.may_start(row, servers.workspace))
    ]
    if untrusted_rows:
        raise starting.not_trusted(untrusted_rows, servers.workspace)
    return rows, []


def _effective_rows(servers: Servers, agents: Collection[str], scope: str | None) -> list[ListedServer]:
    """The servers that the agents use. In an untrusted folder these ignore the project's, which then shadow nothing."""
    rows = servers.listing(agents, scope).servers
    ignored_scopes = {"project"} if not trust.trusted(servers.workspace) else set()
    return [row for row in rows if row.shadowed_by is None or row.shadowed_by in ignored_scopes]


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
    """Check several servers at once; connect only once to a server that several agents share."""
    groups: dict[str, list[ListedServer]] = {}
    for row in rows:
        groups.setdefault(_identity(row), []).append(row)
    limiter = asyncio.Semaphore(AT_ONCE)

    async def check_group(group: list[ListedServer]) -> list[CheckResult]:
        first = next(filter(_tries_sse, group), group[0])
        async with limiter:
            group_result = await check_one(first, workspace, timeout, trust_folder=trust_folder)
        results = [replace(_result_for(row, group_result), row=row) for row in group]
        for result in results:
            if progress is not None:
                progress(result)
        return results

    async with asyncio.TaskGroup() as tasks:  # unlike `gather`, waits for all tasks when it is cancelled
        group_tasks = [tasks.create_task(check_group(group)) for group in groups.values()]
    by_row = {id(result.row): result for group in group_tasks for result in group.result()}
    return [by_row[id(row)] for row in rows]


def _identity(row: ListedServer) -> str:
    meanings = {name: repr(value) for name, value in row.server.compared_fields().items()}
    is_filtered = row.server.transport == "stdio" and AGENTS[row.agent].passed_env == "named"
    return repr((row.server.name, sorted(meanings.items()), is_filtered, row.server.enabled, row.unloaded))


def _tries_sse(row: ListedServer) -> bool:
    return row.server.transport == "http" and FORMATS[row.agent].tries_sse(row.entry)


def _result_for(row: ListedServer, result: CheckResult) -> CheckResult:
    """The group's result for one server: an answer over SSE is a failure for an agent that does not try SSE."""
    return result if result.declared is None or _tries_sse(row) else result.declared


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
    start_time = time.perf_counter()
    result = await _attempt(row, start, timeout)
    if result.status == "failed" and _may_use_sse(row, result):
        remaining = timeout - (time.perf_counter() - start_time)
        over_sse = start.replaced(server=start.server.replaced(transport="sse"))
        fallback = await _attempt(row, over_sse, max(remaining, 0.1))
        return replace(fallback, declared=result) if fallback.status == "ok" else result
    return result


def _may_use_sse(row: ListedServer, result: CheckResult) -> bool:
    """Whether MCP's fallback for older servers applies: only if the agent itself implements it."""
    is_refusal = result.response.status in (
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.METHOD_NOT_ALLOWED,
    )
    return is_refusal and _tries_sse(row)


async def _attempt(
    row: ListedServer,
    start: starting.Start,
    timeout: float,  # noqa: ASYNC109 - a timeout is a result here, not an exception
) -> CheckResult:
    server = start.server
    result = CheckResult(row, "failed", transport=server.transport, unset=start.unset)
    start_time = time.perf_counter()
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        task = asyncio.create_task(_ask(start, errors, result))
        try:
            await asyncio.wait({task}, timeout=timeout)
        finally:
            in_time = task.done()
            await _cancel_and_wait(task)
        if result.status == "ok":  # a slow shutdown does not matter
            return result
        result.latency_ms = _since(start_time)
        if not in_time:
            result.status, result.error = "timeout", f"no answer within {timeout:g} s"
        else:
            error = _failure(task) or ConnectionError("it did not answer")
            result.error = reason(error, server, result.response.status)
        result.stderr = tail(errors, server)
    return result


def _since(start_time: float) -> int:
    return round((time.perf_counter() - start_time) * 1000)


async def _cancel_and_wait(task: asyncio.Task[None]) -> None:
    """Cancel the task once and wait for it, even if the caller is cancelled meanwhile: a second cancellation would
    interrupt the library while it ends the server, and nobody would end that server or wait for it."""
    task.cancel()
    interruption: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            interruption = error
    if interruption is not None:
        raise interruption


def _failure(task: asyncio.Task[None]) -> BaseException | None:
    return asyncio.CancelledError("it was cancelled") if task.cancelled() else task.exception()


async def _ask(start: starting.Start, errors: IO[str], result: CheckResult) -> None:
    start_time = time.perf_counter()
    async with connected(start, errors, result.response) as client:
        result.protocol_version = client.protocol_version
        if client.server_info is not None:
            result.server_info = {"name": client.server_info.name, "version": client.server_info.version}
        tools = await every_tool(client)
        result.tools = [tool.name for tool in tools]
        result.tool_descriptions = {
            tool.name: secrets.redacted(tool.description[:_MAX_DESCRIPTION], start.server)
            for tool in tools
            if tool.description
        }
        result.status, result.latency_ms = "ok", _since(start_time)

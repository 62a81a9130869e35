"""Really connecting to servers, as their agents would: start or call them, shake hands, ask for the tools."""

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
from counsel.servers import starting
from counsel.servers.connecting import LastResponse, connected, every_tool, load, reason, tail
from counsel.servers.formats import FORMATS
from counsel.servers.listing import ListedServer
from counsel.servers.service import Servers

AT_ONCE = 8


@dataclass(slots=True)
class CheckResult:
    found: ListedServer
    status: str  # ok, failed, timeout, disabled, skipped
    transport: str = ""  # that was spoken, where it is not the declared one
    latency_ms: int | None = None
    protocol_version: str | None = None
    server_info: dict[str, str] | None = None
    tools: list[str] = field(default_factory=list)
    error: str | None = None
    stderr: list[str] = field(default_factory=list)
    unset: list[str] = field(default_factory=list)  # variables that the entry refers to and nobody has set
    response: LastResponse = field(default_factory=LastResponse)
    declared: CheckResult | None = None  # what came of the declared transport, where another was spoken

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.found.server.name,
            "agent": self.found.agent,
            "scope": self.found.scope,
            "path": str(self.found.table.target.path),
            "transport": self.transport or self.found.server.transport,
            "status": self.status,
            "latency_ms": self.latency_ms,
            "protocol_version": self.protocol_version,
            "server_info": self.server_info,
            "tools": self.tools,
            "error": self.error,
            "stderr": self.stderr,
            "unset": self.unset,
        }


def chosen(
    here: Servers, name: str | None, agents: Collection[str], scope: str | None, *, trust_folder: bool = False
) -> tuple[list[ListedServer], list[CheckResult]]:
    """The servers to connect to, and those that are left alone.

    A repository brings servers of its own, which run its programs and may be sent the user's variables. The agents
    ask before they start them; so they are connected to only when they are asked for, by name or by scope, and only
    in a folder that the user trusts. Raises `InvalidArgument` about those that are asked for in another.
    """
    rows = list(here.find(name, agents, scope)) if name else _used(here, agents, scope)
    theirs = [row for row in rows if starting.brought(row, here.workspace)]
    ours = [row for row in rows if not starting.brought(row, here.workspace)]
    if not theirs or (not scope and (ours or not name)):
        return ours, [_left_alone(row) for row in theirs]
    refused = [row for row in theirs if not (trust_folder or starting.may_start(row, here.workspace))]
    if refused:
        raise starting.not_trusted(refused, here.workspace)
    return rows, []


def _used(here: Servers, agents: Collection[str], scope: str | None) -> list[ListedServer]:
    """Where nobody trusts the folder its servers are not used by any agent, so they shadow none of the user's."""
    rows = here.listing(agents, scope).servers
    powerless = {"project"} if not trust.trusted(here.workspace) else set()
    return [row for row in rows if row.shadowed_by is None or row.shadowed_by in powerless]


def _left_alone(row: ListedServer) -> CheckResult:
    return CheckResult(row, "skipped", error=f"the project brought it; {_HOW.format(row.server.name)}")


_HOW = "`counsel servers check {} --scope project` starts it"


async def check(
    rows: Sequence[ListedServer],
    workspace: Workspace,
    timeout: float = 30.0,  # noqa: ASYNC109 - it is a result here, not an exception
    progress: Callable[[CheckResult], None] | None = None,
    *,
    trust_folder: bool = False,
) -> list[CheckResult]:
    """Check several at once; servers that are the same in several agents are connected to once."""
    groups: dict[str, list[ListedServer]] = {}
    for row in rows:
        groups.setdefault(_sameness(row), []).append(row)
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(group: list[ListedServer]) -> list[CheckResult]:
        first = next(filter(_tries_sse, group), group[0])
        async with gate:
            checked = await check_one(first, workspace, timeout, trust_folder=trust_folder)
        results = [replace(_as_seen_by(row, checked), found=row) for row in group]
        for result in results:
            if progress is not None:
                progress(result)
        return results

    async with asyncio.TaskGroup() as tasks:  # unlike `gather`, it waits for all to end when it is cancelled
        checked = [tasks.create_task(one(group)) for group in groups.values()]
    by_row = {id(result.found): result for group in checked for result in group.result()}
    return [by_row[id(row)] for row in rows]


def _sameness(row: ListedServer) -> str:
    means = {name: repr(value) for name, value in row.server.means().items()}
    filtered = row.server.transport == "stdio" and AGENTS[row.agent].hands_on == "named"
    return repr((row.server.name, sorted(means.items()), filtered, row.server.enabled))


def _tries_sse(row: ListedServer) -> bool:
    return row.server.transport == "http" and FORMATS[row.agent].tries_sse(row.entry)


def _as_seen_by(row: ListedServer, checked: CheckResult) -> CheckResult:
    """What was spoken as SSE is a failure for an agent that does not try that."""
    return checked if checked.declared is None or _tries_sse(row) else checked.declared


async def check_one(
    found: ListedServer,
    workspace: Workspace,
    timeout: float,  # noqa: ASYNC109 - it is a result here, not an exception
    *,
    trust_folder: bool = False,
) -> CheckResult:
    if not found.server.enabled:
        return CheckResult(found, "disabled")
    try:
        start = starting.start(found, workspace, trust_folder=trust_folder)
    except InvalidArgument as refusal:
        return CheckResult(found, "failed", error=f"{refusal} {refusal.hint}")
    load()
    began = time.perf_counter()
    result = await _attempt(found, start, timeout)
    if result.status == "failed" and _may_speak_sse(found, result):
        left = timeout - (time.perf_counter() - began)
        older = start.replaced(server=start.server.replaced(transport="sse"))
        second = await _attempt(found, older, max(left, 0.1))
        return replace(second, declared=result) if second.status == "ok" else result
    return result


def _may_speak_sse(found: ListedServer, result: CheckResult) -> bool:
    """MCP's rule for older servers, and only as far as the agent itself follows it."""
    refused = result.response.status in (
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.METHOD_NOT_ALLOWED,
    )
    return refused and _tries_sse(found)


async def _attempt(
    found: ListedServer,
    start: starting.Start,
    timeout: float,  # noqa: ASYNC109 - it is a result here, not an exception
) -> CheckResult:
    server = start.server
    result = CheckResult(found, "failed", transport=server.transport, unset=start.unset)
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        asking = asyncio.create_task(_ask(start, errors, result))
        try:
            await asyncio.wait({asking}, timeout=timeout)
        finally:
            in_time = asking.done()
            await _ended(asking)
        if result.status == "ok":  # how long it takes to end is not asked
            return result
        result.latency_ms = _since(started)
        if not in_time:
            result.status, result.error = "timeout", f"no answer within {timeout:g} s"
        else:
            error = _failure(asking) or ConnectionError("it said nothing")
            result.error = reason(error, server, result.response.status)
        result.stderr = tail(errors, server)
    return result


def _since(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)


async def _ended(asking: asyncio.Task[None]) -> None:
    """Cancelled once and waited for, however often we are cancelled meanwhile: a second cancellation would reach the
    library while it ends the server, which then is neither ended nor waited for."""
    asking.cancel()
    interrupted: asyncio.CancelledError | None = None
    while not asking.done():
        try:
            await asyncio.wait({asking})
        except asyncio.CancelledError as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted


def _failure(asking: asyncio.Task[None]) -> BaseException | None:
    return asyncio.CancelledError("it was cancelled") if asking.cancelled() else asking.exception()


async def _ask(start: starting.Start, errors: IO[str], result: CheckResult) -> None:
    started = time.perf_counter()
    async with connected(start, errors, result.response) as client:
        result.protocol_version = client.protocol_version
        if client.server_info is not None:
            result.server_info = {"name": client.server_info.name, "version": client.server_info.version}
        result.tools = [tool.name for tool in await every_tool(client)]
        result.status, result.latency_ms = "ok", _since(started)

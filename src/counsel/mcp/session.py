"""The dispatcher: MCP requests in, tool calls on the engine, responses out, over stdio and over HTTP.

It replaces the SDK's session because of measurements (docs/internals/interfaces.md): half the CPU per call, half a
second less to start, and JSON or a stream per answer as the client needs it. The conformance suite and the SDK's own
client test it on every transport in every revision.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from counsel import argument_schema
from counsel.caller import Caller
from counsel.errors import CounselError, Internal
from counsel.front.json_messages import quoted
from counsel.front.protocol import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LISTEN,
    MOST_AT_ONCE,
    STRUCTURED_SINCE,
    ProtocolState,
    RpcError,
    busy,
    declares_tasks,
    is_id,
    progress_token,
)
from counsel.lazy_dataclass import dataclass
from counsel.mcp import client_timeouts, overflow, tasks, tool_result
from counsel.mcp.client_timeouts import Transport
from counsel.mcp.identity import ClientIdentity, folders
from counsel.mcp.tool_call import Call, LeaveReason
from counsel.mcp.tools import TOOLS
from counsel.mcp.tools.base import Tool
from counsel.requests import Engine
from counsel.results import Accepted, ToolResult
from counsel.settings import Settings
from counsel.types import Json

log = logging.getLogger("counsel.mcp")

Send: TypeAlias = Callable[[Json], None]
Id: TypeAlias = str | int
MOST_ROOTS = 100
ROOTS_TIMEOUT = 2.0  # seconds that all calls together wait for the client to name its roots
HAND_OVER = 3.0  # seconds in which a server that is being stopped answers its calls
_NOT_CONFIGURED = client_timeouts.Configured()
CONFIG_TIMEOUT = 1.0  # seconds that the first calls wait until the client's files are read


@cache
def listing() -> list[Json]:
    return [tool.listed() for tool in TOOLS.values()]


@dataclass(slots=True)
class ActiveRequest:
    """A request in progress."""

    task: asyncio.Task[object]
    call: Call | None = None
    stopped: bool = False
    began: float = field(default_factory=time.monotonic)
    abandoned: bool = False  # the client no longer waits, and the job continues
    due: float = math.inf  # when the call is answered, finished or not


@dataclass(slots=True, eq=False)
class Session:
    """One client's MCP session, over any transport."""

    engine: Engine
    identity: ClientIdentity
    transport: Transport = "stdio"
    protocol_state: ProtocolState = field(default_factory=lambda: ProtocolState(listing()))
    ask: Send | None = None  # sends our own requests to the client, where the transport can
    active_requests: dict[Id, ActiveRequest] = field(default_factory=dict, init=False)
    _sent_requests: dict[Id, asyncio.Future[dict[str, object]]] = field(default_factory=dict, init=False)
    _roots: asyncio.Task[None] | None = field(default=None, init=False)
    _roots_count: int = field(default=0, init=False)
    _roots_due: float = field(default=0.0, init=False)  # until when calls wait for the roots
    _time_limit_of: tuple[str, client_timeouts.Configured, Settings, Mapping[str, str], float] | None = field(
        default=None, init=False
    )  # of the last call, with what it was computed from
    _limits: asyncio.Task[client_timeouts.Configured] | None = field(default=None, init=False)
    _limits_due: float = field(default=0.0, init=False)  # until when calls wait for them

    # ── requests ──

    async def respond(
        self,
        request: dict[str, object],
        notify: Send,
        *,
        key: str | None = None,
        on_job: Callable[[str], None] | None = None,
        waited: float = 0.0,
    ) -> Json | None:
        """The response, or None when the client cancelled the request: then nothing is sent.

        `waited`: seconds that the client has already waited for the answer.
        """
        try:
            self.protocol_state.open(request)
            static = self.protocol_state.static(request)
            return static or await self._track(request, notify, key, on_job, waited)
        except RpcError as error:
            return error.response(request["id"])

    async def _track(
        self,
        request: Json,
        notify: Send,
        key: str | None,
        on_job: Callable[[str], None] | None,
        waited: float,
    ) -> dict[str, object] | None:
        name: Id = request["id"]
        if name in self.active_requests:
            raise RpcError(INVALID_REQUEST, f"Request id {quoted(name)} is already in use")
        if len(self.active_requests) >= MOST_AT_ONCE:
            raise busy()
        task = asyncio.current_task()
        assert task is not None  # every transport runs a request in a task
        active = self.active_requests[name] = ActiveRequest(task, began=time.monotonic() - waited)
        try:
            result = await self._answer(request, notify, key, on_job)
            return None if active.abandoned else self.protocol_state.response(request, result)
        except asyncio.CancelledError:
            if not active.stopped:  # the transport itself is being closed
                raise
            task.uncancel()
            return None
        finally:
            del self.active_requests[name]

    async def _answer(
        self, request: Json, notify: Send, key: str | None, on_job: Callable[[str], None] | None
    ) -> dict[str, object]:
        params = request.get("params") or {}
        try:
            if request["method"] == "tools/call":
                return await self._call(request, params, notify, key, on_job)
            if request["method"] == "resources/list":
                return {"resources": await overflow.recent(self.engine)}
            if request["method"] == "resources/read":
                return await self._read(params.get("uri"))
            if request["method"] == LISTEN:
                return await self._watch(request).run(notify)
            return await self._task(request["method"], params)
        except (RpcError, asyncio.CancelledError):
            raise
        except Exception as error:
            log.exception("%s failed", request["method"])
            raise RpcError(INTERNAL_ERROR, "Internal error: see counsel's log") from error

    async def _read(self, uri: object) -> dict[str, object]:
        frame = self._frame()
        try:
            resource = (
                await overflow.read(self.engine, uri, frame.most_characters) if isinstance(uri, str) else None
            )
        except CounselError:
            resource = None
        if resource is None:
            raise self.protocol_state.missing_resource(uri)
        return resource

    async def _call(
        self,
        request: Json,
        params: Mapping[str, object],
        notify: Send,
        key: str | None,
        on_job: Callable[[str], None] | None,
    ) -> dict[str, object]:
        name = params.get("name")
        tool = TOOLS.get(name) if isinstance(name, str) else None
        if tool is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {quoted(name)}")
        if self._roots is not None:
            await self._wait_for_roots(self._roots)
        caller = self.identity.caller(self.protocol_state.client)
        active = self.active_requests[request["id"]]
        call = active.call = Call(
            engine=self.engine,
            caller=caller,
            time_limit=await self._time_limit(caller, active.began),
            key=key,
            report=_reporter(request, notify),
            on_job=on_job,
        )
        takes_tasks = self.protocol_state.era == "stateless" and declares_tasks(request)
        if takes_tasks and call.report is None:
            call.time_limit = min(call.time_limit, tasks.AFTER)
        if active.abandoned:
            call.time_limit = 0.0
        active.due = time.monotonic() + call.time_limit
        outcome = await _outcome(tool, call, params.get("arguments"))
        if isinstance(outcome, CounselError):
            return tool_result.failure(outcome, self._frame(), call.job)
        if takes_tasks and call.job and isinstance(outcome, Accepted):
            return await tasks.created(self.engine, call.job, caller.settings)
        return tool_result.success(outcome, self._frame(), call.job, tool.text)

    def _watch(self, request: dict[str, object]) -> tasks.Watch:
        return tasks.Watch(self.engine, request, self.identity.settings, self._frame())

    async def _task(self, method: str, params: dict[str, object]) -> dict[str, object]:
        if method == "tasks/get":
            return await tasks.get(self.engine, params, self.identity.settings, self._frame())
        return await (tasks.update if method == "tasks/update" else tasks.cancel)(self.engine, params)

    async def _time_limit(self, caller: Caller, began: float) -> float:
        """Seconds that the client will still wait."""
        client, env = self.protocol_state.client, self.identity.env
        file_limits = await self._configured(caller)
        last = self._time_limit_of
        if (
            last is None
            or last[:2] != (client, file_limits)
            or last[2] is not caller.settings
            or last[3] is not env
        ):
            seconds = client_timeouts.time_limit(client, self.transport, caller.settings, env, file_limits)
            last = self._time_limit_of = (client, file_limits, caller.settings, env, seconds)
        return max(0.0, last[4] - (time.monotonic() - began))

    async def is_overdue(self, waited: float) -> bool:
        """Whether the client's time limit for one call has passed after so many seconds."""
        caller = self.identity.caller(self.protocol_state.client)
        return await self._time_limit(caller, time.monotonic() - waited) <= 0

    async def _configured(self, caller: Caller) -> client_timeouts.Configured:
        """The limits in the client's files, read once: the client also reads them only when it starts."""
        if caller.agent is None or caller.person or caller.settings.client_limit_seconds:
            return _NOT_CONFIGURED
        if self._limits is None:
            reading = asyncio.to_thread(
                _configured, caller.agent, self.identity.env, caller.cwd, self.transport, self.identity.front
            )
            self._limits = asyncio.ensure_future(reading)
            self._limits_due = time.monotonic() + CONFIG_TIMEOUT
        # A client may begin with several calls at once, and each of them needs the limit.
        if not self._limits.done() and (remaining := self._limits_due - time.monotonic()) > 0:
            await asyncio.wait({self._limits}, timeout=remaining)
        return self._limits.result() if self._limits.done() else _NOT_CONFIGURED

    def _frame(self) -> tool_result.Frame:
        settings = self.identity.settings
        row = client_timeouts.of(self.protocol_state.client)
        links = self.protocol_state.version >= STRUCTURED_SINCE
        return tool_result.Frame(settings.max_output_tokens, self._home, links, row.reads, row.reads_failed)

    def _home(self) -> Path | None:
        if self.identity.settings.database:  # a team: the client's next request may reach another server
            return None
        is_ours = getattr(self.engine, "home_is_ours", None)
        return self.identity.settings.home if is_ours is None or is_ours() else None

    # ── notifications and answers from the client ──

    def on_notification(self, message: Json) -> None:
        handler = _NOTIFICATIONS.get(message["method"])
        if handler is not None:
            handler(self, message.get("params") or {})

    def _cancelled(self, params: Mapping[str, object]) -> None:
        name: Any = params.get("requestId")
        active = self.active_requests.get(name) if is_id(name) else None
        if active is not None and not active.stopped:  # OpenCode reports its time limit, then that it aborted
            active.stopped = True
            # Codex gives no reason; once our answer is overdue, its time limit is the reason
            is_late = client_timeouts.is_timeout(params.get("reason")) or time.monotonic() >= active.due
            if is_late and active.call is None:  # no job yet: `_call` submits it and does not wait
                active.abandoned = True
            else:
                self._stop(active, "timed_out" if is_late else "cancelled")

    def abandon(self, name: Id) -> None:
        """Stop waiting for this request, because its client has; its job continues."""
        active = self.active_requests.get(name)
        if active is not None and not active.stopped:
            active.stopped = True
            self._stop(active, "timed_out")

    def _initialized(self, _params: Mapping[str, object]) -> None:
        if self.ask is not None and "roots" in self.protocol_state.capabilities:
            if self._roots is not None:  # one request at a time, however often the client sends this
                self._roots.cancel()
            self._roots = asyncio.ensure_future(self._ask_roots())
            self._roots_due = self._roots_due or time.monotonic() + ROOTS_TIMEOUT

    def on_response(self, message: Json) -> None:
        """The client's response to one of our requests."""
        waiting = self._sent_requests.pop(message["id"], None)
        if waiting is not None and not waiting.done():
            waiting.set_result(message.get("result") or {})

    async def _ask_roots(self) -> None:
        assert self.ask is not None  # `_initialized` has checked
        self._roots_count += 1
        name = f"counsel-roots-{self._roots_count}"
        waiting = self._sent_requests[name] = asyncio.get_running_loop().create_future()
        self.ask({"jsonrpc": "2.0", "id": name, "method": "roots/list"})
        try:
            result = await waiting
        finally:
            self._sent_requests.pop(name, None)
        roots = result.get("roots") if isinstance(result, dict) else None
        if isinstance(roots, list):
            uris = (root.get("uri") for root in roots[:MOST_ROOTS] if isinstance(root, dict))
            self.identity.roots = folders(uris)

    async def _wait_for_roots(self, roots: asyncio.Task[None]) -> None:
        """Calls do not wait again for a client that did not answer in time; a late answer counts from then on."""
        remaining = self._roots_due - time.monotonic()
        if not roots.done() and remaining > 0:
            await asyncio.wait({roots}, timeout=remaining)

    # ── closing ──

    @staticmethod
    def _stop(active: ActiveRequest, why: LeaveReason) -> None:
        if active.call is not None:
            active.call.leaving = why
        active.task.cancel()

    @property
    def is_waiting(self) -> bool:
        """A client waits for a tool's result."""
        return any(active.call is not None for active in self.active_requests.values())

    async def hand_over(self) -> None:
        """Before the server stops, answer calls with their jobs, which continue; then close as usual."""
        calls = [active for active in self.active_requests.values() if active.call is not None]
        for active in calls:
            assert active.call is not None
            active.call.stop_waiting()
        if calls:
            await asyncio.wait({active.task for active in calls}, timeout=HAND_OVER)
        await self.close("handover")

    async def close(self, why: LeaveReason = "gone") -> None:
        """End the requests in progress. `gone`: the client left. `handover`: another daemon continues them."""
        if self._roots is not None:
            self._roots.cancel()
        tasks = [active.task for active in self.active_requests.values()]
        for active in list(self.active_requests.values()):
            if active.abandoned or not active.stopped:  # else its client has said why
                active.stopped = True
                self._stop(active, "timed_out" if active.abandoned else why)
        for task in tasks:
            await _ended(task)


_NOTIFICATIONS: dict[str, Callable[[Session, dict[str, object]], None]] = {
    "notifications/cancelled": Session._cancelled,  # a table of this module's own
    "notifications/initialized": Session._initialized,
    "notifications/roots/list_changed": Session._initialized,
}


def _configured(
    agent: str, env: Mapping[str, str], project: Path, transport: Transport, front: int | None
) -> client_timeouts.Configured:
    from counsel.mcp import client_config  # 40 ms for the formats of all agents' files

    return client_config.configured(agent, env, project, transport, front)


async def _ended(task: asyncio.Task[object]) -> None:
    if not task.done():
        await asyncio.wait({task})


_CHECKERS: dict[str, argument_schema.Checker] = {}  # by tool, made at its first call


def _checker(tool: Tool) -> argument_schema.Checker:
    checker = _CHECKERS.get(tool.name)
    if checker is None:
        checker = _CHECKERS[tool.name] = argument_schema.Checker(tool.name, tool.schema)
    return checker


async def _outcome(tool: Tool, call: Call, arguments: object) -> ToolResult | CounselError:
    try:
        return await tool.run(call, _checker(tool).check(arguments))
    except CounselError as error:
        return error
    except Exception:
        log.exception("%s failed", tool.name)
        return Internal("counsel itself failed.", hint="Its log says where: `counsel doctor` shows the file.")


def _reporter(request: dict[str, object], notify: Send) -> Callable[[float, str], None] | None:
    token = progress_token(request)
    if token is None:
        return None

    def report(progress: float, text: str) -> None:
        params = {"progressToken": token, "progress": progress, "message": text}
        notify({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    return report

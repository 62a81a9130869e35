"""MCP's tasks extension (`io.modelcontextprotocol/tasks`, revision 2026-07-28): a job is a task, its id the task's.

The server decides what becomes a task: here a background call, and a call that is not answered within a few seconds.
A tool's failure is a completed task whose result says `isError`, as the extension demands. Nothing of this is sent to
a client that does not declare the extension on its request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from counsel.errors import NotFound, from_dict
from counsel.front.json_messages import quoted
from counsel.front.protocol import INVALID_PARAMS, META_SUBSCRIPTION, RpcError
from counsel.mcp import tool_result
from counsel.mcp.tools import TOOLS
from counsel.requests import Engine
from counsel.settings import Settings
from counsel.types import Json

AFTER = 5.0  # seconds after which a call becomes a task, unless its client watches its progress
POLL_MS = 1_000
_DAY_MS = 86_400_000
MOST_WATCHED = 100  # tasks of one subscription
_TOLD = frozenset({"started", "waiting", "model_started", "model_finished", "model_failed", "phase"})
_STATUS = {"processing": "working", "cancelled": "cancelled"}


async def created(engine: Engine, job: str, settings: Settings) -> Json:
    """What `tools/call` answers in place of a result. The job is in the journal: `tasks/get` finds it."""
    found = await _job(engine, job)
    return {**_task(found, settings), "resultType": "task"}


async def get(engine: Engine, params: Json, settings: Settings, frame: tool_result.Frame) -> Json:
    return detailed(await _job(engine, params.get("taskId")), settings, frame)


def detailed(found: Json, settings: Settings, frame: tool_result.Frame) -> Json:
    task = _task(found, settings)
    if task["status"] == "completed":
        task["result"] = _result(found, frame)
    return task


async def update(engine: Engine, params: Json) -> Json:
    """No job of ours asks for input, so every answer is one that nobody waits for: it is ignored."""
    await _job(engine, params.get("taskId"))
    return {}


async def cancel(engine: Engine, params: Json) -> Json:
    found = await _job(engine, params.get("taskId"))
    if found["status"] == "processing":
        await engine.cancel(found["job_id"])
    return {}


class Watch:
    """`subscriptions/listen`: the state of some tasks whenever it changes, until all of them have ended."""

    def __init__(self, engine: Engine, request: Json, settings: Settings, frame: tool_result.Frame) -> None:
        asked = request["params"]["notifications"]["taskIds"]
        self._engine = engine
        self._asked = dict.fromkeys(name for name in asked[:MOST_WATCHED] if isinstance(name, str))
        self._meta = {META_SUBSCRIPTION: request["id"]}
        self._settings, self._frame = settings, frame

    async def run(self, notify: Callable[[Json], None]) -> Json:
        known = [name for name in self._asked if await self._is_known(name)]
        honored = {"notifications": {"taskIds": known}, "_meta": self._meta}
        notify(_notification("notifications/subscriptions/acknowledged", honored))
        async with asyncio.TaskGroup() as group:
            for name in known:
                group.create_task(self._follow(name, notify))
        return {"_meta": self._meta}

    async def _is_known(self, name: str) -> bool:
        try:
            await _job(self._engine, name)
        except RpcError:
            return False
        return True

    async def _follow(self, name: str, notify: Callable[[Json], None]) -> None:
        told: Json = {}
        async for event in self._engine.follow(name):
            if event.kind in _TOLD:
                told = await self._tell(name, told, notify)
        await self._tell(name, told, notify)

    async def _tell(self, name: str, told: Json, notify: Callable[[Json], None]) -> Json:
        task = detailed(await _job(self._engine, name), self._settings, self._frame)
        if (task["status"], task["statusMessage"]) != (told.get("status"), told.get("statusMessage")):
            notify(_notification("notifications/tasks", {**task, "_meta": self._meta}))
        return task


def _notification(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def _job(engine: Engine, name: Any) -> Json:
    """The job's status. A conversation's id is no task's: it would be another one with the next turn."""
    try:
        found: Json = (await engine.status(name))["content"] if isinstance(name, str) and name else {}
    except NotFound:
        found = {}
    if not found or found.get("job_id") != name:
        raise RpcError(INVALID_PARAMS, f"Task not found: {quoted(name)}")
    return found


def _task(found: Json, settings: Settings) -> Json:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "taskId": found["job_id"],
        "status": _STATUS.get(found["status"], "completed"),
        "statusMessage": _words(found),
        "createdAt": found["started_at"],
        "lastUpdatedAt": found.get("completed_at", now),
        "ttlMs": settings.job_days * _DAY_MS + round(1000 * found["elapsed_seconds"]),
        "pollIntervalMs": POLL_MS,
    }


def _words(found: Json) -> str:
    if waits := found.get("waiting_for"):
        return f"waits for {waits['text']}"
    progress = found["progress"]
    many = f", {progress['completed']} of {progress['total']} models" if progress["total"] > 1 else ""
    return f"{found['tool']}: {found['status'].replace('_', ' ')}{many}"


def _result(found: Json, frame: tool_result.Frame) -> Json:
    """What the call would have answered."""
    job: str = found["job_id"]
    if failed := found.get("error"):
        return tool_result.failure(from_dict(failed), frame, job)
    return tool_result.success(found["result"], TOOLS[found["tool"]].text, frame, job)

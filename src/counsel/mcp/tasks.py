"""MCP's tasks extension (`io.modelcontextprotocol/tasks`, revision 2026-07-28): a job is a task with the job's id.

The server decides what becomes a task: a background call, and a call that is not answered within a few seconds. A
tool's failure is a completed task whose result has `isError`, as the extension demands. A client whose request does not
declare the extension gets no tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

from counsel.errors import Internal, NotFound
from counsel.front.json_messages import quoted
from counsel.front.protocol import INVALID_PARAMS, META_SUBSCRIPTION, RpcError
from counsel.mcp import render, tool_result
from counsel.requests import Engine
from counsel.results import JobStatus
from counsel.settings import Settings
from counsel.types import Json

AFTER = 5.0  # seconds after which a call becomes a task, unless its client watches its progress
POLL_MS = 1_000
_DAY_MS = 86_400_000
MOST_WATCHED = 100  # tasks of one subscription
_REPORTED = frozenset({"started", "waiting", "model_started", "model_finished", "model_failed", "phase"})
_STATUS = {"processing": "working", "cancelled": "cancelled"}


async def created(engine: Engine, job: str, settings: Settings) -> dict[str, object]:
    """The answer to `tools/call` in place of a result. The job is in the database, so `tasks/get` finds it."""
    return {**_task(await _job(engine, job), settings), "resultType": "task"}


async def get(engine: Engine, params: Json, settings: Settings, frame: tool_result.Frame) -> Json:
    return detailed(await _job(engine, params.get("taskId")), settings, frame)


def detailed(job: JobStatus, settings: Settings, frame: tool_result.Frame) -> dict[str, object]:
    task = _task(job, settings)
    return task if job.status in _STATUS else {**task, "result": _result(job, frame)}


async def update(engine: Engine, params: Mapping[str, object]) -> dict[str, object]:
    """Ignore the input: our jobs never ask for any."""
    await _job(engine, params.get("taskId"))
    return {}


async def cancel(engine: Engine, params: Json) -> Json:
    job = await _job(engine, params.get("taskId"))
    if job.is_open:
        await engine.cancel(job.job_id)
    return {}


class Watch:
    """Serves `subscriptions/listen`: reports each change of some tasks until all have ended."""

    def __init__(self, engine: Engine, request: Json, settings: Settings, frame: tool_result.Frame) -> None:
        ids = request["params"]["notifications"]["taskIds"]
        self._engine = engine
        self._ids = dict.fromkeys(name for name in ids[:MOST_WATCHED] if isinstance(name, str))
        self._meta = {META_SUBSCRIPTION: request["id"]}
        self._settings, self._frame = settings, frame

    async def run(self, notify: Callable[[Json], None]) -> dict[str, object]:
        tasks = [name for name in self._ids if await self._exists(name)]
        params = {"notifications": {"taskIds": tasks}, "_meta": self._meta}
        notify(_notification("notifications/subscriptions/acknowledged", params))
        async with asyncio.TaskGroup() as group:
            for name in tasks:
                group.create_task(self._follow(name, notify))
        return {"_meta": self._meta}

    async def _exists(self, name: str) -> bool:
        try:
            await _job(self._engine, name)
        except RpcError:
            return False
        return True

    async def _follow(self, name: str, notify: Callable[[dict[str, object]], None]) -> None:
        last: tuple[str, str] | None = None
        async for event in self._engine.follow(name):
            if event.kind in _REPORTED:
                last = await self._report(name, last, notify)
        await self._report(name, last, notify)

    async def _report(
        self, name: str, last: tuple[str, str] | None, notify: Callable[[dict[str, object]], None]
    ) -> tuple[str, str]:
        """Send the job's state and message unless they are those that were sent `last`."""
        job = await _job(self._engine, name)
        state = (_state(job), _message(job))
        if state != last:
            task = detailed(job, self._settings, self._frame)
            notify(_notification("notifications/tasks", {**task, "_meta": self._meta}))
        return state


def _notification(method: str, params: Mapping[str, object]) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def _job(engine: Engine, name: object) -> JobStatus:
    """The job's status. A conversation's id is no task id: after the next turn it would name another job."""
    if isinstance(name, str) and name:
        with suppress(NotFound):
            job = await engine.status(name)
            if job.job_id == name:
                return job
    raise RpcError(INVALID_PARAMS, f"Task not found: {quoted(name)}")


def _task(job: JobStatus, settings: Settings) -> dict[str, object]:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "taskId": job.job_id,
        "status": _state(job),
        "statusMessage": _message(job),
        "createdAt": job.started_at,
        "lastUpdatedAt": job.completed_at or now,
        "ttlMs": settings.job_days * _DAY_MS + round(1000 * job.elapsed_seconds),
        "pollIntervalMs": POLL_MS,
    }


def _state(job: JobStatus) -> str:
    return _STATUS.get(job.status, "completed")


def _message(job: JobStatus) -> str:
    if job.waiting_for:
        return f"waits for {job.waiting_for.text}"
    many = f", {job.completed} of {job.total} models" if job.total > 1 else ""
    return f"{job.tool}: {job.status.replace('_', ' ')}{many}"


def _result(job: JobStatus, frame: tool_result.Frame) -> dict[str, object]:
    """The result that the call would have returned."""
    if job.result:
        return tool_result.success(job.result, frame, job.job_id, render.text)
    error = job.error or Internal("The result of this job is missing from the database.", hint="Ask again.")
    return tool_result.failure(error, frame, job.job_id)

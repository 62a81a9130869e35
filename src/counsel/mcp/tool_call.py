"""One tool call as a job: submit it, wait, report progress, and handle a caller that stops waiting.

A client's time limit never loses a synchronous call: shortly before it, the call answers with the job's id and the job
continues. The same happens when a shared server is stopped (`stop_waiting`). The job also continues when the client
timed out by itself (`timed_out`). A call that its caller cancelled or abandoned is stopped at the provider, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import field, replace
from typing import Literal, TypeAlias

from counsel import first_step
from counsel.alarms import TimeLimit
from counsel.caller import Caller
from counsel.errors import CounselError
from counsel.lazy_dataclass import dataclass
from counsel.mcp.progress import Report, report
from counsel.requests import Engine, Request
from counsel.results import Accepted, Result

LeaveReason: TypeAlias = Literal["cancelled", "timed_out", "gone", "handover"]


@dataclass(slots=True, kw_only=True)
class Call:
    """What a tool's handler knows about its call."""

    engine: Engine
    caller: Caller
    time_limit: float
    key: str | None = None  # the same for a call that is sent again after the daemon died
    report: Report | None = None
    on_job: Callable[[str], None] | None = None
    leaving: LeaveReason = "gone"  # why the call is being given up, set before its task is cancelled
    job: str | None = field(default=None, init=False)
    waits_here: bool = field(default=True, init=False)  # False: the server is being stopped
    timeout: TimeLimit | None = field(default=None, init=False)  # while its caller waits

    def stop_waiting(self) -> None:
        """Answer with the job now: this server is being stopped, and another process continues it."""
        self.waits_here, self.time_limit = False, 0.0
        if self.timeout is not None:
            self.timeout.end_now()


async def run(call: Call, request: Request, *, background: bool) -> Result | Accepted:
    """The request's result, or what the caller can do until there is one."""
    job = await _submit(call, request, background=background)
    if background:
        return await call.engine.accepted(job)
    try:
        return await (_in_time(call, job) if call.report is None else _reporting(call, job, call.report))
    except asyncio.CancelledError:
        await _leave(call, job, background=False)
        raise


async def _submit(call: Call, request: Request, *, background: bool) -> str:
    """Submit the job. If the call is cancelled meanwhile, finish that first: only a stored job can be stopped."""
    work = call.engine.submit(request, call.caller, background=background, key=call.key)
    # a team's database has time limits of its own, which need a task from the start
    submitting = asyncio.ensure_future(work) if call.caller.settings.database else first_step.start(work)
    if isinstance(submitting, str):
        job = submitting
    else:
        try:
            job = await asyncio.shield(submitting)
        except asyncio.CancelledError:
            with suppress(CounselError):
                await _leave(call, await submitting, background=background)
            raise
    call.job = job
    if call.on_job:
        call.on_job(job)
    return job


async def _reporting(call: Call, job: str, send: Report) -> Result | Accepted:
    reporting = asyncio.ensure_future(report(call.engine, job, send))
    try:
        return await _in_time(call, job)
    finally:
        reporting.cancel()
        with suppress(asyncio.CancelledError, CounselError):
            await reporting


async def _in_time(call: Call, job: str) -> Result | Accepted:
    try:
        with TimeLimit(call.time_limit) as call.timeout:
            return await call.engine.wait(job)
    except TimeoutError:
        await call.engine.detach(job)
    accepted = await call.engine.accepted(job)
    if accepted.continuation.status != "processing":  # the job has just ended
        return await call.engine.wait(job)
    return still_running(accepted, call)


def still_running(accepted: Accepted, call: Call) -> Accepted:
    if call.waits_here:
        why = f"{call.caller.client} does not wait longer than this for one call, so the job continues in the background."
    elif call.caller.settings.database:
        why = "This server is being stopped. The job continues on another server of the team."
    else:
        why = "This server is being stopped. The job continues when counsel runs again."
    note = (
        f"{why} "
        f'Nothing is lost: call check_status with continuation_id "{call.job}" for its progress and its answer, '
        f"or cancel_job to stop it. For long work use async: true."
    )
    return replace(accepted, note=note, document=None)


async def _leave(call: Call, job: str, *, background: bool) -> None:
    if call.leaving == "timed_out":
        with suppress(CounselError):
            await _finish(call.engine.detach(job))
        return
    continues = call.leaving == "gone" and (background or call.caller.settings.keep_abandoned)
    if call.leaving != "handover" and not continues:
        with suppress(CounselError):
            await _finish(call.engine.cancel(job))


async def _finish(work: Coroutine[object, object, object]) -> None:
    """Let `work` end, however often the current task is cancelled."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    task.result()

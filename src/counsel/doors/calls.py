"""One tool call as a job: submit, wait, report progress, and what happens when the caller stops waiting.

A synchronous call is never lost to a client's time limit: shortly before it the call answers with the job's id
and the job goes on. A call that its caller cancelled, or that nobody waits for any more, stops upstream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import field
from typing import Any, Literal, TypeAlias

from counsel.caller import Caller
from counsel.dataclass import dataclass
from counsel.doors import words
from counsel.errors import CounselError
from counsel.requests import Engine, JobEvent, Request
from counsel.types import Json

Leaving: TypeAlias = Literal["cancelled", "gone", "handover"]
Report: TypeAlias = Callable[[float, str], None]

REPORT_EVERY = 0.25  # seconds: a progress notification per delta costs four times the throughput (facts)
REPORT_TEXT = 4_000  # characters of the text so far that a notification carries


@dataclass(slots=True, kw_only=True)
class Call:
    """What a tool's handler may know about the call it serves."""

    engine: Engine
    caller: Caller
    patience: float
    key: str | None = None  # the same for a call that is sent again after the daemon died
    report: Report | None = None
    on_job: Callable[[str], None] | None = None
    leaving: Leaving = "gone"  # why the call is being given up, set before its task is cancelled
    job: str | None = field(default=None, init=False)


async def run(call: Call, request: Request, *, background: bool) -> Json:
    """The request's result, or what to do meanwhile."""
    job = await _submit(call, request, background=background)
    if background:
        return await call.engine.accepted(job)
    try:
        return await _wait(call, job)
    except asyncio.CancelledError:
        await _leave(call, job, background=False)
        raise


async def _submit(call: Call, request: Request, *, background: bool) -> str:
    """A call cancelled while it is being written down is written down first, so that it can be stopped."""
    submitting = asyncio.ensure_future(
        call.engine.submit(request, call.caller, background=background, key=call.key)
    )
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


async def _wait(call: Call, job: str) -> Json:
    if call.report is None:
        return await _in_time(call, job)
    reporting = asyncio.ensure_future(_report(call.engine, job, call.report))
    try:
        return await _in_time(call, job)
    finally:
        reporting.cancel()
        with suppress(asyncio.CancelledError, CounselError):
            await reporting


async def _in_time(call: Call, job: str) -> Json:
    try:
        async with asyncio.timeout(call.patience):
            return await call.engine.wait(job)
    except TimeoutError:
        await call.engine.detach(job)
    accepted = await call.engine.accepted(job)
    if accepted["continuation"]["status"] != "processing":  # it ended in this very moment
        return await call.engine.wait(job)
    return still_running(accepted, call)


def still_running(accepted: Json, call: Call) -> Json:
    note = (
        f"{call.caller.client} waits no longer than this for one call, so the job goes on in the background. "
        f'Nothing is lost: call check_status with continuation_id "{call.job}" for its progress and its answer, '
        f"or cancel_job to stop it. For long work use async: true."
    )
    return {**accepted, "note": note}


async def _leave(call: Call, job: str, *, background: bool) -> None:
    kept = call.leaving == "gone" and (background or call.caller.settings.keep_abandoned)
    if call.leaving != "handover" and not kept:
        with suppress(CounselError):
            await _finish(call.engine.cancel(job))


async def _finish(work: Coroutine[Any, Any, Any]) -> None:
    """Let `work` end although the task that started it is being cancelled again and again."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    task.result()


# ── progress ─────────────────────────────────────────────────────────────────────────────────────────


async def _report(engine: Engine, job: str, report: Report) -> None:
    """The text so far, a few times per second, as long as it grows."""
    text = Growing()
    following = asyncio.ensure_future(_collect(engine, job, text))
    try:
        while True:
            await text.grown.wait()
            text.grown.clear()
            report(text.size, text.shown())
            if following.done():
                return
            await asyncio.sleep(REPORT_EVERY)
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError, CounselError):
            await following


async def _collect(engine: Engine, job: str, text: Growing) -> None:
    async for event in engine.follow(job):
        text.add(event)


class Growing:
    """The answers of a job as they come, per model, each only as long as a notification can show."""

    def __init__(self) -> None:
        self.grown = asyncio.Event()
        self.size = 0
        self._names: dict[str, str] = {}
        self._tails: dict[str, str] = {}
        self._lengths: dict[str, int] = {}
        self._notes: dict[str, str] = {}
        self._waits = ""  # before the first call

    def add(self, event: JobEvent) -> None:
        if event.kind == "model_started":
            self._waits = ""
            self._names[event.slot] = str(event.data.get("model", event.slot))
            self._cut(event.slot, 0)
        elif event.kind == "phase":
            self._notes.clear()
        elif event.kind == "waiting" and not event.slot:
            self._waits = f"[waits for {event.data['text']}]"
            self._grow(1)
        elif event.kind == "restarted":
            self._cut(event.slot, event.data["offset"])
            self._notes[event.slot] = f"[{words.restarted(event.data)}]"
            self._grow(1)  # a client may drop a notification whose number is no greater than the last one's
        elif event.kind == "text":
            delta = str(event.data["text"])
            self._cut(event.slot, event.data["offset"])
            self._tails[event.slot] = (self._tails[event.slot] + delta)[-REPORT_TEXT:]
            self._lengths[event.slot] += len(delta)
            self._grow(len(delta))

    def _cut(self, slot: str, offset: int) -> None:
        tail, length = self._tails.get(slot, ""), self._lengths.get(slot, 0)
        kept = max(0, len(tail) - max(0, length - offset)) if offset else 0
        self._tails[slot], self._lengths[slot] = tail[:kept], offset

    def _grow(self, by: int) -> None:
        self.size += by
        self.grown.set()

    def shown(self) -> str:
        if self._waits:
            return self._waits
        if len(self._tails) <= 1:
            return "\n\n".join(self._part(slot) for slot in self._tails)
        each = REPORT_TEXT // len(self._tails)
        parts = ((self._names.get(slot, slot), slot) for slot in self._tails)
        return "\n\n".join(f"{name}: {part}" for name, slot in parts if (part := self._part(slot, each)))

    def _part(self, slot: str, most: int = REPORT_TEXT) -> str:
        tail = self._tails[slot][-most:]
        cut = "…" if most == REPORT_TEXT and self._lengths[slot] > most else ""
        return "\n\n".join(part for part in (self._notes.get(slot), cut + tail) if part)

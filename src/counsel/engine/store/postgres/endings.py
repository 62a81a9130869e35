"""The end of a job: its result or error, the turn of its conversation and its usage, in one transaction."""

from __future__ import annotations

import time
from typing import Any

from counsel import strict_json
from counsel.engine.store.postgres import conversations, fencing, queue, replies, usage
from counsel.engine.store.postgres.commits import Transaction, Work
from counsel.engine.store.records import Fence, JobCompleted, JobEnd, JobStopped
from counsel.errors import UpstreamError
from counsel.requests import Status
from counsel.types import Json


def end_job(fence: Fence, end: JobEnd) -> Work[None]:
    return _completed(fence, end) if isinstance(end, JobCompleted) else _stopped(fence, end)


def _completed(fence: Fence, end: JobCompleted) -> Work[None]:
    async def work(db: Transaction) -> None:
        await fencing.check(fence, db)
        count = await conversations.add_turn(db, end.turn)
        await _end(
            db,
            fence.job,
            end.status,
            result=end.result(count).to_row(),
            completed=end.completed,
            task=end.task,
        )
        await usage.insert(db, end.usage)
        if end.has_events:
            await replies.drop_text(db, fence.job)
        await queue.remove(db, fence.job)  # last: a submission to the conversation locks in this order, too

    return work


def _stopped(fence: Fence, end: JobStopped) -> Work[None]:
    """The text of unfinished calls stays in the events, unless the error has it."""

    async def work(db: Transaction) -> None:
        await fencing.check(fence, db)
        if turn := end.turn(await replies.replies_by_key(db.rows, fence.job)):
            await conversations.add_turn(db, turn)
        await _end(db, fence.job, end.status, error=end.error.as_dict(), task=end.task)
        if end.error.partial or (isinstance(end.error, UpstreamError) and end.error.failed):
            await replies.drop_text(db, fence.job)
        await queue.remove(db, fence.job)

    return work


async def _end(
    db: Transaction,
    job: str,
    status: Status,
    *,
    result: Json | None = None,
    error: Json | None = None,
    completed: int | None = None,
    task: str | None = None,
) -> None:
    await db.execute(
        "UPDATE counsel.jobs SET status = %s, finished = %s, result = %s, error = %s, outcome = %s, "
        "completed = COALESCE(%s, completed), task = COALESCE(%s, task) WHERE id = %s",
        status,
        time.time(),
        None if result is None else strict_json.dumps(result),
        None if error is None else strict_json.dumps(error),
        strict_json.dumps(outcome(result, error)),
        completed,
        task,
        job,
    )
    db.notify(job)


def outcome(result: Json | None, error: Json | None) -> list[Any]:
    """The fields of `JobOutcome`, stored separately so that lists of jobs need not read whole answers."""
    metadata: Json = (result or {}).get("metadata") or {}
    failure = error or {}
    cost = metadata.get("cost_usd")
    tokens = (metadata.get("usage") or {}).get("total_tokens")
    complete = metadata.get("cost_complete")
    return [
        metadata.get("model"),
        metadata.get("provider"),
        failure.get("cost_usd") if cost is None else cost,
        True if complete is None else bool(complete),
        ((failure.get("usage") or {}).get("total_tokens") if tokens is None else tokens) or 0,
    ]

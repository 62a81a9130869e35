"""When a row of a team's queue is offered again."""

from __future__ import annotations

import logging
from typing import Any

import procrastinate
import pytest
from procrastinate.jobs import Job, Status

from counsel.engine.team.queue.manager import FencedJobManager
from counsel.engine.team.queue.queue import Later, _Retry


@pytest.mark.parametrize(
    ("attempts", "error", "seconds"),
    [
        (0, ValueError("x"), 5.0),
        (1, ValueError("x"), 10.0),
        (3, ValueError("x"), 40.0),
        (6, ValueError("x"), 300.0),
        (5000, ValueError("x"), 300.0),
        (3, Later(1.5), 1.5),
        (0, KeyboardInterrupt(), 5.0),
    ],
)
def test_failures_are_retried_at_growing_intervals_or_at_the_requested_time(
    attempts: int,
    error: BaseException,
    seconds: float,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(procrastinate, "RetryDecision", lambda *, retry_in: retry_in)

    class Row:
        pass

    row: Any = Row()
    row.attempts = attempts
    caplog.set_level(logging.ERROR, "counsel.queue")
    decision: Any = _Retry().get_retry_decision(exception=error, job=row)
    assert decision == {"milliseconds": seconds * 1000}
    assert bool(caplog.records) == isinstance(error, ValueError)


def test_a_retry_says_when() -> None:
    assert str(Later(1.5)) == "again in 1.5 s"


@pytest.mark.parametrize("ends", ["finished", "retried"])
async def test_a_row_that_was_never_run_leaves_its_place(ends: str) -> None:
    """A worker that is stopped, or does not know the task, gives back what it has taken."""

    class Queue:
        async def finish(self, row: object) -> None: ...

        async def retry(self, row: object, seconds: float) -> None: ...

        async def fetch(self, names: object) -> dict[str, object]:
            row = {"id": 7, "task_name": "t", "args": {"job": "job_1"}, "attempts": 0, "worker_id": 1}
            rest = dict.fromkeys(("lock", "queueing_lock", "scheduled_at"))
            return {**row, **rest, "priority": 0, "status": "doing", "queue_name": "q"}

    manager = FencedJobManager(Queue(), lambda: ["q"], lambda: True)  # type: ignore[arg-type]
    row = await manager.fetch_job(None, 1)
    assert isinstance(row, Job)
    assert manager.starting == {"job_1"}
    await (manager.finish_job(row, Status.FAILED, False) if ends == "finished" else manager.retry_job(row))
    assert (manager.starting, manager.active) == (set(), {})

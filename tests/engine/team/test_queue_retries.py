"""When a row of a team's queue is offered again."""

from __future__ import annotations

import logging
from typing import Any

import procrastinate
import pytest

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

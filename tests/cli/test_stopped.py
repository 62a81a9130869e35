"""What a person reads about a job that was stopped."""

from __future__ import annotations

from typing import Any

import pytest

from counsel.cli import jobs
from counsel.cli.terminal import stopped
from counsel.errors import Cancelled
from counsel.job_events import Wait
from counsel.results import JobStatus
from counsel.results.jobs import JobSummary, ModelState


def job(tool: str = "chat", **fields: Any) -> JobStatus:
    values: dict[str, Any] = {
        "id": "conv_1",
        "job_id": "job_0123456789ab",
        "status": "cancelled",
        "tool": tool,
        "models": ("gpt-5",),
        "completed": 0,
        "total": 1,
        "elapsed_seconds": 1.0,
        "started_at": "2026-11-18T12:00:00.000Z",
        "status_line": "",
    }
    return JobStatus(**(values | fields))


def state(slot: str, text: str = "", partial: str | None = None) -> ModelState:
    return ModelState(slot=slot, model="gpt-5", status="cancelled", text=text, partial=partial)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (job(), None),
        (job(models_status=(state("0"),)), None),
        (job(models_status=(state("0", "whole"),)), "The answer is kept"),
        (job(models_status=(state("0", partial="It sa"),)), "The partial answer is kept"),
        (job(error=Cancelled("Stopped.", partial="It sa")), "The partial answer is kept"),
        (job("consensus", models_status=(state("0"), state("1"))), None),
        (job("consensus", models_status=(state("0", "a"), state("1"), state("judge", "b"))), "1 of 2 answers kept"),
        (job("consensus", models_status=(state("0", "a"), state("1", partial="b"))), "1 of 2 answers kept, and partial text"),
        (job("consensus", models_status=(state("0", partial="b"), state("1"))), "0 of 2 answers kept, and partial text"),
    ],
)  # fmt: skip
def test_kept_answers_are_named_with_the_command_that_shows_them(
    status: JobStatus, expected: str | None
) -> None:
    text = stopped.summary(status)
    if expected is None:
        assert text == "Stopped before an answer arrived."
    else:
        assert text.startswith(f"Stopped. {expected}: counsel jobs ")
        assert status.job_id.removeprefix("job_").startswith(text.rpartition(" ")[2].removeprefix("job_"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"status": "processing", "completed": 1, "total": 3}, "running 1/3"),
        ({"status": "processing", "completed": 0, "total": 1}, "running"),
        ({"status": "completed", "completed": 3, "total": 3}, "done"),
        ({"status": "processing", "total": 3, "waiting_for": Wait("turn", "")}, "waiting"),
    ],
)
def test_a_jobs_state_in_a_list(fields: dict[str, Any], expected: str) -> None:
    values: dict[str, Any] = {
        "id": "c", "job_id": "job_1", "tool": "consensus", "models": (), "completed": 0, "total": 1,
        "elapsed_seconds": 1.0, "started_at": "2026-11-18T12:00:00.000Z",
    }  # fmt: skip
    assert jobs._state(JobSummary(**(values | fields))) == expected

"""A job that was stopped with Ctrl-C or by closing the window: what is kept of it."""

from __future__ import annotations

from counsel.requests import SEVERAL
from counsel.results import JobStatus
from counsel.text import counted


class Stopped(Exception):
    """The person stopped the command, and knows what became of its job."""


def summary(job: JobStatus) -> str:
    """What is kept, and the command that shows it."""
    from counsel.cli import ids  # few jobs are stopped

    kept = _kept(job)
    return (
        f"Stopped. {kept}: counsel jobs {ids.short(job.job_id)}"
        if kept
        else "Stopped before an answer arrived."
    )


def _kept(job: JobStatus) -> str:
    if job.result:  # it finished before it could be stopped
        return "The answer is kept"
    states = [state for state in job.models_status or () if state.slot != "judge"]
    answers = sum(1 for state in states if state.text)
    partial = job.partial or (job.error and job.error.partial)
    if job.tool not in SEVERAL:
        return "The answer is kept" if answers else "The partial answer is kept" if partial else ""
    if not answers and not partial:
        return ""
    kept = f"{answers} of {counted(len(states), 'answer')} kept"
    return f"{kept}, and partial text" if partial else kept

"""What is kept of a job that was stopped with Ctrl-C or by closing the window."""

from __future__ import annotations

from counsel.requests import SEVERAL
from counsel.results import JobStatus
from counsel.text import counted


class Stopped(Exception):
    """The person stopped the command, and a message has said what is kept of its job."""


def summary(job: JobStatus) -> str:
    """The line that says what is kept, with the command that shows it."""
    from counsel.cli import ids  # few jobs are stopped

    outcome = _kept_text(job)
    return (
        f"Stopped. {outcome}: counsel jobs {ids.short(job.job_id)}"
        if outcome
        else "Stopped before an answer arrived."
    )


def _kept_text(job: JobStatus) -> str:
    if job.result:  # it finished before it could be stopped
        return "The answer is kept"
    states = [state for state in job.models_status or () if state.slot != "judge"]
    answers = sum(1 for state in states if state.text)
    partial = job.partial or (job.error and job.error.partial)
    if job.tool not in SEVERAL:
        return "The answer is kept" if answers else "The partial answer is kept" if partial else ""
    if not answers and not partial:
        return ""
    text = f"{answers} of {counted(len(states), 'answer')} kept"
    return f"{text}, and partial text" if partial else text

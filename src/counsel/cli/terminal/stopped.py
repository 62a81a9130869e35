"""Which answers remain when Ctrl-C or a closed window stops a job."""

from __future__ import annotations

from counsel.requests import SEVERAL
from counsel.results import JobStatus
from counsel.text import counted


class Stopped(Exception):
    """The person stopped the command, and a message has told them which answers are kept."""


def summary(job: JobStatus) -> str:
    """One line: which answers are kept, and the command that shows them."""
    from counsel.cli import ids  # few jobs are stopped

    outcome = _kept_text(job)
    return (
        f"Stopped. {outcome}: counsel jobs {ids.short(job.job_id)}"
        if outcome
        else "Stopped before an answer arrived."
    )


def _kept_text(job: JobStatus) -> str:
    if job.result:  # the job finished before it could be stopped
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

"""`--json` documents: flat, with `id` for the job and `conversation` for its conversation.

Keys of earlier releases that do not contradict this stay beside them (`job_id`, `continuation`, `metadata`, `progress`).
Times are UTC.
"""

from __future__ import annotations

from counsel.cli import wording
from counsel.errors import CounselError
from counsel.results import Accepted, AnswerMetadata, Cancellation, JobList, JobStatus, JobSummary, Result


def answer(result: Result) -> dict[str, object]:
    """Of `ask` and `consensus`."""
    return {"id": result.job_id, "conversation": result.continuation.id, **_about(result), **result.to_json()}


def _about(result: Result) -> dict[str, object]:
    metadata = result.metadata
    about: dict[str, object] = {}
    if isinstance(metadata, AnswerMetadata):
        about = {"model": metadata.model, "provider": metadata.provider}
    usage = metadata.usage
    known = usage.total > 0
    return {
        **about,
        "input_tokens": usage.input if known else None,
        "output_tokens": usage.output if known else None,
        "cost_usd": metadata.cost_usd if known or metadata.cost_usd else None,
    }


def accepted(job: Accepted) -> dict[str, object]:
    """Of `--background`: without the status line that agents read."""
    document: dict[str, object] = {
        "id": job.job_id,
        "conversation": job.continuation.id,
        "status": job.continuation.status or "processing",
        **job.to_json(),
    }
    del document["content"]
    return document


def jobs(newest: JobList) -> dict[str, object]:
    return {"jobs": [_job(each) for each in newest.jobs]}


def _job(job: JobSummary) -> dict[str, object]:
    shown = JobSummary.to_json(job)
    counts = {"completed": job.completed, "total": job.total}
    return {**shown, **job.outcome(), "id": job.job_id, "conversation": job.id, **counts}


def status(job: JobStatus) -> dict[str, object]:
    """A job with its answer, as `ask` and `consensus` print it, or with its error."""
    document = _job(job)
    if job.result is not None:
        shown = answer(job.result)
        if "status" in shown:  # of a consensus; the job's is another one
            shown["verdict"] = shown.pop("status")
        document = {**shown, **document}
    if job.error is not None:
        shown = error(job.error)
        if "status" in shown:  # of the vendor's HTTP answer
            shown["http_status"] = shown.pop("status")
        document = {**shown, **document}
    more = {
        name: value
        for name, value in job.content.items()
        if name in {"models_status", "partial", "final_summary", "history", "summary"}
    }
    return document | more


def cancelled(outcome: Cancellation, message: str) -> dict[str, object]:
    return {"id": outcome.job_id, **outcome.content, "message": message}


def error(failure: CounselError) -> dict[str, object]:
    document = failure.as_dict()
    conversation = document.pop("continuation_id", None)
    for name in ("error", "hint"):
        if name in document:
            document[name] = wording.in_cli_words(document[name])
    names = {"id": document.get("job_id"), "conversation": conversation}
    return document | {name: value for name, value in names.items() if value}

"""`--json` documents: flat, with `id` for the job and `conversation` for its conversation. Times are UTC.

They also have the names of the MCP tools' results that do not conflict (`job_id`, `continuation`, `metadata`, …).
"""

from __future__ import annotations

from counsel.cli.terminal import wording
from counsel.errors import CounselError
from counsel.results import Accepted, AnswerMetadata, Cancellation, JobList, JobStatus, JobSummary, Result


def answer(result: Result) -> dict[str, object]:
    """The document of `ask` and `consensus`."""
    return {
        "id": result.job_id,
        "conversation": result.continuation.id,
        **_usage_fields(result),
        **result.to_json(),
    }


def _usage_fields(result: Result) -> dict[str, object]:
    metadata = result.metadata
    origin: dict[str, object] = {}
    if isinstance(metadata, AnswerMetadata):
        origin = {"model": metadata.model, "provider": metadata.provider}
    usage = metadata.usage
    has_usage = usage.total > 0
    return {
        **origin,
        "input_tokens": usage.input if has_usage else None,
        "output_tokens": usage.output if has_usage else None,
        "cost_usd": metadata.cost_usd if has_usage or metadata.cost_usd else None,
    }


def accepted(job: Accepted) -> dict[str, object]:
    """The document of `--background`, without the status line that agents read."""
    document: dict[str, object] = {
        "id": job.job_id,
        "conversation": job.continuation.id,
        "status": job.continuation.status or "processing",
        **job.to_json(),
    }
    del document["content"]
    return document


def jobs(newest: JobList) -> dict[str, object]:
    return {"jobs": [_job(job) for job in newest.jobs]}


def _job(job: JobSummary) -> dict[str, object]:
    document = JobSummary.to_json(job)
    counts = {"completed": job.completed, "total": job.total}
    return {**document, **job.outcome(), "id": job.job_id, "conversation": job.id, **counts}


def status(job: JobStatus) -> dict[str, object]:
    """A job with its answer, as `ask` and `consensus` print it, or with its error."""
    document = _job(job)
    if job.result is not None:
        details = answer(job.result)
        if "status" in details:  # the consensus's status, not the job's
            details["verdict"] = details.pop("status")
        document = {**details, **document}
    if job.error is not None:
        details = error(job.error)
        if "status" in details:  # the status of the vendor's HTTP response
            details["http_status"] = details.pop("status")
        document = {**details, **document}
    extras = {
        name: value
        for name, value in job.content.items()
        if name in {"models_status", "partial", "final_summary", "history", "summary"}
    }
    return document | extras


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

"""Results and status of jobs, built from replies, stored records and live text."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from counsel.errors import BudgetExceeded, CounselError, UpstreamError
from counsel.job_events import Wait
from counsel.requests import SEVERAL
from counsel.results import (
    Accepted,
    AnswerMetadata,
    Cancellation,
    Continuation,
    HistoryMessage,
    JobStatus,
    JobSummary,
    ModelFailure,
    ModelState,
    Totals,
    usage_from_json,
    usage_to_json,
)
from counsel.types import Usage

if TYPE_CHECKING:  # `counsel conversations` and `usage` need none of it
    from counsel.engine.jobs.events import Live
    from counsel.engine.jobs.model import Job
    from counsel.engine.store.model import Reply
    from counsel.engine.store.records import JobDetail, JobOutcome, JobRecord, Message

ICONS = {
    "processing": "⏳ PROCESSING",
    "completed": "✅ COMPLETED",
    "failed": "❌ FAILED",
    "cancelled": "🛑 CANCELLED",
    "completed_with_errors": "⚠️ COMPLETED_WITH_ERRORS",
}


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def charge(error: CounselError, usage: Usage) -> None:
    """Add to a failure what its calls used: failed calls cost money, too."""
    error.fields |= {"usage": usage_to_json(usage), "cost_usd": usage.cost_usd}


def usage_of(error: CounselError) -> Usage | None:
    return usage_from_json(error.usage, error.cost_usd) if error.usage else None


def all_failed(failures: Sequence[ModelFailure]) -> CounselError:
    """The failure of a job whose models all failed, with what their calls used."""
    if len(failures) == 1:
        return failures[0].error
    if all(isinstance(failure.error, BudgetExceeded) for failure in failures):
        error = failures[0].error  # the numbers are the same for all models
    else:
        messages = "; ".join(failure.brief() for failure in failures)
        error = UpstreamError(
            f"{'Both' if len(failures) == 2 else f'All {len(failures)}'} models failed: {messages}.",
            hint="Fix the first failure, or ask other models.",
            failed=[failure.to_json() for failure in failures],
        )
    if used := [usage for failure in failures if (usage := usage_of(failure.error))]:
        charge(error, sum(used[1:], used[0]))
    return error


def metadata(reply: Reply) -> AnswerMetadata:
    return AnswerMetadata(
        model=reply.model,
        provider=reply.provider,
        usage=reply.usage,
        cost_usd=reply.usage.cost_usd,
        response_time_ms=reply.ms,
        finish_reason=reply.finish_reason,
        answered_by=reply.vendor_model if reply.vendor_model != reply.model else None,
        settings_left_out=reply.left_out,
        notices=reply.notices,
        session=reply.session,
        cached=reply.cached,
        tool_calls=reply.tools,
    )


def totals(replies: Iterable[Reply], failures: Iterable[CounselError] = ()) -> Totals:
    """What a job used and cost."""
    failed_calls = [used for error in failures if (used := usage_of(error))]
    return Totals.of([*(reply.usage for reply in replies), *failed_calls])


def status_line(
    *, status: str, tool: str, conversation: str, progress: str, created_at: float, models: str
) -> str:
    start = datetime.fromtimestamp(created_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{ICONS.get(status, status.upper())} | {tool.upper()} | {conversation} | {progress} | Started: {start} | {models}"


def accepted(job: Job, models: Iterable[str]) -> Accepted:
    """The immediate answer of a background call."""
    names = tuple(models)
    many = job.tool in SEVERAL
    line = status_line(
        status="processing",
        tool=job.tool,
        conversation=job.conversation,
        progress=f"0/{len(names)}" if many else "1/1",
        created_at=job.created,
        models=",".join(names),
    )
    return Accepted(
        content=line,
        continuation=Continuation(id=job.conversation, status="processing"),
        job_id=job.id,
        models=names if many else None,
    )


def accepted_elsewhere(job: JobRecord) -> Accepted:
    """The same, for a job that has ended or runs in another process."""
    continuation = Continuation(id=job.conversation, status=job.status)
    return Accepted(content=status_line_of(job), continuation=continuation, job_id=job.id)


def status_line_of(job: JobRecord) -> str:
    progress = f"{job.completed}/{job.total}" if job.tool in SEVERAL else "1/1"
    return status_line(
        status=job.status,
        tool=job.tool,
        conversation=job.conversation,
        progress=progress,
        created_at=job.created,
        models=",".join(job.models),
    )


_S = TypeVar("_S", bound=JobSummary)


def _from_record(kind: type[_S], job: JobRecord, waiting_for: Wait | None, **more: Any) -> _S:
    return kind(
        id=job.conversation,
        job_id=job.id,
        status=job.status,
        tool=job.tool,
        models=job.models,
        completed=job.completed,
        total=job.total,
        elapsed_seconds=round((job.finished or time.time()) - job.created, 1),
        started_at=iso(job.created),
        completed_at=iso(job.finished) if job.finished else None,
        title=job.title,
        summary=job.summary,
        waiting_for=waiting_for,
        **more,
    )


def summary(job: JobRecord, waiting_for: Wait | None, outcome: JobOutcome | None = None) -> JobSummary:
    """One line of the list of jobs."""
    return _from_record(JobSummary, job, waiting_for, **(_outcome_fields(outcome) if outcome else {}))


def _outcome_fields(outcome: JobOutcome) -> dict[str, Any]:
    return {
        "model": outcome.model,
        "provider": outcome.provider,
        "cost_usd": outcome.cost if outcome.tokens or outcome.cost else None,
        "cost_complete": outcome.cost_complete,
    }


def status(
    job: JobDetail,
    models: Sequence[ModelState],
    *,
    history: Iterable[Message] | None,
    waiting_for: Wait | None,
    summary_so_far: str | None,
) -> JobStatus:
    """Everything about one job: progress, each model's text so far, and the result once it has ended."""
    return _from_record(
        JobStatus,
        job,
        waiting_for,
        status_line=status_line_of(job),
        models_status=tuple(models) if models or job.is_open else None,
        result=job.result,
        error=job.error,
        final_summary=None if job.is_open else job.summary,
        history=None if history is None else tuple(map(message, history)),
        summary_so_far=summary_so_far,
    )


def states(live: Live) -> list[ModelState]:
    """The models of a job that runs here."""
    return [
        ModelState(
            slot=name,
            model=slot.model,
            status=slot.status,
            phase=slot.phase,
            text=slot.text(),
            waiting_for=slot.waits,
            error=slot.error,
        )
        for name, slot in live.slots.items()
    ]


def message(message: Message) -> HistoryMessage:
    return HistoryMessage(
        role=message.role,
        content=message.prompt or message.text,
        at=iso(message.at),
        images=len(message.images),
        details=message.details,
    )


def cancelled(job: JobRecord) -> Cancellation:
    now = time.time()
    return Cancellation(
        status="cancelled",
        message=f"Job {job.conversation} cancelled successfully",
        job_id=job.id,
        elapsed_seconds=round(now - job.created, 1),
        cancelled_at=iso(now),
    )


def member_cancelled(job: JobRecord, slot: str, label: str) -> Cancellation:
    now = time.time()
    return Cancellation(
        status=job.status,
        message=f"{label} of job {job.conversation} was stopped; the others continue",
        job_id=job.id,
        elapsed_seconds=round(now - job.created, 1),
        cancelled_at=iso(now),
        member=slot,
    )


_NOT_CANCELLED = {
    "processing": "has been asked to stop, but the process that runs it has not answered yet",
    "completed": "has already completed and cannot be cancelled",
    "completed_with_errors": "has already completed and cannot be cancelled",
    "failed": "has already failed and cannot be cancelled",
    "cancelled": "has already been cancelled",
}


def not_cancelled(job: JobRecord) -> Cancellation:
    message = f"Job {job.conversation} {_NOT_CANCELLED[job.status]}"
    return Cancellation(status=job.status, message=message, job_id=job.id)

"""Results as text, for people and for clients that read text: one function per type of result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from counsel import answer_notes
from counsel.errors import CounselError, ErrorDict
from counsel.job_events import Restarted
from counsel.results import (
    Accepted,
    AnswerDetails,
    Cancellation,
    ChatResult,
    ConsensusResult,
    HistoryMessage,
    JobList,
    JobStatus,
    JobSummary,
    ModelFailure,
    ModelState,
    Result,
    ReviewResult,
    fences,
    verdict_text,
)

_POSITIONS: Mapping[bool | None, str] = {True: "changed its position", False: "kept its position"}
EngineResult: TypeAlias = (
    ChatResult | ConsensusResult | ReviewResult | Accepted | JobStatus | JobList | Cancellation
)


def text(result: EngineResult) -> str:
    match result:
        case ChatResult() | ConsensusResult() | ReviewResult():
            return _answer(result)
        case Accepted():
            return _paragraphs(result.content, result.note, _footer(result))
        case JobStatus():
            return _status(result)
        case JobList():
            return "\n".join(map(_job_line, result.jobs)) or "No jobs yet."
        case Cancellation():
            return result.message or result.status


def failure(error: CounselError, *, partial: bool = True) -> str:
    """`CODE: what happened. What to do next.`, followed by the text received before the failure."""
    message = "\n".join((f"{error.code}: {error}", *map(_attempt, error.tried or ())))
    if not partial:
        return message
    partial_text = error.partial and f"Text received before the failure:\n\n{error.partial}"
    rows: list[ErrorDict] = error.fields.get("failed") or []
    members = (
        _section(str(row.get("model")), row["partial"], "partial: failed")
        for row in rows
        if row.get("partial")
    )
    return _paragraphs(message, partial_text, *members)


def _attempt(entry: ErrorDict) -> str:
    """One provider that `auto` tried without success."""
    models = ", ".join(entry.get("models", ()))
    return f"- {entry.get('provider')} ({models}): {entry.get('error')} {entry.get('hint')}".rstrip()


def full_text(status: JobStatus) -> str:
    """A finished job's text, as its call would have returned it; another job's status."""
    return _outcome(status) or _status(status)


def restarted(event: Restarted) -> str:
    """One line: whose text is discarded, why, and which model answers now."""
    model = event.model
    if event.reason == "interrupted":
        return f"Asking {model} again; its partial answer is discarded. {event.error}"
    if event.reason == "retried":
        part = "the end of its answer" if event.offset else "its partial answer"
        return f"{model} starts again; {part} is discarded. {event.error}"
    return f"{model} failed; its partial answer is discarded. Asking {event.next}. {event.error}"


def sections(state: ModelState) -> Iterator[str]:
    """One model of a job: its answer, or its partial text, marked as such."""
    ended = state.status in {"cancelled", "interrupted"}
    if state.text:
        is_answer = state.partial is not None or ended or state.status == "completed"
        yield _section(state.model, state.text, "" if is_answer else state.status)
    if state.partial:
        yield _section(state.model, state.partial, f"partial: {state.status}")
    elif ended and not state.text:
        yield f"## {state.model} ({state.status} before it answered)"


def first_answers_note(result: ConsensusResult) -> str | None:
    """How to read the first answers of models that refined theirs."""
    name = result.job_id or result.continuation.id
    if not (result.refined_count and name):
        return None
    return (
        f'First answers of models that refined theirs: check_status with continuation_id "{name}", '
        "full_history true."
    )


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────


def _answer(result: Result, *, partial: bool = True) -> str:
    notes = answer_notes.notes(result, was_live=False)
    if isinstance(result, ChatResult | ReviewResult):
        return _paragraphs(result.content, *notes, _footer(result))
    positions = {answer.model: _POSITIONS.get(answer.changed, "") for answer in result.refined}
    return _paragraphs(
        _counts(result),
        *map(_failure_line, result.failed),
        *notes,
        result.final_summary,
        *verdict_text.sections(result.verdict, result.vote),
        *(_section(model, answer, positions.get(model, "")) for model, answer in result.answers.items()),
        *(
            _section(failure.model, failure.error.partial, "partial: failed")
            for failure in result.failed
            if partial and failure.error.partial
        ),
        first_answers_note(result),
        _footer(result),
    )


def _counts(result: ConsensusResult) -> str:
    failures = sum(failure.phase == "initial" for failure in result.failed)
    return (
        f"{result.status.replace('_', ' ')}: {result.models_consulted} asked, {len(result.initial)} answered, "
        f"{result.refined_count} refined, {failures} failed."
    )


def _failure_line(failure: ModelFailure) -> str:
    return f"✗ {failure.model}: {failure.error.code}: {failure.error.message}"


def _footer(result: Result | Accepted) -> str:
    footer = answer_notes.footer(result, "continuation_id:")
    return f"— {footer}" if footer else ""


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────


def _status(status: JobStatus) -> str:
    summary = status.summary_so_far or status.summary or status.final_summary
    parts = _with_history(status) if status.history else _progress(status)
    return _paragraphs(_job_line(status), summary, *parts)


def _with_history(status: JobStatus) -> Iterator[str]:
    yield from map(_message, status.history or ())
    if isinstance(status.result, ConsensusResult):  # the conversation contains only the last answers
        for answer in status.result.refined:
            if answer.text and answer.first.text:
                yield _section(answer.model, answer.first.text, "first answer")


def _progress(status: JobStatus) -> Iterator[str | None]:
    states = status.models_status or ()
    yield _waiting(status)
    for state in states:
        if state.error:
            yield f"✗ {state.model}: {failure(state.error)}"
    for state in states:
        yield from sections(state)
    yield _outcome(status, partial=not any(state.partial for state in states))


def _outcome(status: JobStatus, *, partial: bool = True) -> str | None:
    """The job's result or error as text. `partial`: with the texts of failed models."""
    if status.error:
        return failure(status.error, partial=partial)
    return _answer(status.result, partial=partial) if status.result else None


def _job_line(job: JobSummary) -> str:
    is_list_entry = not isinstance(job, JobStatus) or job.models_status is None
    parts = (
        job.id,
        job.status,
        job.tool,
        f"{job.completed}/{job.total}",
        f"{job.elapsed_seconds} s",
        job.title,
        _waiting(job) if is_list_entry else None,
    )
    return " | ".join(part for part in parts if part)


def _waiting(job: JobSummary) -> str | None:
    return f"waits for {job.waiting_for.text}" if job.waiting_for else None


def _message(message: HistoryMessage) -> str:
    model = message.details.model if isinstance(message.details, AnswerDetails) else None
    return f"[{message.role}{f', {model}' if model else ''}]\n{message.content}"


def _section(model: str, text: str, mark: str = "") -> str:
    return f"## {model}{f' ({mark})' if mark else ''}\n\n{fences.closed(text)}"


def _paragraphs(*parts: str | None) -> str:
    return "\n\n".join(filter(None, parts))

"""What remains of a job that was cancelled, failed or given up: its finished answers, which have been paid for.

They become a turn of the conversation, marked as partial, so that the next question has them as context. Text of models
that did not finish is not an answer: the job shows it, the conversation does not.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from counsel.engine import results
from counsel.engine.consult import chat
from counsel.engine.consult.consensus import vote
from counsel.engine.consult.review import findings as review_findings
from counsel.engine.jobs import call_keys
from counsel.engine.jobs.model import Job
from counsel.engine.store.model import Reply
from counsel.engine.store.records import JobDetail, NewTurn, PartialTurn
from counsel.errors import Cancelled, CounselError, UpstreamError
from counsel.requests import SEVERAL
from counsel.results import AnswerDetails, Incomplete, ModelState, fences
from counsel.results.parts import labels

_WHAT = {"cancelled": "was cancelled", "failed": "failed"}


def turn(job: Job, status: str) -> PartialTurn:
    """Makes a turn from the finished answers; None if there are none."""
    expires = time.time() + job.caller.settings.conversation_days * 86400

    def make(replies: Mapping[str, Reply]) -> NewTurn | None:
        # a review's answers are its findings, not their checks
        answers = last_answers({key: replies[key] for key in replies if not key.startswith("check:")})
        if not answers.keys() - {call_keys.JUDGE}:
            return None
        text, details = _message(job, status, answers)
        details = replace(details, totals=results.totals(replies.values()))
        reply = answers[call_keys.ALONE] if job.tool not in SEVERAL else None
        return NewTurn(
            conversation=job.conversation,
            messages=chat.turn(job, text, details),
            provider=reply.provider if reply else None,
            model=reply.model if reply else None,
            expires=expires,
        )

    return make


def last_answers(replies: Mapping[str, Reply]) -> dict[str, Reply]:
    """Each model's last answer, by slot."""
    return {slot: reply for slot, (_, reply) in call_keys.last(replies).items()}


def _message(job: Job, status: str, answers: Mapping[str, Reply]) -> tuple[str, AnswerDetails]:
    names = dict(zip(map(str, range(len(job.task.models))), labels(job.task.models), strict=True))
    answered = [names[slot] for slot in names if slot in answers]
    missing = [names[slot] for slot in names if slot not in answers]
    if job.tool not in SEVERAL:
        reply = answers[call_keys.ALONE]
        return reply.text, AnswerDetails(answer=results.metadata(reply), incomplete=Incomplete(status))
    head = (
        f"⚠ This {job.tool} {_WHAT.get(status, status)}: {len(answered)} of {len(names)} models had answered."
    )
    note = f" No answer from {', '.join(missing)}." if missing else ""
    texts = {slot: _readable(job, reply.text) for slot, reply in answers.items()}
    sections = [f"## {names[slot]}\n\n{fences.closed(texts[slot])}" for slot in names if slot in answers]
    incomplete = Incomplete(status, tuple(answered), tuple(missing))
    return "\n\n".join([head + note, *sections]), AnswerDetails(incomplete=incomplete)


def _readable(job: Job, text: str) -> str:
    """Votes and findings in words: models answer them as JSON."""
    if job.tool == "review":
        return review_findings.readable(text)
    return vote.readable(text) if job.task.choices else text


def states(job: JobDetail, models: list[ModelState], replies: Mapping[str, Reply]) -> list[ModelState]:
    """Each model of a job that did not complete: `text` is a finished answer, `partial` an unfinished one."""
    answers = last_answers(replies)
    if not answers and all(state.status == "waiting" for state in models):
        return []  # no model was asked
    partial_texts = _partial_texts(job.error, models)
    return [_state(job, state, answers.get(state.slot), partial_texts.get(state.model)) for state in models]


def with_first(models: list[ModelState], replies: Mapping[str, Reply]) -> list[ModelState]:
    """Adds the first answers of models that refine theirs: events have only the text of the current round."""
    return [
        replace(state, first=reply.shown)
        if state.phase == "refined" and (reply := replies.get(f"initial:{state.slot}"))
        else state
        for state in models
    ]


def _partial_texts(error: CounselError | None, models: list[ModelState]) -> dict[str, str | None]:
    """By model: the partial text in the job's error."""
    if len(models) == 1:
        return {models[0].model: error.partial if error else None}
    failed = error.failed if isinstance(error, UpstreamError) else None
    return {entry["model"]: entry.get("partial") for entry in failed or ()}


def _state(job: JobDetail, state: ModelState, answer: Reply | None, partial_text: str | None) -> ModelState:
    if state.status == "completed" or (answer and state.status == "waiting"):
        return replace(state, status="completed", text=answer.shown if answer else state.text)
    partial = state.text or partial_text
    result = replace(state, text=answer.text if answer else "", partial=partial)
    if state.error and not isinstance(state.error, Cancelled):
        return result
    was_cancelled = job.status == "cancelled" or state.slot in job.cancelled_members
    return replace(result, error=None, status="cancelled" if was_cancelled else "interrupted")

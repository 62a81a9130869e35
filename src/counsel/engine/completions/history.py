"""The turns that come before a completion's own: of the response that it continues, or of one of our conversations."""

from __future__ import annotations

from dataclasses import replace

from counsel.answer_parts import AnswerPart
from counsel.engine.context import conversation
from counsel.engine.jobs.model import Job
from counsel.engine.store.protocol import Store
from counsel.errors import Conflict, NotFound
from counsel.requests import CompletionRequest
from counsel.results import ChatResult
from counsel.types import Thought, ToolCall, Turn

MOST_STEPS = 1_000  # responses that follow each other


async def earlier(previous: str | None, store: Store) -> tuple[Turn, ...]:
    """All turns up to this response. Raises `NotFound` if one of them is not stored, or not any more."""
    turns: list[Turn] = []
    for _ in range(MOST_STEPS):
        if previous is None:
            return tuple(turns)
        request, answer = await _stored(previous, store)
        turns = [*request.turns, answer, *turns]
        previous = request.previous
    raise Conflict(f"More than {MOST_STEPS:,} responses follow each other.", hint="Start a new one.")


async def _stored(job_id: str, store: Store) -> tuple[CompletionRequest, Turn]:
    name = f"resp_{job_id.partition('_')[2]}"  # as its client knows it
    job, task = await store.job(job_id), await store.task(job_id)
    if job is None or task is None or task.completion is None:
        raise NotFound(
            f"Previous response with id '{name}' not found.",
            hint="It may be mistyped, older than COUNSEL_JOB_DAYS, or was sent with `store: false`.",
            param="previous_response_id",
            api_code="previous_response_not_found",
        )
    if job.is_open:
        raise Conflict(f"Response '{name}' has not ended yet.", hint="Wait for it.")
    if not isinstance(job.result, ChatResult):
        raise Conflict(f"Response '{name}' has no answer.", hint="Continue from an earlier one.")
    return task.completion, turn(job.result.content, job.result.parts)


def turn(text: str, parts: tuple[AnswerPart, ...]) -> Turn:
    """An answer as the turn that is sent back."""
    return Turn(
        "assistant",
        text,
        tool_calls=tuple(
            ToolCall(part["id"], part["name"], part["arguments"])
            for part in parts
            if part["type"] == "tool_call"
        ),
        thoughts=tuple(
            Thought(part["wire"], part["item"])
            for part in parts
            if part["type"] == "thinking" and "item" in part
        ),
    )


async def with_earlier(request: CompletionRequest, job: Job, store: Store) -> CompletionRequest:
    """The request with everything that comes before it. The client's own body does not have that: it is not passed on."""
    before = await earlier(request.previous, store)
    if request.continuation_id is not None:
        history = await conversation.load(store, job)
        before = (*conversation.turns(history, None), *before)
    if not before:
        return request
    return replace(request, turns=(*before, *request.turns), exact=replace(request.exact, native=None))

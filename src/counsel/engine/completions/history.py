"""The turns before a completion's own: those of the response that it continues, or of one of our conversations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from counsel import json_reader as read
from counsel.answer_parts import AnswerPart
from counsel.engine.context import conversation
from counsel.engine.jobs.model import Job
from counsel.engine.store.protocol import Store
from counsel.errors import Conflict, InvalidArgument, NotFound
from counsel.models.wires.openai_shared import flat_name
from counsel.requests import CompletionRequest
from counsel.results import ChatResult
from counsel.types import Thought, ToolCall, ToolResult, Turn

MOST_STEPS = 1_000  # responses in one chain


async def earlier(previous: str | None, store: Store) -> tuple[Turn, ...]:
    """All turns up to and including this response. Raises `NotFound` if one of them is not, or no longer, stored."""
    turns: list[Turn] = []
    for _ in range(MOST_STEPS):
        if previous is None:
            break
        request, answer = await _request_and_answer(previous, store)
        turns = [*request.turns, answer, *turns]
        previous = request.previous
    if previous is None:
        return tuple(turns)
    raise Conflict(
        f"This chain has more than {MOST_STEPS:,} responses.",
        hint="Start a new one, without previous_response_id.",
    )


async def _request_and_answer(job_id: str, store: Store) -> tuple[CompletionRequest, Turn]:
    name = f"resp_{job_id.partition('_')[2]}"  # the id that the client knows
    job, task = await store.job(job_id), await store.task(job_id)
    if job is None or task is None or task.completion is None:
        raise NotFound(
            f"Previous response with id '{name}' not found.",
            hint="It may be mistyped, older than COUNSEL_JOB_DAYS, or sent with `store: false`.",
            param="previous_response_id",
            api_code="previous_response_not_found",
        )
    if job.is_open:
        raise Conflict(f"Response '{name}' has not ended yet.", hint="Wait until it ends.")
    if not isinstance(job.result, ChatResult):
        raise Conflict(f"Response '{name}' has no answer.", hint="Continue from an earlier one.")
    return task.completion, turn(job.result.content, job.result.parts)


def turn(text: str, parts: tuple[AnswerPart, ...]) -> Turn:
    """An answer as a turn, to be sent back to a model."""
    return Turn(
        "assistant",
        text,
        tool_calls=tuple(call for part in parts if (call := _call(part))),
        thoughts=tuple(
            Thought(part["wire"], part["item"])
            for part in parts
            if part["type"] == "thinking" and "item" in part
        ),
    )


def _call(part: AnswerPart) -> ToolCall | None:
    """A call that the client answers; also one of a free-text tool, which only clients of the vendor's API get."""
    if part["type"] == "tool_call":
        return ToolCall(part["id"], part["name"], part["arguments"])
    if part["type"] != "vendor" or part["item"].get("type") != "custom_tool_call":
        return None
    item, name = part["item"], read.text(part["item"], "name")
    if namespace := read.text(item, "namespace"):
        name = flat_name(namespace, name)
    return ToolCall(read.text(item, "call_id"), name, {"input": read.text(item, "input")})


def with_tool_names(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """The turns with the tool's name in each result, which clients of Responses do not repeat.

    Raises `InvalidArgument` for a result without a call, and for a call that does not have exactly one result: every
    vendor refuses these.
    """
    names = {call.id: call.name for turn in turns for call in turn.tool_calls}
    result_ids: set[str] = set()
    for call in (result.call_id for turn in turns for result in turn.tool_results):
        if call not in names:
            raise _unmatched(f"No tool call found for function call output with call_id {call[:100]}.")
        if call in result_ids:
            raise _unmatched(f"Two outputs have the call_id {call[:100]}.")
        result_ids.add(call)
    if missing := names.keys() - result_ids:
        raise _unmatched(f"No tool output found for function call {min(missing)[:100]}.")
    return tuple(
        replace(turn, tool_results=_with_names(turn, names)) if turn.tool_results else turn for turn in turns
    )


def _with_names(turn: Turn, names: Mapping[str, str]) -> tuple[ToolResult, ...]:
    return tuple(replace(result, name=names[result.call_id]) for result in turn.tool_results)


def _unmatched(message: str) -> InvalidArgument:
    hint = "Send one output for each call of the response that you continue."
    return InvalidArgument(message, hint=hint, param="input")


async def with_earlier(request: CompletionRequest, job: Job, store: Store) -> CompletionRequest:
    """The request with all turns before it. The client's own body lacks these, so it is not passed on."""
    turns = request.turns
    if request.previous is not None:
        turns = with_tool_names((*await earlier(request.previous, store), *turns))
    if request.continuation_id is not None:
        history = await conversation.load(store, job)
        turns = (*conversation.turns(history, None), *turns)
    if len(turns) == len(request.turns):
        return request
    return replace(request, turns=turns, exact=replace(request.exact, native=None))

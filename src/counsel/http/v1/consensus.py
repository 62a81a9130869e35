"""`consensus:gpt-5,opus` and `consensus:@panel` as a model: progress as reasoning, then the answers as text."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence

from counsel.engine.consult import prompts
from counsel.engine.consult.consensus import anonymous
from counsel.http.v1.api import ApiAnswer, ApiRequest
from counsel.http.v1.errors import BadRequest
from counsel.job_events import JobEvent, ModelFailed, ModelFinished, ModelStarted, PhaseStarted
from counsel.models import panels
from counsel.models.catalog import Catalog
from counsel.requests import ConsensusRequest
from counsel.results import ConsensusResult
from counsel.settings import Settings
from counsel.types import Image

PREFIX = "consensus"
_ROUNDS = {
    "initial": "The first answers",
    "refined": "Refined after reading the others",
    "verdict": "The verdict",
}


def is_named(model: str) -> bool:
    return model == PREFIX or model.startswith(f"{PREFIX}:")


def request_of(request: ApiRequest, settings: Settings) -> ConsensusRequest:
    """Convert the request. Raises `BadRequest` for anything that a consensus cannot do."""
    completion = request.completion
    names = [name.strip() for name in request.model[len(PREFIX) + 1 :].split(",") if name.strip()]
    for name, is_present in (
        ("tools", bool(completion.tools or completion.untranslated)),
        (
            "tool calls and their results",
            any(turn.tool_calls or turn.tool_results for turn in completion.turns),
        ),
        ("a response format", completion.schema is not None or completion.exact.json_object),
        ("background", request.background),
        ("previous_response_id", completion.previous is not None),
    ):
        if is_present:
            raise BadRequest(f"A consensus does not take {name}. counsel's own API has more.", "model")
    *earlier, last = completion.turns
    if last.role != "user":
        raise BadRequest("The last message to a consensus must be the user's.", "messages", "invalid_value")
    messages: list[tuple[str, str]] = [(turn.role, turn.text) for turn in earlier if turn.text]
    if any(role == "assistant" for role, _ in messages):
        messages = _without_names(messages, names, settings)
    return ConsensusRequest(
        prompt=(prompts.earlier(messages) if messages else "") + last.text,
        models=tuple(names) or ("auto",),
        judge="default",
        images=tuple(_data_urls(image for turn in completion.turns for image in turn.images)),
        system=completion.system,
        temperature=None if completion.temperature is None else min(completion.temperature, 1.0),
        reasoning_effort=completion.reasoning_effort,
        verbosity=completion.verbosity,
        use_websearch=completion.web_search,
        continuation_id=completion.continuation_id,
        check_models=True,
    )


def _without_names(
    messages: list[tuple[str, str]], names: Sequence[str], settings: Settings
) -> list[tuple[str, str]]:
    """Remove the members' names from earlier answers, which clients send back."""
    all_names = {*names, *map(panels.name_of, panels.requested(names or ("auto",), settings))}
    all_names |= {*Catalog.load(settings).names()}
    return [
        (role, anonymous.without_authors(text, all_names) if role == "assistant" else text)
        for role, text in messages
    ]


def _data_urls(images: Iterator[Image]) -> Iterator[str]:
    for image in images:
        if image.url:
            raise BadRequest("A consensus does not take images by their URLs: send the image itself.")
        yield f"data:{image.media_type};base64,{b64encode(image.data).decode()}"


def ignored(request: ApiRequest) -> tuple[str, ...]:
    exact = request.completion.exact
    values = {
        "max_tokens": request.completion.max_output,
        "stop": exact.stop or None,
        "top_p": exact.top_p,
        "top_k": exact.top_k,
        "thinking": exact.thinking_budget,
        "frequency_penalty": exact.frequency_penalty,
        "presence_penalty": exact.presence_penalty,
    }
    names = (name for name, value in values.items() if value is not None)
    return tuple(dict.fromkeys((*request.ignored, *request.completion.offered, *names)))


def answer_of(request: ApiRequest, result: ConsensusResult) -> ApiAnswer:
    total = result.metadata
    counsel: dict[str, object] = {
        "job_id": result.job_id,
        "models": list(result.answers),
        "status": result.status,
    }
    if total.cost_usd is not None:
        counsel["cost_usd"] = total.cost_usd
    if request.ignored:
        counsel["ignored"] = list(request.ignored)
    return ApiAnswer(
        parts=({"type": "text", "text": result.content},),
        usage=total.usage,
        reason="stop",
        model=request.model,
        ignored=request.ignored,
        counsel=counsel,
    )


def progress(event: JobEvent) -> str:
    """A line for people who wait, or "" for events that need none."""
    if isinstance(event, PhaseStarted):
        return f"{_ROUNDS.get(event.phase, event.phase)}:\n"
    if isinstance(event, ModelStarted):
        return f"- {event.model} is asked.\n"
    if isinstance(event, ModelFinished):
        return f"- {event.model} has answered after {event.ms / 1000:.1f} s.\n"
    if isinstance(event, ModelFailed):
        return f"- {event.model} failed: {event.error.message}\n"
    return ""

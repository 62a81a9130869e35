"""`consensus:gpt-5,opus` and `consensus:@panel` as a model: what happens as reasoning, then the answers as text."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence

from counsel.engine.consult import prompts
from counsel.engine.consult.consensus import anonymous
from counsel.http.v1.api import Asked, Ended
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


def request_of(asked: Asked, settings: Settings) -> ConsensusRequest:
    """Raises `BadRequest` for what a consensus cannot do."""
    request = asked.request
    names = [name.strip() for name in asked.model[len(PREFIX) + 1 :].split(",") if name.strip()]
    for name, wanted in (
        ("tools", bool(request.tools or request.untranslated)),
        ("tool calls and their results", any(turn.tool_calls or turn.tool_results for turn in request.turns)),
        ("a response format", request.schema is not None or request.exact.json_object),
        ("background", asked.background),
        ("previous_response_id", request.previous is not None),
    ):
        if wanted:
            raise BadRequest(f"A consensus does not take {name}. counsel's own API has more.", "model")
    *earlier, last = request.turns
    if last.role != "user":
        raise BadRequest("The last message to a consensus must be the user's.", "messages", "invalid_value")
    spoken: list[tuple[str, str]] = [(turn.role, turn.text) for turn in earlier if turn.text]
    if any(role == "assistant" for role, _ in spoken):
        spoken = _without_names(spoken, names, settings)
    return ConsensusRequest(
        prompt=(prompts.earlier(spoken) if spoken else "") + last.text,
        models=tuple(names) or ("auto",),
        judge="default",
        images=tuple(_data_urls(image for turn in request.turns for image in turn.images)),
        system=request.system,
        temperature=None if request.temperature is None else min(request.temperature, 1.0),
        reasoning_effort=request.reasoning_effort,
        verbosity=request.verbosity,
        use_websearch=request.web_search,
        continuation_id=request.continuation_id,
        check_models=True,
    )


def _without_names(
    spoken: list[tuple[str, str]], names: Sequence[str], settings: Settings
) -> list[tuple[str, str]]:
    """Clients send the earlier answers back, which have the members' names."""
    known = {*names, *map(panels.name_of, panels.requested(names or ("auto",), settings))}
    known |= {*Catalog.load(settings).names()}
    return [(role, anonymous.returned(text, known) if role == "assistant" else text) for role, text in spoken]


def _data_urls(images: Iterator[Image]) -> Iterator[str]:
    for image in images:
        if image.url:
            raise BadRequest("A consensus takes no image by its address: send the image itself.")
        yield f"data:{image.media_type};base64,{b64encode(image.data).decode()}"


def ignored(asked: Asked) -> tuple[str, ...]:
    exact = asked.request.exact
    wanted = {
        "max_tokens": asked.request.max_output,
        "stop": exact.stop or None,
        "top_p": exact.top_p,
        "top_k": exact.top_k,
        "thinking": exact.thinking_budget,
        "frequency_penalty": exact.frequency_penalty,
        "presence_penalty": exact.presence_penalty,
    }
    names = (name for name, value in wanted.items() if value is not None)
    return tuple(dict.fromkeys((*asked.ignored, *asked.request.offered, *names)))


def ended(asked: Asked, result: ConsensusResult) -> Ended:
    total = result.metadata
    about: dict[str, object] = {
        "job_id": result.job_id,
        "models": list(result.answers),
        "status": result.status,
    }
    if total.cost_usd is not None:
        about["cost_usd"] = total.cost_usd
    if asked.ignored:
        about["ignored"] = list(asked.ignored)
    return Ended(
        parts=({"type": "text", "text": result.content},),
        usage=total.usage,
        reason="stop",
        model=asked.model,
        ignored=asked.ignored,
        about=about,
    )


def progress(event: JobEvent) -> str:
    """A line for the people who wait; "" for events that are not worth one."""
    if isinstance(event, PhaseStarted):
        return f"{_ROUNDS.get(event.phase, event.phase)}:\n"
    if isinstance(event, ModelStarted):
        return f"- {event.model} is asked.\n"
    if isinstance(event, ModelFinished):
        return f"- {event.model} has answered after {event.ms / 1000:.1f} s.\n"
    if isinstance(event, ModelFailed):
        return f"- {event.model} failed: {event.error.message}\n"
    return ""

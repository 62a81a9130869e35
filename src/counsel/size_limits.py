"""Limits on the size of a request. A request that is too large is refused before any of it is stored or sent."""

from __future__ import annotations

from collections.abc import Iterable

from counsel.errors import InvalidArgument
from counsel.requests import ChatRequest, ConsensusRequest, Request, ReviewRequest
from counsel.settings import Settings

HISTORY = 4  # a conversation that continues may contain this many times the largest prompt


def check(request: Request, settings: Settings) -> None:
    """Raise `InvalidArgument` with the size and the limit if a text of the request is too large."""
    limit = settings.max_prompt_bytes
    prompts = {"prompt": request.prompt}
    if isinstance(request, ConsensusRequest) and request.cross_feedback_prompt:
        prompts["cross_feedback_prompt"] = request.cross_feedback_prompt
    if isinstance(request, ReviewRequest):
        prompts["diff"] = request.diff
    if request.system:
        prompts["system_prompt"] = request.system
    if isinstance(request, ChatRequest) and request.schema:
        prompts["schema"] = repr(request.schema)
    for name, text in prompts.items():
        if (size := count(text, limit)) > limit:
            raise too_large(f"The {name.replace('_', ' ')}", size, limit)


def count(text: str, limit: int = 0) -> int:
    """The text's size in bytes of UTF-8. A text with more characters than the limit is not encoded."""
    if text.isascii() or (limit and len(text) > limit):
        return len(text)
    return len(text.encode("utf-8", "surrogatepass"))


def check_history(size: int, settings: Settings) -> None:
    limit = HISTORY * settings.max_prompt_bytes
    if size > limit:
        raise InvalidArgument(
            f"This conversation has {size:,} characters; the limit is {limit:,}.",
            hint="Start a new one (leave continuation_id out), or raise COUNSEL_MAX_PROMPT_BYTES.",
            size=size,
            limit=limit,
        )


def check_answers(answers: Iterable[str], settings: Settings) -> None:
    """Check the other models' answers before a second round, in which each model gets all of them, up to 20."""
    limit = settings.max_prompt_bytes
    if (size := sum(map(len, answers))) > limit:
        raise InvalidArgument(
            f"The other models' answers have {size:,} characters in total; the limit for cross feedback is {limit:,}.",
            hint="Ask for shorter answers, or leave cross feedback out.",
            size=size,
            limit=limit,
        )


def too_large(subject: str, size: int | None, limit: int) -> InvalidArgument:
    """The refusal. `size`: None if it is unknown, but larger than the limit."""
    size_text = f"more than {limit:,}" if size is None else f"{size:,}"
    return InvalidArgument(
        f"{subject} has {size_text} bytes; the limit is {limit:,}.",
        hint="Nothing was sent or stored. Send less, name files instead, or raise COUNSEL_MAX_PROMPT_BYTES.",
        size=size,
        limit=limit,
    )

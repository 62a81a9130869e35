"""Limits on the size of a request. One that is too large is refused before anything of it is stored or sent."""

from __future__ import annotations

from collections.abc import Iterable

from counsel.errors import InvalidArgument
from counsel.requests import ChatRequest, ConsensusRequest, Request, ReviewRequest
from counsel.settings import Settings

HISTORY = 4  # times the largest prompt: the most that a conversation may contain when it continues


def check(request: Request, settings: Settings) -> None:
    """Raises `InvalidArgument` with the size and the limit."""
    most = settings.max_prompt_bytes
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
        if (size := count(text, most)) > most:
            raise too_large(f"The {name.replace('_', ' ')}", size, most)


def count(text: str, most: int = 0) -> int:
    """Bytes in UTF-8. A text with too many characters is not encoded to find out."""
    if text.isascii() or (most and len(text) > most):
        return len(text)
    return len(text.encode("utf-8", "surrogatepass"))


def check_history(size: int, settings: Settings) -> None:
    most = HISTORY * settings.max_prompt_bytes
    if size > most:
        raise InvalidArgument(
            f"This conversation has {size:,} characters; the limit is {most:,}.",
            hint="Start a new one (leave continuation_id out), or raise COUNSEL_MAX_PROMPT_BYTES.",
            size=size,
            limit=most,
        )


def check_answers(answers: Iterable[str], settings: Settings) -> None:
    """The other models' answers in a second round: each model gets all of them, up to 20 at once."""
    most = settings.max_prompt_bytes
    if (size := sum(map(len, answers))) > most:
        raise InvalidArgument(
            f"The other models' answers have {size:,} characters in total; the limit for cross feedback is {most:,}.",
            hint="Ask for shorter answers, or leave cross feedback out.",
            size=size,
            limit=most,
        )


def too_large(what: str, size: int | None, most: int) -> InvalidArgument:
    """`size`: None when it is larger than the limit and unknown."""
    shown = f"more than {most:,}" if size is None else f"{size:,}"
    return InvalidArgument(
        f"{what} has {shown} bytes; the limit is {most:,}.",
        hint="Nothing was sent or stored. Send less, name files instead, or raise COUNSEL_MAX_PROMPT_BYTES.",
        size=size,
        limit=most,
    )

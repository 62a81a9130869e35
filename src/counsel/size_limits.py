"""How large a question may be. It is refused before anything of it is written down or sent, wherever it is first seen."""

from __future__ import annotations

from collections.abc import Iterable

from counsel.errors import InvalidArgument
from counsel.requests import ConsensusRequest, Request
from counsel.settings import Settings

HISTORY = 4  # times the largest prompt: all that a conversation may hold when it goes on


def check(request: Request, settings: Settings) -> None:
    """Raises `InvalidArgument` with both numbers."""
    most = settings.max_prompt_bytes
    prompts = {"prompt": request.prompt}
    if isinstance(request, ConsensusRequest) and request.cross_feedback_prompt:
        prompts["cross_feedback_prompt"] = request.cross_feedback_prompt
    for name, text in prompts.items():
        if (size := count(text, most)) > most:
            raise too_large(f"The {name.replace('_', ' ')}", size, most)


def count(text: str, most: int = 0) -> int:
    """Bytes in UTF-8. A text whose characters alone are too many is not encoded to find out."""
    if text.isascii() or (most and len(text) > most):
        return len(text)
    return len(text.encode("utf-8", "surrogatepass"))


def check_history(held: int, settings: Settings) -> None:
    most = HISTORY * settings.max_prompt_bytes
    if held > most:
        raise InvalidArgument(
            f"This conversation holds {held:,} characters; it can go on up to {most:,}.",
            hint="Start a new one (leave continuation_id out), or raise COUNSEL_MAX_PROMPT_BYTES.",
            size=held,
            limit=most,
        )


def check_answers(answers: Iterable[str], settings: Settings) -> None:
    """What a model reads of the others in a second round: each of them gets all of it, up to 20 times at once."""
    most = settings.max_prompt_bytes
    if (held := sum(map(len, answers))) > most:
        raise InvalidArgument(
            f"The other models' answers have {held:,} characters together; at most {most:,} are read by another.",
            hint="Ask for shorter answers, or leave cross feedback out.",
            size=held,
            limit=most,
        )


def too_large(what: str, size: int | None, most: int) -> InvalidArgument:
    """`size`: None when there is more, and nobody knows how much."""
    held = f"more than {most:,}" if size is None else f"{size:,}"
    return InvalidArgument(
        f"{what} has {held} bytes; at most {most:,} are taken.",
        hint="Nothing was sent or kept. Send less, name files instead, or raise COUNSEL_MAX_PROMPT_BYTES.",
        size=size,
        limit=most,
    )

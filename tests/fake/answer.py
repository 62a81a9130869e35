"""An answer in a neutral format, which the vendors' modules convert to plain bodies and streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .behaviour import Behaviour, without_marker


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request in any vendor's format, parsed."""

    vendor: str
    model: str
    stream: bool
    text: str = ""  # the last text of the last user message
    tool_rounds: int = 0  # rounds of tool results since that text
    images: int = 0
    wants_usage: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    id: str
    model: str
    text: list[str]
    thinking: list[str]
    calls: list[dict[str, Any]]
    sources: list[dict[str, str]]
    usage: dict[str, int]
    finish: str
    wants_usage: bool = True
    reasoning_field: str = "reasoning_content"

    @property
    def whole(self) -> str:
        return "".join(self.text)


@dataclass(frozen=True, slots=True)
class Frame:
    """One SSE event. Positions count those with `delta`."""

    data: Any
    event: str = ""
    delta: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    kind: str
    status: int
    model: str
    key: str = field(repr=False)
    message: str | None = None
    retry_after: float | str | None = None
    shape: str | None = None


STATUS = {
    "bad_request": 400,
    "context": 400,
    "auth": 401,
    "quota": 429,
    "forbidden": 403,
    "not_found": 404,
    "rate_limit": 429,
    "server": 500,
    "unavailable": 503,
    "overloaded": 529,
}
KIND = {
    400: "bad_request",
    401: "auth",
    403: "forbidden",
    404: "not_found",
    429: "rate_limit",
    500: "server",
    502: "server",
    503: "unavailable",
    529: "overloaded",
}


def answer(question: ParsedRequest, behaviour: Behaviour, number: int) -> Answer:
    calls = _calls(question, behaviour, number)
    text = "" if calls and behaviour.text is None else _text(question, behaviour)
    return Answer(
        id=f"fake_{number}",
        model=question.model,
        text=_pieces(text, behaviour),
        thinking=_pieces(behaviour.thinking or "", behaviour),
        calls=calls,
        sources=[dict(source) for source in behaviour.sources],
        usage={
            "input": len(question.text.split()),
            "output": len(text.split()) + 2 * len(calls),  # vendors count the arguments of calls, too
            "reasoning": 0,
            "cache_read": 0,
            "cache_write": 0,
            **behaviour.usage,
        },
        finish=behaviour.finish or ("tool_calls" if calls else "stop"),
        wants_usage=question.wants_usage,
        reasoning_field=behaviour.reasoning_field,
    )


def failure(question: ParsedRequest, behaviour: Behaviour, key: str) -> Failure:
    kind = behaviour.error or KIND.get(behaviour.status or 500, "server")
    return Failure(
        kind=kind,
        status=behaviour.status or STATUS[kind],
        model=question.model,
        key=key,
        message=behaviour.message,
        retry_after=behaviour.retry_after,
        shape=behaviour.error_shape,
    )


def _calls(question: ParsedRequest, behaviour: Behaviour, number: int) -> list[dict[str, Any]]:
    """The next round: a request with N rounds of tool results gets round N, and the text after the last."""
    rounds = behaviour.rounds
    if question.tool_rounds >= len(rounds):
        return []
    return [
        {"id": f"call_{number}_{index}", "arguments": {}, **call}
        for index, call in enumerate(rounds[question.tool_rounds])
    ]


def _text(question: ParsedRequest, behaviour: Behaviour) -> str:
    if behaviour.size is not None:
        line = "All work and no play makes a dull model. "
        return (line * (behaviour.size // len(line) + 1))[: behaviour.size]
    if behaviour.text is not None:
        return behaviour.text
    return f"{question.model} says: {without_marker(question.text)}"


def _pieces(text: str, behaviour: Behaviour) -> list[str]:
    if not text:
        return []
    size = behaviour.delta_size or -(-len(text) // max(1, behaviour.deltas))
    return [text[start : start + size] for start in range(0, len(text), size)]

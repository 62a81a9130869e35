"""How the fake answers a request: one flat record, the same in Python, in control requests and in prompt markers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

# Positions inside an answer: before the status line, before the first event, after N deltas.
BEFORE_HEADERS = -1
BEFORE_FIRST_EVENT = 0

MARKER = "[[fake "


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How one request is answered. The default is an immediate echo in three deltas.

    A *position* (`gate_after`, `hang_after`, `cut_after`, `error_after`) counts deltas already sent: -1 is before
    the response's headers, 0 before its first event.
    """

    # content
    text: str | None = None  # None: "<model> says: <last user text>"
    size: int | None = None  # bytes of a generated answer instead
    thinking: str | None = None
    tool_calls: Sequence[Any] = ()  # calls, or rounds (lists) of calls: {"name", "arguments", "id"?}
    sources: Sequence[Mapping[str, str]] = ()  # web-search citations: {"url", "title"}
    usage: Mapping[str, int] = field(default_factory=dict)  # input output reasoning cache_read cache_write
    finish: str | None = None  # stop, length, tool_calls, filtered, paused (Anthropic); None: automatic
    # pieces
    deltas: int = 3
    delta_size: int | None = None  # characters per delta, instead of `deltas`
    split: int | Sequence[int] | None = None  # bytes per write, cycled: cuts through events and characters
    newline: str = "\n"
    comments: bool = False  # SSE comments and pings between the events
    # time
    latency: float = 0.0
    chunk_delay: float = 0.0
    gate: str | None = None  # wait at `gate_after` until `open_gate(name)`
    gate_after: int = BEFORE_HEADERS
    # failures
    status: int | None = None  # this status with the vendor's own error body
    error: str | None = (
        None  # auth forbidden not_found rate_limit quota context server unavailable overloaded bad_request
    )
    message: str | None = None  # the error's message, instead of the vendor's
    retry_after: float | str | None = None  # seconds, or an HTTP date verbatim
    error_shape: str | None = None  # xai, mistral, openrouter: their bodies on the OpenAI Chat path
    error_after: int | None = None  # an error event in the stream
    hang_after: int | None = None
    cut_after: int | None = None
    cut: str = "abort"  # abort: the connection breaks; end: a proper HTTP end without the vendor's last event
    raw: str | None = None  # the whole stream verbatim, instead of an answer
    body: Any = None  # this JSON verbatim, with `status` (default 200), even if a stream was requested
    malformed: str | None = None  # body: not JSON; event: one event is not JSON; html: a proxy's page
    reasoning_field: str = "reasoning_content"  # OpenAI Chat dialects: also `reasoning`, or `mistral`

    @property
    def rounds(self) -> list[list[dict[str, Any]]]:
        calls = list(self.tool_calls)
        if calls and isinstance(calls[0], Mapping):
            calls = [calls]
        return [[dict(call) for call in round_] for round_ in calls]

    def write_sizes(self) -> Iterator[int] | None:
        if self.split is None:
            return None
        return _cycle([self.split] if isinstance(self.split, int) else list(self.split))


def _cycle(sizes: list[int]) -> Iterator[int]:
    while True:
        yield from sizes


_NAMES = {row.name for row in fields(Behaviour)}


def behaviour(**values: Any) -> Behaviour:
    unknown = values.keys() - _NAMES
    if unknown:
        raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}")
    return Behaviour(**values)


def marked(**values: Any) -> str:
    """A marker for a prompt: it takes precedence over scripted behaviours."""
    behaviour(**values)
    return f"{MARKER}{json.dumps(values)}]]"


def from_marker(text: str) -> Behaviour | None:
    start = text.rfind(MARKER)
    if start < 0:
        return None
    values, _ = json.JSONDecoder().raw_decode(text, start + len(MARKER))
    return behaviour(**values)


def without_marker(text: str) -> str:
    start = text.rfind(MARKER)
    if start < 0:
        return text
    _, end = json.JSONDecoder().raw_decode(text, start + len(MARKER))
    return (text[:start] + text[end + 2 :]).strip()


@dataclass(slots=True)
class Rule:
    """A scripted behaviour and the requests that it applies to. `times` None: without end."""

    behaviour: Behaviour
    times: int | None = 1
    vendor: str | None = None
    model: str | None = None  # a part of the model's id
    path: str | None = None  # a part of the path
    contains: str | None = None  # a part of the last user text

    def fits(self, vendor: str, model: str, path: str, text: str) -> bool:
        return (
            self.times != 0
            and self.vendor in {None, vendor}
            and (self.model or "") in model
            and (self.path or "") in path
            and (self.contains or "") in text
        )


def as_json(value: Behaviour) -> dict[str, Any]:
    return asdict(value)

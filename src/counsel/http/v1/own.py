"""`/v1/counsel`: the calls of another counsel, such as the one on a laptop that has joined a team.

The body is a `CompletionRequest`, the answer a stream of our own events: `text`, `thinking`, `part`, and `end` or
`error`. The vendors' formats have no fields for sources, for settings that were left out, or for the budget that
refused a call and how much of it remains. `models/wires/counsel.py` is the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from counsel import json_reader as read
from counsel import strict_json
from counsel.answer_parts import AnswerPart
from counsel.engine.context.images import kind
from counsel.engine.store import completion_json
from counsel.errors import CounselError, InvalidArgument
from counsel.http.v1 import reading
from counsel.http.v1.api import LARGEST, ApiAnswer, ApiRequest
from counsel.http.v1.errors import BadRequest
from counsel.job_events import ToolInputAdded
from counsel.requests import CompletionRequest
from counsel.results import usage_to_json
from counsel.types import Image, Turn

VERSION = 1  # of the request format


class Own:
    largest = 2 * LARGEST  # images may be as large as their vendor allows, and base64 adds a third

    def parse(self, body: dict[str, object], headers: Mapping[bytes, str]) -> ApiRequest:  # noqa: ARG002 (Api)
        return ApiRequest(completion=_completion(body), stream=True, refusal_is_answer=False)

    def plain(self, request: ApiRequest, job: str, answer: ApiAnswer) -> dict[str, object]:  # noqa: ARG002 (Api)
        return {"parts": list(answer.parts), **_end(answer)}

    def renderer(self, request: ApiRequest, job: str) -> OwnRenderer:  # noqa: ARG002 (Api)
        return OwnRenderer()

    def error(self, error: CounselError, status: int | None = None) -> Mapping[str, object]:  # noqa: ARG002 (Api)
        return error.as_dict()


class OwnRenderer:
    keepalive = b": keep-alive\n\n"

    def start(self) -> bytes:
        return b""

    def text(self, delta: str) -> bytes:
        return _event("text", delta)

    def thinking(self, delta: str) -> bytes:
        return _event("thinking", delta)

    def tool_input(self, call: ToolInputAdded) -> bytes:
        namespace = {"namespace": call.namespace} if call.namespace else {}
        return _event("tool_input", {"id": call.id, "name": call.name, "delta": call.text, **namespace})

    def part(self, part: AnswerPart) -> bytes:
        return _event("part", part)

    def end(self, answer: ApiAnswer) -> bytes:
        return _event("end", _end(answer))

    def fail(self, error: CounselError) -> bytes:
        return _event("error", error.as_dict())


def _event(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: ".encode() + strict_json.encode(data) + b"\n\n"


def _end(answer: ApiAnswer) -> dict[str, object]:
    document: dict[str, object] = {
        "usage": usage_to_json(answer.usage),
        "cost_usd": answer.usage.cost_usd,
        "finish_reason": answer.reason,
    }
    if metadata := answer.metadata:
        document |= {
            "cost_usd": metadata.cost_usd,
            "finish_reason": metadata.finish_reason,
            "answered_by": metadata.answered_by,
            "left_out": list(metadata.settings_left_out),
            "notices": [notice.to_json() for notice in metadata.notices],
        }
    if answer.stopped_by is not None:
        document["stop_sequence"] = answer.stopped_by
    return document


# ── the request ──────────────────────────────────────────────────────────────────────────────────────


def _completion(body: Mapping[str, object]) -> CompletionRequest:
    """Read the request, without what only makes sense on this server's machine (files, conversations).

    Raises `BadRequest`.
    """
    import msgspec

    if body.get("version") != VERSION:
        raise BadRequest(
            f"This server takes version {VERSION} of the request, not {body.get('version')!r}. "
            "Update counsel on the side that is older.",
            "version",
        )
    try:
        completion = completion_json.load(read.part(body, "request"))
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise BadRequest(f"Invalid request: {error}.", "request") from None
    _check(completion)
    return replace(
        completion,
        turns=tuple(_turn(turn) for turn in completion.turns),
        exact=replace(completion.exact, native=None),  # nothing is passed on to a vendor unchecked
        untranslated=(),
        is_streamed=True,
        previous=None,
        continuation_id=None,
    )


def _check(completion: CompletionRequest) -> None:
    """Check what the types do not express. A limit below one would be a cost below zero."""
    if not completion.turns:
        raise BadRequest("'turns' must not be empty.", "request.turns")
    exact = completion.exact
    counts = {
        "max_output": (completion.max_output, 1),
        "output_limit": (completion.output_limit, 1),
        "exact.thinking_budget": (exact.thinking_budget, 0),
    }
    for name, (value, least) in counts.items():
        if value is not None and value < least:
            raise BadRequest(f"'{name}' must be at least {least}, not {value}.", f"request.{name}")
    if len(completion.tools) > reading.MOST_TOOLS:
        raise BadRequest(f"'tools' has more than {reading.MOST_TOOLS} entries.", "request.tools")


def _turn(turn: Turn) -> Turn:
    results = tuple(replace(result, images=tuple(map(_image, result.images))) for result in turn.tool_results)
    return replace(turn, native=None, images=tuple(map(_image, turn.images)), tool_results=results)


def _image(image: Image) -> Image:
    if image.url:
        return Image("", b"", url=image.url)
    try:
        media_type, _ = kind(image.data, image.name)
    except InvalidArgument as error:
        raise BadRequest(error.message, "request.turns") from None
    # Ignore the size that the client states: it would decide the price.
    return Image(media_type, image.data, image.name[:200])

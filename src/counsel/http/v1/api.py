"""What the three APIs have in common: a parsed request, a finished answer, and the interface of a renderer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Literal, Protocol, TypeAlias, TypedDict

from counsel.answer_parts import AnswerPart, TextPart
from counsel.errors import ContentFiltered, CounselError
from counsel.job_events import ToolInputAdded
from counsel.lazy_dataclass import dataclass
from counsel.requests import CompletionRequest
from counsel.results import AnswerMetadata, ChatResult
from counsel.types import Usage

LARGEST = 32 * 1024 * 1024  # bytes of a body, Anthropic's limit
Reason: TypeAlias = Literal["stop", "length", "tool_calls", "filtered", "paused"]


class ClientTool(TypedDict, total=False):
    """A tool as the client defined it."""

    name: str
    namespace: str
    custom: bool  # the tool takes free text


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request, with the details that its answer needs."""

    completion: CompletionRequest
    stream: bool = False
    background: bool = False
    wants_usage: bool = True
    ignored: tuple[str, ...] = ()  # fields that have no effect here
    echo: Mapping[str, object] = field(default_factory=dict)  # fields of the body that the answer repeats
    client_tools: Mapping[str, ClientTool] = field(default_factory=dict)  # by the name that models see
    created: float = field(default_factory=time.time)
    finished: float | None = None  # of a stored answer
    refusal_is_answer: bool = True  # report a refusal as an answer, as the vendors' APIs do, not as an error

    @property
    def model(self) -> str:
        return self.completion.model


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAnswer:
    """A finished answer, whether it is complete or was refused."""

    parts: tuple[AnswerPart, ...]
    usage: Usage
    reason: Reason
    model: str
    refusal: str = ""  # the vendor's explanation
    refusal_kind: str | None = None  # the vendor's word for it; `refusal`: the model itself refused
    recommended: str | None = None  # the model that the vendor recommends instead
    stopped_by: str | None = None
    ignored: tuple[str, ...] = ()
    counsel: Mapping[str, object] = field(default_factory=dict)  # the field `counsel` of the answer
    metadata: AnswerMetadata | None = None

    @property
    def text(self) -> str:
        return "".join(part["text"] for part in self.parts if part["type"] == "text")

    @property
    def is_own_refusal(self) -> bool:
        """Whether the model refused in its own words, which end the answer. A refusal without words is reported like a
        filter's: reported as an answer, it would be empty.
        """
        return self.refusal_kind == "refusal" and bool(self.refusal)


_REASONS: dict[str, Reason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "paused": "paused",
}


def answer_of(request: ApiRequest, result: ChatResult) -> ApiAnswer:
    metadata = result.metadata
    ignored = tuple(dict.fromkeys((*request.ignored, *metadata.settings_left_out)))
    adaptations = [
        {"setting": notice.more.get("setting"), "sent": notice.more.get("sent")}
        for notice in metadata.notices
        if notice.kind == "adapted"
    ]
    counsel: dict[str, object] = {"job_id": result.job_id, "model": metadata.model}
    if ignored:
        counsel["ignored"] = list(ignored)
    if adaptations:
        counsel["adapted"] = adaptations
    if vendor_kinds := _left_out_kinds(request, result.parts):
        counsel["left_out"] = vendor_kinds
    if sources := [notice for notice in metadata.notices if notice.kind == "source"]:
        counsel["sources"] = [{"title": notice.text, "url": notice.more.get("url")} for notice in sources]
    if metadata.cost_usd is not None:
        counsel["cost_usd"] = metadata.cost_usd
    if metadata.passed_over:
        counsel["passed_over"] = [row.to_json() for row in metadata.passed_over]
    return ApiAnswer(
        parts=result.parts or ({"type": "text", "text": result.content},),
        usage=metadata.usage,
        reason=_REASONS.get(metadata.finish_reason, "stop"),
        model=request.model,
        stopped_by=result.stopped_by,
        ignored=ignored,
        counsel=counsel,
        metadata=metadata,
    )


def _left_out_kinds(request: ApiRequest, parts: tuple[AnswerPart, ...]) -> list[str]:
    """The kinds of items from a vendor's own tools that this client's API cannot express."""
    own = request.completion.exact.native
    wire = own.wire if own else ""
    kinds = (part["item"].get("type") for part in parts if part["type"] == "vendor" and part["wire"] != wire)
    return list(dict.fromkeys(str(kind) for kind in kinds))


def joined(parts: Iterable[AnswerPart], wire: str) -> list[AnswerPart]:
    """The parts for clients of this vendor's API. Texts are joined where only another vendor's citations and searches
    separate them: a stream sends nothing for these.
    """
    rows: list[AnswerPart] = []
    for part in parts:
        last = rows[-1] if rows else None
        if part["type"] == "vendor" and part["wire"] != wire:
            continue
        if part["type"] == "text" and last and last["type"] == "text" and last.get("wire") != wire:
            rows[-1] = {**part, "text": last["text"] + part["text"]}
        else:
            rows.append(part)
    return rows


def refusal(request: ApiRequest, error: CounselError) -> ApiAnswer | None:
    """The answer for a refusal, which in these APIs is an answer with a reason of its own. None for any other failure,
    such as a block that the vendor itself reports as an error.
    """
    from counsel.engine.results import usage_of

    if not isinstance(error, ContentFiltered) or not request.refusal_is_answer or error.status is not None:
        return None
    partial: tuple[TextPart, ...] = ({"type": "text", "text": error.partial},) if error.partial else ()
    return ApiAnswer(
        parts=partial,
        usage=usage_of(error) or Usage(),
        reason="filtered",
        model=request.model,
        refusal=error.vendor_text or "",
        refusal_kind=error.vendor_reason,
        recommended=error.recommended_model,
        ignored=request.ignored,
        counsel={"job_id": error.job_id, "error": error.message},
    )


class Renderer(Protocol):
    """An answer as one API streams it. Each method returns the bytes to send."""

    keepalive: bytes

    def start(self) -> bytes: ...
    def text(self, delta: str) -> bytes: ...
    def thinking(self, delta: str) -> bytes: ...
    def tool_input(self, call: ToolInputAdded) -> bytes:
        """A piece of a tool call's arguments; the first one has offset 0. The complete call follows as a part."""

    def part(self, part: AnswerPart) -> bytes:
        """A complete tool call, the vendor's block for the thinking so far, or an item from a vendor's own tool."""

    def end(self, answer: ApiAnswer) -> bytes: ...
    def fail(self, error: CounselError) -> bytes: ...


class Api(Protocol):
    largest: int  # bytes of a body

    def parse(self, body: dict[str, object], headers: Mapping[bytes, str]) -> ApiRequest: ...
    def plain(self, request: ApiRequest, job: str, answer: ApiAnswer) -> dict[str, object]: ...
    def renderer(self, request: ApiRequest, job: str) -> Renderer: ...
    def error(self, error: CounselError, status: int | None = None) -> Mapping[str, object]: ...

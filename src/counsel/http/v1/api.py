"""What the three APIs have in common: a parsed request, an ended answer, and the interface of a renderer."""

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

LARGEST = 32 * 1024 * 1024  # bytes of a body, as at Anthropic
Reason: TypeAlias = Literal["stop", "length", "tool_calls", "filtered", "paused"]


class Renamed(TypedDict, total=False):
    """How the client has a tool."""

    name: str
    namespace: str
    custom: bool  # it takes free text


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, and what its answer repeats of it."""

    request: CompletionRequest
    stream: bool = False
    background: bool = False
    wants_usage: bool = True
    ignored: tuple[str, ...] = ()  # fields that change nothing here
    echo: Mapping[str, object] = field(default_factory=dict)  # fields of the body that the answer has, too
    tools: Mapping[str, Renamed] = field(default_factory=dict)  # by the name that models see
    created: float = field(default_factory=time.time)
    finished: float | None = None  # of a stored answer
    refusal_is_answer: bool = True  # with a reason of its own, as in the vendors' APIs

    @property
    def model(self) -> str:
        return self.request.model


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """An answer that has ended, whether it is complete or was refused."""

    parts: tuple[AnswerPart, ...]
    usage: Usage
    reason: Reason
    model: str
    refusal: str = ""  # the vendor's explanation
    refusal_kind: str | None = None  # the vendor's word for it; `refusal`: the model itself refused
    recommended: str | None = None  # the model that the vendor recommends instead
    stopped_by: str | None = None
    ignored: tuple[str, ...] = ()
    about: Mapping[str, object] = field(default_factory=dict)  # for `counsel` in the answer
    metadata: AnswerMetadata | None = None

    @property
    def text(self) -> str:
        return "".join(part["text"] for part in self.parts if part["type"] == "text")

    @property
    def says_no(self) -> bool:
        """The model refused in its own words, which end its answer. A refusal without words is shown as a filter's: as
        a complete answer, it would be an empty one.
        """
        return self.refusal_kind == "refusal" and bool(self.refusal)


_REASONS: dict[str, Reason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "paused": "paused",
}


def ended(asked: Asked, result: ChatResult) -> Ended:
    metadata = result.metadata
    ignored = tuple(dict.fromkeys((*asked.ignored, *metadata.settings_left_out)))
    adapted = [
        {"setting": notice.more.get("setting"), "sent": notice.more.get("sent")}
        for notice in metadata.notices
        if notice.kind == "adapted"
    ]
    about: dict[str, object] = {"job_id": result.job_id, "model": metadata.model}
    if ignored:
        about["ignored"] = list(ignored)
    if adapted:
        about["adapted"] = adapted
    if foreign := _foreign(asked, result.parts):
        about["left_out"] = foreign
    if sources := [notice for notice in metadata.notices if notice.kind == "source"]:
        about["sources"] = [{"title": notice.text, "url": notice.more.get("url")} for notice in sources]
    if metadata.cost_usd is not None:
        about["cost_usd"] = metadata.cost_usd
    if metadata.passed_over:
        about["passed_over"] = [row.to_json() for row in metadata.passed_over]
    return Ended(
        parts=result.parts or ({"type": "text", "text": result.content},),
        usage=metadata.usage,
        reason=_REASONS.get(metadata.finish_reason, "stop"),
        model=asked.model,
        stopped_by=result.stopped_by,
        ignored=ignored,
        about=about,
        metadata=metadata,
    )


def _foreign(asked: Asked, parts: tuple[AnswerPart, ...]) -> list[str]:
    """What a vendor's own tools did, and this client's API cannot express."""
    native = asked.request.exact.native
    wire = native.wire if native else ""
    kinds = (part["item"].get("type") for part in parts if part["type"] == "vendor" and part["wire"] != wire)
    return list(dict.fromkeys(str(kind) for kind in kinds))


def joined(parts: Iterable[AnswerPart], wire: str) -> list[AnswerPart]:
    """For clients of this vendor's API, with one text where only another vendor's citations and searches part it: in a
    stream, nothing is sent for these.
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


def refused(asked: Asked, error: CounselError) -> Ended | None:
    """A refusal is an answer in these APIs, with a reason of its own; None for every other failure, such as a block
    that the vendor itself reports as an error.
    """
    from counsel.engine.results import spent

    if not isinstance(error, ContentFiltered) or not asked.refusal_is_answer or error.status is not None:
        return None
    partial: tuple[TextPart, ...] = ({"type": "text", "text": error.partial},) if error.partial else ()
    return Ended(
        parts=partial,
        usage=spent(error) or Usage(),
        reason="filtered",
        model=asked.model,
        refusal=error.vendor_text or "",
        refusal_kind=error.vendor_reason,
        recommended=error.recommended_model,
        ignored=asked.ignored,
        about={"job_id": error.job_id, "error": error.message},
    )


class Renderer(Protocol):
    """An answer as one API streams it. Each method gives the bytes to send."""

    keepalive: bytes

    def start(self) -> bytes: ...
    def text(self, delta: str) -> bytes: ...
    def thinking(self, delta: str) -> bytes: ...
    def tool_input(self, call: ToolInputAdded) -> bytes:
        """A piece of a tool call's arguments, the first one with an offset of 0. The whole call follows as a part."""

    def part(self, part: AnswerPart) -> bytes:
        """A whole tool call, the vendor's block of the thinking so far, or what a tool of the vendor's did."""

    def end(self, answer: Ended) -> bytes: ...
    def fail(self, error: CounselError) -> bytes: ...


class Api(Protocol):
    largest: int  # bytes of a body

    def parse(self, body: dict[str, object], headers: Mapping[bytes, str]) -> Asked: ...
    def plain(self, asked: Asked, job: str, answer: Ended) -> dict[str, object]: ...
    def renderer(self, asked: Asked, job: str) -> Renderer: ...
    def error(self, error: CounselError, status: int | None = None) -> Mapping[str, object]: ...

"""The parts that answers and jobs share: usage, notices, metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, Self, TypeAlias, TypedDict

from counsel import json_reader as read
from counsel.job_events import ToolRun
from counsel.lazy_dataclass import dataclass
from counsel.types import Json, Usage

JobState: TypeAlias = Literal["processing", "completed", "failed", "cancelled", "completed_with_errors"]
Phase: TypeAlias = Literal["initial", "refined", "review", "check"]
Verdict: TypeAlias = Literal["consensus_complete", "consensus_partial", "no_consensus"]
ModelStatus: TypeAlias = Literal["waiting", "processing", "completed", "failed", "cancelled", "interrupted"]
PHASE_NAMES: Mapping[str, str] = {
    "initial": "first round",
    "refined": "refinement",
    "review": "review",
    "check": "check of findings",
}


class Serialisable(Protocol):
    def to_json(self) -> Json: ...


class ToolResult(Serialisable, Protocol):
    """A value that a tool may return."""

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Self: ...


def labels(models: Sequence[str]) -> list[str]:
    """The names of a consensus's members: `gpt-5`, `gpt-5#2` …"""
    counts: Counter[str] = Counter()
    names = []
    for model in models:
        counts[model] += 1
        names.append(model if counts[model] == 1 else f"{model}#{counts[model]}")
    return names


def without_empty(**values: object) -> dict[str, object]:
    """The values that are not empty."""
    return {name: value for name, value in values.items() if value}


def usage_to_json(usage: Usage) -> dict[str, object]:
    document: dict[str, object] = {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "total_tokens": usage.total,
    }
    if usage.estimated:
        document["estimated"] = True
    return document | without_empty(
        reasoning_tokens=usage.reasoning,
        cache_creation_input_tokens=usage.cache_write,
        cache_read_input_tokens=usage.cache_read,
    )


def usage_from_json(document: dict[str, object], cost_usd: float | None = None) -> Usage:
    return Usage(
        input=read.integer(document, "input_tokens"),
        output=read.integer(document, "output_tokens"),
        reasoning=read.integer(document, "reasoning_tokens"),
        cache_read=read.integer(document, "cache_read_input_tokens"),
        cache_write=read.integer(document, "cache_creation_input_tokens"),
        cost_usd=cost_usd,
        estimated=read.flag(document, "estimated"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """How to continue the conversation."""

    id: str
    provider: str | None = None
    model: str | None = None
    tag: str | None = None
    message_count: int | None = None
    # "new": there was no conversation under the caller's name. Of a background call: the job's status.
    status: str | None = None

    def to_json(self) -> dict[str, object]:
        document: dict[str, object] = {"id": self.id}
        if self.model is not None:
            document |= {"provider": self.provider, "model": self.model}
        if self.tag:
            document["tag"] = self.tag
        if self.message_count is not None:
            document["messageCount"] = self.message_count
        if self.status:
            document["status"] = self.status
        return document

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Continuation:
        return cls(
            id=read.text(document, "id"),
            provider=read.text_or_none(document, "provider"),
            model=read.text_or_none(document, "model"),
            tag=read.text_or_none(document, "tag"),
            message_count=read.integer_or_none(document, "messageCount"),
            status=read.text_or_none(document, "status"),
        )


@dataclass(frozen=True, slots=True)
class AnswerNotice:
    """Something to know about an answer: a source, a retry, a warning."""

    kind: str
    text: str
    more: Mapping[str, object] = field(default_factory=dict)  # `url` of a source, `wait` of a retry …

    @property
    def url(self) -> str:
        return str(self.more.get("url", ""))

    @property
    def is_incomplete(self) -> bool:
        """Whether the answer was cut off."""
        return bool(self.more.get("incomplete"))

    def to_json(self) -> dict[str, object]:
        return {"kind": self.kind, "text": self.text, **self.more}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> AnswerNotice:
        more = {name: value for name, value in document.items() if name not in {"kind", "text"}}
        return cls(read.text(document, "kind"), read.text(document, "text"), more)


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A model that failed before another one answered, and the tokens that it used."""

    model: str
    code: str
    error: str
    spent: Usage | None = None

    def to_json(self) -> dict[str, object]:
        document: dict[str, object] = {"model": self.model, "code": self.code, "error": self.error}
        if self.spent:
            document |= {"usage": usage_to_json(self.spent), "cost_usd": self.spent.cost_usd}
        return document

    @classmethod
    def from_json(cls, document: dict[str, object]) -> PassedOver:
        usage = (
            usage_from_json(read.part(document, "usage"), read.number_or_none(document, "cost_usd"))
            if "usage" in document
            else None
        )
        return cls(
            read.text(document, "model"), read.text(document, "code"), read.text(document, "error"), usage
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file or image that was sent."""

    name: str
    size: int
    modified: str | None = None
    lines: int | None = None  # of the whole file; None: not read to its end
    first: int | None = None
    last: int | None = None
    encoding: str = "utf-8"
    unchanged_since_turn: int | None = None  # the turn with which its lines were sent
    pages: int | None = None  # PDFs: the number of pages; `first` and `last` count pages, too

    def to_json(self) -> dict[str, object]:
        document = {
            "name": self.name,
            "size": self.size,
            "modified": self.modified,
            "lines": self.lines,
            "pages": self.pages,
            "range": None if self.first is None else f"{self.first}:{self.last}",
            "encoding": None if self.encoding == "utf-8" else self.encoding,
            "unchanged_since_turn": self.unchanged_since_turn,
        }
        return {key: value for key, value in document.items() if value is not None}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Source:
        first, _, last = read.text(document, "range").partition(":")
        return cls(
            name=read.text(document, "name"),
            size=read.integer(document, "size"),
            modified=read.text_or_none(document, "modified"),
            lines=read.integer_or_none(document, "lines"),
            pages=read.integer_or_none(document, "pages"),
            first=int(first) if first else None,
            last=int(last) if last else None,
            encoding=read.text(document, "encoding", "utf-8"),
            unchanged_since_turn=read.integer_or_none(document, "unchanged_since_turn"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSummary:
    """The model that answered, and the cost."""

    model: str
    provider: str
    usage: Usage
    cost_usd: float | None
    response_time_ms: int | None
    finish_reason: str

    def to_json(self) -> dict[str, object]:
        return self._head()

    def _head(self) -> dict[str, object]:
        return {
            "model": self.model,
            "provider": self.provider,
            "usage": usage_to_json(self.usage),
            "cost_usd": self.cost_usd,
            "response_time_ms": self.response_time_ms,
            "finish_reason": self.finish_reason,
        }

    @classmethod
    def from_json(cls, document: dict[str, object]) -> AnswerSummary:
        return cls(**_summary(document))


class _Summary(TypedDict):
    model: str
    provider: str
    usage: Usage
    cost_usd: float | None
    response_time_ms: int | None
    finish_reason: str


def _summary(document: dict[str, object]) -> _Summary:
    return {
        "model": read.text(document, "model"),
        "provider": read.text(document, "provider"),
        "usage": usage_from_json(read.part(document, "usage"), read.number_or_none(document, "cost_usd")),
        "cost_usd": read.number_or_none(document, "cost_usd"),
        "response_time_ms": read.integer_or_none(document, "response_time_ms"),
        "finish_reason": read.text(document, "finish_reason"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMetadata(AnswerSummary):
    """The summary of an answer, and how the answer came about."""

    answered_by: str | None = None  # the model that the vendor names, if it is another one
    settings_left_out: tuple[str, ...] = ()
    notices: tuple[AnswerNotice, ...] = ()
    session: str | None = None  # the agent's own session id
    cached: bool = False
    tool_calls: tuple[ToolRun, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    files: tuple[Source, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return self._head() | without_empty(
            answered_by=self.answered_by,
            settings_left_out=self.settings_left_out and list(self.settings_left_out),
            notices=self.notices and json_list(self.notices),
            session=self.session,
            cached=self.cached,
            tool_calls=self.tool_calls and json_list(self.tool_calls),
            passed_over=self.passed_over and json_list(self.passed_over),
            files=self.files and json_list(self.files),
            warnings=self.warnings and list(self.warnings),
        )

    @classmethod
    def from_json(cls, document: dict[str, object]) -> AnswerMetadata:
        return cls(
            **_summary(document),
            answered_by=read.text_or_none(document, "answered_by"),
            settings_left_out=read.texts(document, "settings_left_out"),
            notices=tuple(map(AnswerNotice.from_json, read.parts(document, "notices"))),
            session=read.text_or_none(document, "session"),
            cached=read.flag(document, "cached"),
            tool_calls=tuple(map(ToolRun.from_json, read.parts(document, "tool_calls"))),
            passed_over=tuple(map(PassedOver.from_json, read.parts(document, "passed_over"))),
            files=tuple(map(Source.from_json, read.parts(document, "files"))),
            warnings=read.texts(document, "warnings"),
        )


def json_list(parts: Iterable[Serialisable]) -> list[dict[str, object]]:
    return [part.to_json() for part in parts]

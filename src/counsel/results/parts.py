"""What answers and jobs have in common: usage, notices, metadata."""

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
    """What a tool may return."""

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> Self: ...


def labels(models: Sequence[str]) -> list[str]:
    """The names of a consensus' members: `gpt-5`, `gpt-5#2` …"""
    seen: Counter[str] = Counter()
    named = []
    for model in models:
        seen[model] += 1
        named.append(model if seen[model] == 1 else f"{model}#{seen[model]}")
    return named


def without_empty(**values: object) -> dict[str, object]:
    """Those that have a value."""
    return {name: value for name, value in values.items() if value}


def usage_to_json(usage: Usage) -> dict[str, object]:
    shown: dict[str, object] = {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "total_tokens": usage.total,
    }
    if usage.estimated:
        shown["estimated"] = True
    return shown | without_empty(
        reasoning_tokens=usage.reasoning,
        cache_creation_input_tokens=usage.cache_write,
        cache_read_input_tokens=usage.cache_read,
    )


def usage_from_json(shown: dict[str, object], cost_usd: float | None = None) -> Usage:
    return Usage(
        input=read.integer(shown, "input_tokens"),
        output=read.integer(shown, "output_tokens"),
        reasoning=read.integer(shown, "reasoning_tokens"),
        cache_read=read.integer(shown, "cache_read_input_tokens"),
        cache_write=read.integer(shown, "cache_creation_input_tokens"),
        cost_usd=cost_usd,
        estimated=read.flag(shown, "estimated"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """How to continue the conversation."""

    id: str
    provider: str | None = None
    model: str | None = None
    tag: str | None = None
    message_count: int | None = None
    status: str | None = (
        None  # "new": nothing was known under the caller's name; of a background call: the job's
    )

    def to_json(self) -> dict[str, object]:
        shown: dict[str, object] = {"id": self.id}
        if self.model is not None:
            shown |= {"provider": self.provider, "model": self.model}
        if self.tag:
            shown["tag"] = self.tag
        if self.message_count is not None:
            shown["messageCount"] = self.message_count
        return shown | without_empty(status=self.status)

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> Continuation:
        return cls(
            id=read.text(shown, "id"),
            provider=read.text_or_none(shown, "provider"),
            model=read.text_or_none(shown, "model"),
            tag=read.text_or_none(shown, "tag"),
            message_count=read.integer_or_none(shown, "messageCount"),
            status=read.text_or_none(shown, "status"),
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
        """The answer was cut."""
        return bool(self.more.get("incomplete"))

    def to_json(self) -> dict[str, object]:
        return {"kind": self.kind, "text": self.text, **self.more}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> AnswerNotice:
        more = {name: value for name, value in shown.items() if name not in {"kind", "text"}}
        return cls(read.text(shown, "kind"), read.text(shown, "text"), more)


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A model that failed before another one answered, and what it used."""

    model: str
    code: str
    error: str
    spent: Usage | None = None

    def to_json(self) -> dict[str, object]:
        shown: dict[str, object] = {"model": self.model, "code": self.code, "error": self.error}
        if self.spent:
            shown |= {"usage": usage_to_json(self.spent), "cost_usd": self.spent.cost_usd}
        return shown

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> PassedOver:
        used = (
            usage_from_json(read.part(shown, "usage"), read.number_or_none(shown, "cost_usd"))
            if "usage" in shown
            else None
        )
        return cls(read.text(shown, "model"), read.text(shown, "code"), read.text(shown, "error"), used)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file or image that was sent."""

    name: str
    size: int
    modified: str | None = None
    lines: int | None = None  # of the whole file; None: not counted to its end
    first: int | None = None
    last: int | None = None
    encoding: str = "utf-8"
    unchanged_since_turn: int | None = None  # its lines were sent there
    pages: int | None = None  # of a PDF; `first` and `last` then count pages

    def to_json(self) -> dict[str, object]:
        shown = {
            "name": self.name,
            "size": self.size,
            "modified": self.modified,
            "lines": self.lines,
            "pages": self.pages,
            "range": None if self.first is None else f"{self.first}:{self.last}",
            "encoding": None if self.encoding == "utf-8" else self.encoding,
            "unchanged_since_turn": self.unchanged_since_turn,
        }
        return {key: value for key, value in shown.items() if value is not None}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> Source:
        first, _, last = read.text(shown, "range").partition(":")
        return cls(
            name=read.text(shown, "name"),
            size=read.integer(shown, "size"),
            modified=read.text_or_none(shown, "modified"),
            lines=read.integer_or_none(shown, "lines"),
            pages=read.integer_or_none(shown, "pages"),
            first=int(first) if first else None,
            last=int(last) if last else None,
            encoding=read.text(shown, "encoding", "utf-8"),
            unchanged_since_turn=read.integer_or_none(shown, "unchanged_since_turn"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSummary:
    """Who answered, at what cost."""

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
    def from_json(cls, shown: dict[str, object]) -> AnswerSummary:
        return cls(**_summary(shown))


class _Summary(TypedDict):
    model: str
    provider: str
    usage: Usage
    cost_usd: float | None
    response_time_ms: int | None
    finish_reason: str


def _summary(shown: dict[str, object]) -> _Summary:
    return {
        "model": read.text(shown, "model"),
        "provider": read.text(shown, "provider"),
        "usage": usage_from_json(read.part(shown, "usage"), read.number_or_none(shown, "cost_usd")),
        "cost_usd": read.number_or_none(shown, "cost_usd"),
        "response_time_ms": read.integer_or_none(shown, "response_time_ms"),
        "finish_reason": read.text(shown, "finish_reason"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMetadata(AnswerSummary):
    """And how."""

    answered_by: str | None = None  # where the vendor names another model
    settings_left_out: tuple[str, ...] = ()
    notices: tuple[AnswerNotice, ...] = ()
    session: str | None = None  # an agent's own
    cached: bool = False
    tool_calls: tuple[ToolRun, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    files: tuple[Source, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return self._head() | without_empty(
            answered_by=self.answered_by,
            settings_left_out=list(self.settings_left_out),
            notices=listed(self.notices),
            session=self.session,
            cached=self.cached,
            tool_calls=listed(self.tool_calls),
            passed_over=listed(self.passed_over),
            files=listed(self.files),
            warnings=list(self.warnings),
        )

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> AnswerMetadata:
        return cls(
            **_summary(shown),
            answered_by=read.text_or_none(shown, "answered_by"),
            settings_left_out=read.texts(shown, "settings_left_out"),
            notices=tuple(map(AnswerNotice.from_json, read.parts(shown, "notices"))),
            session=read.text_or_none(shown, "session"),
            cached=read.flag(shown, "cached"),
            tool_calls=tuple(map(ToolRun.from_json, read.parts(shown, "tool_calls"))),
            passed_over=tuple(map(PassedOver.from_json, read.parts(shown, "passed_over"))),
            files=tuple(map(Source.from_json, read.parts(shown, "files"))),
            warnings=read.texts(shown, "warnings"),
        )


def listed(parts: Iterable[Serialisable]) -> list[dict[str, object]]:
    return [part.to_json() for part in parts]

"""What the engine answers, as typed values: every interface reads the fields and calls `to_json` once, at its edge.

`from_json` reads what another process wrote, over the daemon's socket or in the database, and keeps the document:
`to_json` gives it back as it was, with fields that only another release knows. Who changes such a value with `replace`
sets `document` to None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from counsel.errors import CounselError, from_dict
from counsel.job_events import ToolRun, Wait
from counsel.lazy_dataclass import dataclass
from counsel.types import Json, Usage

JobState: TypeAlias = Literal["processing", "completed", "failed", "cancelled", "completed_with_errors"]
Phase: TypeAlias = Literal["initial", "refined"]
Verdict: TypeAlias = Literal["consensus_complete", "consensus_partial", "no_consensus"]
ModelStatus: TypeAlias = Literal["waiting", "processing", "completed", "failed", "cancelled", "interrupted"]
_PHASES: Mapping[str, str] = {"initial": "first round", "refined": "refinement"}


class Serialisable(Protocol):
    def to_json(self) -> Json: ...


def _given(**values: object) -> dict[str, object]:
    """Those that have a value."""
    return {name: value for name, value in values.items() if value}


# ── parts ────────────────────────────────────────────────────────────────────────────────────────────


def usage_to_json(usage: Usage) -> dict[str, object]:
    shown: dict[str, object] = {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "total_tokens": usage.total,
    }
    if usage.estimated:
        shown["estimated"] = True
    return shown | _given(
        reasoning_tokens=usage.reasoning,
        cache_creation_input_tokens=usage.cache_write,
        cache_read_input_tokens=usage.cache_read,
    )


def usage_from_json(shown: Json, cost_usd: float | None = None) -> Usage:
    return Usage(
        input=shown.get("input_tokens", 0),
        output=shown.get("output_tokens", 0),
        reasoning=shown.get("reasoning_tokens", 0),
        cache_read=shown.get("cache_read_input_tokens", 0),
        cache_write=shown.get("cache_creation_input_tokens", 0),
        cost_usd=cost_usd,
        estimated=shown.get("estimated", False),
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
        return shown | _given(status=self.status)

    @classmethod
    def from_json(cls, shown: Json) -> Continuation:
        return cls(
            id=shown.get("id", ""),
            provider=shown.get("provider"),
            model=shown.get("model"),
            tag=shown.get("tag"),
            message_count=shown.get("messageCount"),
            status=shown.get("status"),
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
    def from_json(cls, shown: Json) -> AnswerNotice:
        more = {name: value for name, value in shown.items() if name not in {"kind", "text"}}
        return cls(shown.get("kind", ""), shown.get("text", ""), more)


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
    def from_json(cls, shown: Json) -> PassedOver:
        used = usage_from_json(shown["usage"], shown.get("cost_usd")) if "usage" in shown else None
        return cls(shown.get("model", ""), shown.get("code", ""), shown.get("error", ""), used)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMetadata:
    """Who answered, how, at what cost."""

    model: str
    provider: str
    usage: Usage
    cost_usd: float | None
    response_time_ms: int | None
    finish_reason: str
    answered_by: str | None = None  # where the vendor names another model
    settings_left_out: tuple[str, ...] = ()
    notices: tuple[AnswerNotice, ...] = ()
    session: str | None = None  # an agent's own
    cached: bool = False
    tool_calls: tuple[ToolRun, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    files: tuple[Json, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "model": self.model,
            "provider": self.provider,
            "usage": usage_to_json(self.usage),
            "cost_usd": self.cost_usd,
            "response_time_ms": self.response_time_ms,
            "finish_reason": self.finish_reason,
            **_given(
                answered_by=self.answered_by,
                settings_left_out=list(self.settings_left_out),
                notices=_listed(self.notices),
                session=self.session,
                cached=self.cached,
                tool_calls=_listed(self.tool_calls),
                passed_over=_listed(self.passed_over),
                files=list(self.files),
                warnings=list(self.warnings),
            ),
        }

    @classmethod
    def from_json(cls, shown: Json) -> AnswerMetadata:
        return cls(
            model=shown.get("model", ""),
            provider=shown.get("provider", ""),
            usage=usage_from_json(shown.get("usage") or {}, shown.get("cost_usd")),
            cost_usd=shown.get("cost_usd"),
            response_time_ms=shown.get("response_time_ms"),
            finish_reason=shown.get("finish_reason", ""),
            answered_by=shown.get("answered_by"),
            settings_left_out=tuple(shown.get("settings_left_out", ())),
            notices=tuple(map(AnswerNotice.from_json, shown.get("notices", ()))),
            session=shown.get("session"),
            cached=shown.get("cached", False),
            tool_calls=tuple(map(ToolRun.from_json, shown.get("tool_calls", ()))),
            passed_over=tuple(map(PassedOver.from_json, shown.get("passed_over", ()))),
            files=tuple(shown.get("files", ())),
            warnings=tuple(shown.get("warnings", ())),
        )


def _listed(parts: Iterable[Serialisable]) -> list[dict[str, object]]:
    return [part.to_json() for part in parts]


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatResult:
    content: str
    continuation: Continuation
    metadata: AnswerMetadata
    job_id: str
    title: str | None = None
    export: str | None = None  # the folder
    final_summary: str | None = None
    document: Json | None = field(default=None, repr=False)

    def to_json(self) -> Json:
        if self.document is not None:
            return self.document
        return {
            "content": self.content,
            "continuation": self.continuation.to_json(),
            "metadata": self.metadata.to_json(),
            "job_id": self.job_id,
            **_described(self),
        }

    def to_row(self) -> dict[str, object]:
        """As it is stored."""
        return self.to_json()

    @classmethod
    def from_json(cls, shown: Json) -> ChatResult:
        return cls(
            content=shown.get("content", ""),
            continuation=Continuation.from_json(shown.get("continuation") or {}),
            metadata=AnswerMetadata.from_json(shown.get("metadata") or {}),
            job_id=shown.get("job_id", ""),
            title=shown.get("title"),
            export=shown.get("export"),
            final_summary=shown.get("final_summary"),
            document=shown,
        )


@dataclass(frozen=True, slots=True)
class InitialAnswer:
    model: str  # `gpt-5#2`: the second of that name
    text: str
    metadata: AnswerMetadata

    def to_json(self) -> dict[str, object]:
        used = self.metadata.usage
        more = {
            "input_tokens": used.input,
            "output_tokens": used.output,
            "response_time": self.metadata.response_time_ms,
        }
        return {
            "model": self.model,
            "status": "success",
            "response": self.text,
            "metadata": {**self.metadata.to_json(), **more},
        }

    @classmethod
    def from_json(cls, shown: Json) -> InitialAnswer:
        metadata = AnswerMetadata.from_json(shown.get("metadata") or {})
        return cls(shown.get("model", ""), shown.get("response", ""), metadata)


@dataclass(frozen=True, slots=True)
class RefinedAnswer:
    """A model's second answer; or, with `error`, why there is none."""

    first: InitialAnswer
    text: str | None
    metadata: AnswerMetadata | None
    error: CounselError | None = None

    @property
    def model(self) -> str:
        return self.first.model

    def to_json(self, *, repeat: bool = True) -> dict[str, object]:
        """`repeat=False`: without the first answer."""
        first: dict[str, object] = {"initial_response": self.first.text} if repeat else {}
        if self.metadata is None:
            error = self.error.as_dict() if self.error else None
            return {
                "model": self.model,
                "status": "failed",
                **first,
                "refined_response": None,
                "error": error,
            }
        before, now = self.first.metadata, self.metadata
        totals = {
            "total_response_time": (before.response_time_ms or 0) + (now.response_time_ms or 0),
            "total_input_tokens": before.usage.input + now.usage.input,
            "total_output_tokens": before.usage.output + now.usage.output,
        }
        return {
            "model": self.model,
            "status": "success",
            **first,
            "refined_response": self.text,
            "metadata": {**now.to_json(), **totals},
        }

    @classmethod
    def from_json(cls, shown: Json, first: InitialAnswer) -> RefinedAnswer:
        metadata = AnswerMetadata.from_json(shown["metadata"]) if "metadata" in shown else None
        error = from_dict(shown["error"]) if shown.get("error") else None
        return cls(first, shown.get("refined_response"), metadata, error)


@dataclass(frozen=True, slots=True)
class ModelFailure:
    model: str
    phase: Phase
    error: CounselError

    def to_json(self) -> dict[str, object]:
        return {**self.error.as_dict(), "model": self.model, "status": "failed", "phase": self.phase}

    @classmethod
    def from_json(cls, shown: Json) -> ModelFailure:
        return cls(shown.get("model", ""), shown.get("phase", "initial"), from_dict(shown))

    def line(self) -> str:
        hint = f" {self.error.hint}" if self.error.hint else ""
        phase = _PHASES.get(self.phase, self.phase)
        return f"⚠ {self.model} failed in the {phase}: [{self.error.code}] {self.error.message}{hint}"


@dataclass(frozen=True, slots=True)
class ConsensusSettings:
    enable_cross_feedback: bool
    temperature: float
    models_requested: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return {
            "enable_cross_feedback": self.enable_cross_feedback,
            "temperature": self.temperature,
            "models_requested": list(self.models_requested),
        }

    @classmethod
    def from_json(cls, shown: Json) -> ConsensusSettings:
        models = tuple(shown.get("models_requested", ()))
        return cls(shown.get("enable_cross_feedback", True), shown.get("temperature", 0.0), models)


@dataclass(frozen=True, slots=True)
class Totals:
    """What a job used and cost, failed calls included."""

    usage: Usage
    cost_usd: float | None
    cost_complete: bool  # False: some price is not known
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "usage": usage_to_json(self.usage),
            "cost_usd": self.cost_usd,
            "cost_complete": self.cost_complete,
            **_given(warnings=list(self.warnings)),
        }

    @classmethod
    def from_json(cls, shown: Json) -> Totals:
        cost = shown.get("cost_usd")
        usage = usage_from_json(shown.get("usage") or {}, cost)
        return cls(usage, cost, shown.get("cost_complete", True), tuple(shown.get("warnings", ())))

    @classmethod
    def of(cls, spent: Sequence[Usage]) -> Totals:
        costs = [usage.cost_usd for usage in spent if usage.cost_usd is not None]
        total = round(sum(costs), 8) if costs else None
        usage = Usage(
            input=sum(usage.input for usage in spent),
            output=sum(usage.output for usage in spent),
            cost_usd=total,
            estimated=any(usage.estimated for usage in spent),
        )
        return cls(usage, total, len(costs) == len(spent))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsensusResult:
    status: Verdict
    models_consulted: int
    initial: tuple[InitialAnswer, ...]
    refined: tuple[RefinedAnswer, ...]
    failed: tuple[ModelFailure, ...]
    continuation: Continuation
    settings: ConsensusSettings
    metadata: Totals
    job_id: str
    title: str | None = None
    export: str | None = None
    final_summary: str | None = None
    document: Json | None = field(default=None, repr=False)

    @property
    def refined_count(self) -> int:
        return sum(answer.text is not None for answer in self.refined)

    @property
    def answers(self) -> dict[str, str]:
        """Each model's last answer."""
        last = {answer.model: answer.text for answer in self.initial}
        return last | {answer.model: answer.text for answer in self.refined if answer.text}

    @property
    def content(self) -> str:
        """As one text: failures first."""
        parts = [failure.line() for failure in self.failed]
        if len(self.answers) == 1 and self.models_consulted > 1:
            parts.append("Only one model answered: this is its opinion, not a consensus.")
        parts += [f"## {model}\n\n{text}" for model, text in self.answers.items()]
        return "\n\n".join(parts)

    def to_json(self) -> Json:
        if self.document is None:
            return self._shown(repeat=True)
        return self.document if "content" in self.document else self._from_row(self.document)

    def to_row(self) -> dict[str, object]:
        """As it is stored: nothing twice, so that long answers do not fill the disk."""
        return self._shown(repeat=False)

    def _shown(self, *, repeat: bool) -> dict[str, object]:
        return {
            "status": self.status,
            "models_consulted": self.models_consulted,
            "successful_initial_responses": len(self.initial),
            "failed_responses": sum(failure.phase == "initial" for failure in self.failed),
            "refined_responses": self.refined_count,
            **({"content": self.content} if repeat else {}),
            "phases": {
                "initial": _listed(self.initial),
                "refined": [answer.to_json(repeat=repeat) for answer in self.refined],
                "failed": _listed(self.failed),
            },
            "continuation": self.continuation.to_json(),
            "settings": self.settings.to_json(),
            "metadata": self.metadata.to_json(),
            "job_id": self.job_id,
            **_described(self),
        }

    def _from_row(self, row: Json) -> dict[str, object]:
        """What `to_row` left out, behind what it wrote."""
        first = {answer.model: answer.text for answer in self.initial}
        phases = row["phases"]
        refined = [
            {**entry, "initial_response": first.get(entry["model"])} for entry in phases.get("refined", ())
        ]
        return {**row, "phases": {**phases, "refined": refined}, "content": self.content}

    @classmethod
    def from_json(cls, shown: Json) -> ConsensusResult:
        phases = shown.get("phases") or {}
        initial = tuple(map(InitialAnswer.from_json, phases.get("initial") or ()))
        first = {answer.model: answer for answer in initial}
        return cls(
            status=shown.get("status", "consensus_complete"),
            models_consulted=shown.get("models_consulted", 0),
            initial=initial,
            refined=tuple(
                RefinedAnswer.from_json(entry, first[entry["model"]])
                for entry in phases.get("refined") or ()
                if entry.get("model") in first
            ),
            failed=tuple(map(ModelFailure.from_json, phases.get("failed") or ())),
            continuation=Continuation.from_json(shown.get("continuation") or {}),
            settings=ConsensusSettings.from_json(shown.get("settings") or {}),
            metadata=Totals.from_json(shown.get("metadata") or {}),
            job_id=shown.get("job_id", ""),
            title=shown.get("title"),
            export=shown.get("export"),
            final_summary=shown.get("final_summary"),
            document=shown,
        )


Result: TypeAlias = ChatResult | ConsensusResult


def _described(result: Result) -> dict[str, object]:
    return _given(title=result.title, export=result.export, final_summary=result.final_summary)


def result_from_json(shown: dict[str, object]) -> Result:
    return ConsensusResult.from_json(shown) if "phases" in shown else ChatResult.from_json(shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What a background call answers at once."""

    content: str  # the status line
    continuation: Continuation
    job_id: str
    models: tuple[str, ...] | None = None  # of a consensus that has just begun
    note: str | None = None
    document: Json | None = field(default=None, repr=False)

    def to_json(self) -> Json:
        if self.document is not None:
            return self.document
        shown: dict[str, object] = {
            "content": self.content,
            "continuation": self.continuation.to_json(),
            "async_execution": True,
            "job_id": self.job_id,
        }
        if self.models is not None:
            shown["metadata"] = {
                "total_models": len(self.models),
                "successful_models": 0,
                "models_list": ",".join(self.models),
            }
        return shown | _given(note=self.note)

    @classmethod
    def from_json(cls, shown: Json) -> Accepted:
        models = (shown.get("metadata") or {}).get("models_list")
        return cls(
            content=shown.get("content", ""),
            continuation=Continuation.from_json(shown.get("continuation") or {}),
            job_id=shown.get("job_id", ""),
            models=tuple(models.split(",")) if models else None,
            note=shown.get("note"),
            document=shown,
        )


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """One model of a job that has not completed."""

    slot: str
    model: str
    status: ModelStatus
    phase: str | None = None  # None: it was not asked
    text: str = ""
    waiting_for: Wait | None = None
    error: CounselError | None = None
    partial: str | None = None  # of an answer that did not finish
    stored: bool = False  # read from the database: another order of keys

    def to_json(self) -> dict[str, object]:
        phase: dict[str, object] = {} if self.phase is None else {"phase": self.phase}
        text: dict[str, object] = {"text": self.text}
        shown: dict[str, object] = {"slot": self.slot, "model": self.model, "status": self.status}
        shown |= text | phase if self.stored else phase | text
        if self.waiting_for:
            shown["waiting_for"] = self.waiting_for.to_json()
        if self.error:
            shown["error"] = self.error.as_dict()
        return shown | _given(partial=self.partial)

    @classmethod
    def from_json(cls, shown: Json) -> ModelState:
        return cls(
            slot=shown.get("slot", ""),
            model=shown.get("model", ""),
            status=shown.get("status", "waiting"),
            phase=shown.get("phase"),
            text=shown.get("text", ""),
            waiting_for=_wait(shown),
            error=_error(shown),
            partial=shown.get("partial"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMessage:
    role: str
    content: str
    at: str
    images: int = 0
    metadata: Json = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        shown: dict[str, object] = {"role": self.role, "content": self.content, "at": self.at}
        return shown | _given(images=self.images, metadata=self.metadata)

    @classmethod
    def from_json(cls, shown: Json) -> HistoryMessage:
        return cls(
            role=shown.get("role", ""),
            content=shown.get("content", ""),
            at=shown.get("at", ""),
            images=shown.get("images", 0),
            metadata=shown.get("metadata") or {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """One line of the list of jobs."""

    id: str  # the conversation's
    job_id: str
    status: JobState
    tool: str
    models: tuple[str, ...]
    completed: int
    total: int
    elapsed_seconds: float
    started_at: str
    completed_at: str | None = None
    title: str | None = None
    summary: str | None = None
    waiting_for: Wait | None = None

    @property
    def is_open(self) -> bool:
        return self.status == "processing"

    def to_json(self) -> dict[str, object]:
        return self._head() | self._wait()

    def _head(self) -> dict[str, object]:
        shown: dict[str, object] = {
            "id": self.id,
            "job_id": self.job_id,
            "status": self.status,
            "tool": self.tool,
            "models": list(self.models),
            "progress": {
                "completed": self.completed,
                "total": self.total,
                "percentage": round(100 * self.completed / self.total) if self.total else 0,
            },
            "elapsed_seconds": self.elapsed_seconds,
            "started_at": self.started_at,
        }
        return shown | _given(completed_at=self.completed_at, title=self.title, summary=self.summary)

    def _wait(self) -> dict[str, object]:
        return {"waiting_for": self.waiting_for.to_json()} if self.waiting_for else {}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> JobSummary:
        return cls(**_summary(shown))


def _summary(shown: Json) -> Json:
    progress = shown.get("progress") or {}
    return {
        "id": shown.get("id", ""),
        "job_id": shown.get("job_id", ""),
        "status": shown.get("status", "processing"),
        "tool": shown.get("tool", ""),
        "models": tuple(shown.get("models", ())),
        "completed": progress.get("completed", 0),
        "total": progress.get("total", 0),
        "elapsed_seconds": shown.get("elapsed_seconds", 0.0),
        "started_at": shown.get("started_at", ""),
        "completed_at": shown.get("completed_at"),
        "title": shown.get("title"),
        "summary": shown.get("summary"),
        "waiting_for": _wait(shown),
    }


def _wait(shown: Json) -> Wait | None:
    return Wait.from_json(shown["waiting_for"]) if shown.get("waiting_for") else None


def _error(shown: Json) -> CounselError | None:
    return from_dict(shown["error"]) if shown.get("error") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus(JobSummary):
    """The whole of one job: progress, what each model has said so far, and when it is done the result."""

    status_line: str
    models_status: tuple[ModelState, ...] | None = None
    result: Result | None = None
    error: CounselError | None = None
    final_summary: str | None = None
    history: tuple[HistoryMessage, ...] | None = None
    summary_so_far: str | None = None
    document: Json | None = field(default=None, repr=False)

    @property
    def partial(self) -> str:
        """What is there of answers that have not finished."""
        states = self.models_status or ()
        return "\n\n".join(filter(None, (state.text if self.is_open else state.partial for state in states)))

    @property
    def content(self) -> Json:
        if self.document is not None:
            return self.document
        shown = self._head()
        if self.models_status is not None:
            shown["models_status"] = _listed(self.models_status)
            if self.is_open or self.partial:
                shown["partial"] = self.partial
        if self.result is not None:
            shown["result"] = self.result.to_json()
        if self.error is not None:
            shown["error"] = self.error.as_dict()
        shown |= _given(final_summary=self.final_summary)
        if self.history is not None:
            shown["history"] = _listed(self.history)
        shown |= self._wait()
        if self.summary_so_far is not None:
            shown["summary"] = self.summary_so_far
        return {**shown, "status_line": self.status_line}

    def to_json(self) -> Json:
        return {"content": self.content}

    @classmethod
    def from_json(cls, shown: Json) -> JobStatus:
        content = shown["content"]
        states, history, result = (content.get(name) for name in ("models_status", "history", "result"))
        return cls(
            **_summary(content),
            status_line=content.get("status_line", ""),
            models_status=None if states is None else tuple(map(ModelState.from_json, states)),
            result=result_from_json(result) if result else None,
            error=_error(content),
            final_summary=content.get("final_summary"),
            history=None if history is None else tuple(map(HistoryMessage.from_json, history)),
            document=content,
        )


@dataclass(frozen=True, slots=True)
class JobList:
    jobs: tuple[JobSummary, ...]
    document: Json | None = field(default=None, repr=False)

    @property
    def content(self) -> Json:
        return self.document if self.document is not None else {"jobs": _listed(self.jobs)}

    def to_json(self) -> Json:
        return {"content": self.content}

    @classmethod
    def from_json(cls, shown: Json) -> JobList:
        return cls(tuple(map(JobSummary.from_json, shown["content"]["jobs"])), shown["content"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """What came of cancelling a job: it was stopped, or had ended before."""

    status: JobState
    message: str
    job_id: str
    elapsed_seconds: float | None = None
    cancelled_at: str | None = None

    @property
    def content(self) -> Json:
        shown: dict[str, object] = {"status": self.status, "message": self.message, "job_id": self.job_id}
        if self.cancelled_at:
            shown |= {"elapsed_seconds": self.elapsed_seconds, "cancelled_at": self.cancelled_at}
        return shown

    def to_json(self) -> Json:
        return {"content": self.content}

    @classmethod
    def from_json(cls, shown: Json) -> Cancellation:
        content = shown["content"]
        return cls(
            status=content.get("status", "cancelled"),
            message=content.get("message", ""),
            job_id=content.get("job_id", ""),
            elapsed_seconds=content.get("elapsed_seconds"),
            cancelled_at=content.get("cancelled_at"),
        )

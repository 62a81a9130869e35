"""A job's status, the list of jobs, and what cancelling did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypedDict, TypeVar, cast

from counsel import json_reader as read
from counsel.errors import CounselError, from_dict
from counsel.job_events import Wait
from counsel.lazy_dataclass import dataclass
from counsel.results.answers import Result, result_from_json
from counsel.results.conversation import HistoryMessage
from counsel.results.parts import JobState, ModelStatus, listed, without_empty
from counsel.types import Json

T = TypeVar("T")


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
    first: str | None = None  # its first answer, once it refines it
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
        return shown | without_empty(partial=self.partial, initial_response=self.first)

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> ModelState:
        return cls(
            slot=read.text(shown, "slot"),
            model=read.text(shown, "model"),
            status=cast("ModelStatus", read.text(shown, "status", "waiting")),
            phase=read.text_or_none(shown, "phase"),
            text=read.text(shown, "text"),
            waiting_for=_wait(shown),
            error=_error(shown),
            partial=read.text_or_none(shown, "partial"),
            first=read.text_or_none(shown, "initial_response"),
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
    model: str | None = None  # that answered
    provider: str | None = None
    cost_usd: float | None = None  # of a job that has ended
    cost_complete: bool = True  # False: some price is not known

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
        return shown | without_empty(completed_at=self.completed_at, title=self.title, summary=self.summary)

    def outcome(self) -> dict[str, object]:
        """Who answered, at what cost: for programs. Agents' lists of jobs stay short."""
        shown = without_empty(model=self.model, provider=self.provider)
        if self.cost_usd is not None:
            shown["cost_usd"] = self.cost_usd
        return shown if self.cost_complete else {**shown, "cost_complete": False}

    def _wait(self) -> dict[str, object]:
        return {"waiting_for": self.waiting_for.to_json()} if self.waiting_for else {}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> JobSummary:
        return cls(**_summary(shown))


class _Summary(TypedDict):
    id: str
    job_id: str
    status: JobState
    tool: str
    models: tuple[str, ...]
    completed: int
    total: int
    elapsed_seconds: float
    started_at: str
    completed_at: str | None
    title: str | None
    summary: str | None
    waiting_for: Wait | None
    model: str | None
    provider: str | None
    cost_usd: float | None
    cost_complete: bool


def _summary(shown: dict[str, object]) -> _Summary:
    progress = read.part(shown, "progress")
    return {
        "id": read.text(shown, "id"),
        "job_id": read.text(shown, "job_id"),
        "status": cast("JobState", read.text(shown, "status", "processing")),
        "tool": read.text(shown, "tool"),
        "models": read.texts(shown, "models"),
        "completed": read.integer(progress, "completed"),
        "total": read.integer(progress, "total"),
        "elapsed_seconds": read.number(shown, "elapsed_seconds"),
        "started_at": read.text(shown, "started_at"),
        "completed_at": read.text_or_none(shown, "completed_at"),
        "title": read.text_or_none(shown, "title"),
        "summary": read.text_or_none(shown, "summary"),
        "waiting_for": _wait(shown),
        "model": read.text_or_none(shown, "model"),
        "provider": read.text_or_none(shown, "provider"),
        "cost_usd": read.number_or_none(shown, "cost_usd"),
        "cost_complete": read.flag(shown, "cost_complete", default=True),
    }


def _listed(
    read_one: Callable[[dict[str, object]], T], shown: dict[str, object], name: str
) -> tuple[T, ...] | None:
    return None if shown.get(name) is None else tuple(map(read_one, read.parts(shown, name)))


def _wait(shown: dict[str, object]) -> Wait | None:
    return Wait.from_json(read.part(shown, "waiting_for")) if shown.get("waiting_for") else None


def _error(shown: dict[str, object]) -> CounselError | None:
    return from_dict(read.part(shown, "error")) if shown.get("error") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus(JobSummary):
    """The whole of one job: progress, each model's text so far, and when it is done the result."""

    status_line: str
    models_status: tuple[ModelState, ...] | None = None
    result: Result | None = None
    error: CounselError | None = None
    final_summary: str | None = None
    history: tuple[HistoryMessage, ...] | None = None
    summary_so_far: str | None = None
    document: dict[str, object] | None = field(default=None, repr=False)

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
            shown["models_status"] = listed(self.models_status)
            if self.is_open or self.partial:
                shown["partial"] = self.partial
        if self.result is not None:
            shown["result"] = self.result.to_json()
        if self.error is not None:
            shown["error"] = self.error.as_dict()
        shown |= without_empty(final_summary=self.final_summary)
        if self.history is not None:
            shown["history"] = listed(self.history)
        shown |= self._wait()
        if self.summary_so_far is not None:
            shown["summary"] = self.summary_so_far
        return {**shown, "status_line": self.status_line}

    def to_json(self) -> Json:
        return {"content": self.content}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> JobStatus:
        content = read.part(shown, "content")
        result = read.part(content, "result")
        return cls(
            **_summary(content),
            status_line=read.text(content, "status_line"),
            models_status=_listed(ModelState.from_json, content, "models_status"),
            result=result_from_json(result) if result else None,
            error=_error(content),
            final_summary=read.text_or_none(content, "final_summary"),
            history=_listed(HistoryMessage.from_json, content, "history"),
            document=content,
        )


@dataclass(frozen=True, slots=True)
class JobList:
    jobs: tuple[JobSummary, ...]
    document: dict[str, object] | None = field(default=None, repr=False)

    @property
    def content(self) -> Json:
        return self.document if self.document is not None else {"jobs": listed(self.jobs)}

    def to_json(self) -> Json:
        return {"content": self.content}

    def with_outcomes(self) -> list[dict[str, object]]:
        """The jobs, with the model that answered and the cost of each."""
        return [job.to_json() | job.outcome() for job in self.jobs]

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> JobList:
        content = read.part(shown, "content")
        return cls(tuple(map(JobSummary.from_json, read.parts(content, "jobs"))), content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """What came of cancelling a job, or one of its models: it was stopped, or had ended before."""

    status: JobState
    message: str
    job_id: str
    elapsed_seconds: float | None = None
    cancelled_at: str | None = None
    member: str | None = None  # the slot of the one model that was stopped; the job continues

    @property
    def content(self) -> Json:
        shown: dict[str, object] = {"status": self.status, "message": self.message, "job_id": self.job_id}
        if self.cancelled_at:
            shown |= {"elapsed_seconds": self.elapsed_seconds, "cancelled_at": self.cancelled_at}
        return shown if self.member is None else {**shown, "member": self.member}

    def to_json(self) -> Json:
        return {"content": self.content}

    @classmethod
    def from_json(cls, shown: dict[str, object]) -> Cancellation:
        content = read.part(shown, "content")
        return cls(
            status=cast("JobState", read.text(content, "status", "cancelled")),
            message=read.text(content, "message"),
            job_id=read.text(content, "job_id"),
            elapsed_seconds=read.number_or_none(content, "elapsed_seconds"),
            cancelled_at=read.text_or_none(content, "cancelled_at"),
            member=read.text_or_none(content, "member"),
        )

"""A job's status, the list of jobs, and the result of cancelling."""

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
from counsel.results.parts import JobState, ModelStatus, json_list, without_empty
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
    partial: str | None = None  # the text of an answer that did not finish
    first: str | None = None  # its first answer, while it refines it
    stored: bool = False  # read from the database: its keys have another order

    def to_json(self) -> dict[str, object]:
        phase: dict[str, object] = {} if self.phase is None else {"phase": self.phase}
        text: dict[str, object] = {"text": self.text}
        document: dict[str, object] = {"slot": self.slot, "model": self.model, "status": self.status}
        document |= text | phase if self.stored else phase | text
        if self.waiting_for:
            document["waiting_for"] = self.waiting_for.to_json()
        if self.error:
            document["error"] = self.error.as_dict()
        return document | without_empty(partial=self.partial, initial_response=self.first)

    @classmethod
    def from_json(cls, document: dict[str, object]) -> ModelState:
        return cls(
            slot=read.text(document, "slot"),
            model=read.text(document, "model"),
            status=cast("ModelStatus", read.text(document, "status", "waiting")),
            phase=read.text_or_none(document, "phase"),
            text=read.text(document, "text"),
            waiting_for=_wait(document),
            error=_error(document),
            partial=read.text_or_none(document, "partial"),
            first=read.text_or_none(document, "initial_response"),
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
    model: str | None = None  # the model that answered
    provider: str | None = None
    cost_usd: float | None = None  # of a job that has ended
    cost_complete: bool = True  # False: some price is not known

    @property
    def is_open(self) -> bool:
        return self.status == "processing"

    def to_json(self) -> dict[str, object]:
        return self._head() | self._wait()

    def _head(self) -> dict[str, object]:
        document: dict[str, object] = {
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
        return document | without_empty(
            completed_at=self.completed_at, title=self.title, summary=self.summary
        )

    def outcome(self) -> dict[str, object]:
        """The model that answered, and the cost: for programs. Agents get shorter lists."""
        document = without_empty(model=self.model, provider=self.provider)
        if self.cost_usd is not None:
            document["cost_usd"] = self.cost_usd
        return document if self.cost_complete else {**document, "cost_complete": False}

    def _wait(self) -> dict[str, object]:
        return {"waiting_for": self.waiting_for.to_json()} if self.waiting_for else {}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> JobSummary:
        return cls(**_summary(document))


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


def _summary(document: dict[str, object]) -> _Summary:
    progress = read.part(document, "progress")
    return {
        "id": read.text(document, "id"),
        "job_id": read.text(document, "job_id"),
        "status": cast("JobState", read.text(document, "status", "processing")),
        "tool": read.text(document, "tool"),
        "models": read.texts(document, "models"),
        "completed": read.integer(progress, "completed"),
        "total": read.integer(progress, "total"),
        "elapsed_seconds": read.number(document, "elapsed_seconds"),
        "started_at": read.text(document, "started_at"),
        "completed_at": read.text_or_none(document, "completed_at"),
        "title": read.text_or_none(document, "title"),
        "summary": read.text_or_none(document, "summary"),
        "waiting_for": _wait(document),
        "model": read.text_or_none(document, "model"),
        "provider": read.text_or_none(document, "provider"),
        "cost_usd": read.number_or_none(document, "cost_usd"),
        "cost_complete": read.flag(document, "cost_complete", default=True),
    }


def _tuple_or_none(
    read_item: Callable[[dict[str, object]], T], document: dict[str, object], name: str
) -> tuple[T, ...] | None:
    return None if document.get(name) is None else tuple(map(read_item, read.parts(document, name)))


def _wait(document: dict[str, object]) -> Wait | None:
    return Wait.from_json(read.part(document, "waiting_for")) if document.get("waiting_for") else None


def _error(document: dict[str, object]) -> CounselError | None:
    return from_dict(read.part(document, "error")) if document.get("error") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus(JobSummary):
    """One job in detail: progress, each model's text so far, and the result once there is one."""

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
        """The text of answers that have not finished."""
        states = self.models_status or ()
        return "\n\n".join(filter(None, (state.text if self.is_open else state.partial for state in states)))

    @property
    def content(self) -> Json:
        if self.document is not None:
            return self.document
        document = self._head()
        if self.models_status is not None:
            document["models_status"] = json_list(self.models_status)
            if self.is_open or self.partial:
                document["partial"] = self.partial
        if self.result is not None:
            document["result"] = self.result.to_json()
        if self.error is not None:
            document["error"] = self.error.as_dict()
        document |= without_empty(final_summary=self.final_summary)
        if self.history is not None:
            document["history"] = json_list(self.history)
        document |= self._wait()
        if self.summary_so_far is not None:
            document["summary"] = self.summary_so_far
        return {**document, "status_line": self.status_line}

    def to_json(self) -> Json:
        return {"content": self.content}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> JobStatus:
        content = read.part(document, "content")
        result = read.part(content, "result")
        return cls(
            **_summary(content),
            status_line=read.text(content, "status_line"),
            models_status=_tuple_or_none(ModelState.from_json, content, "models_status"),
            result=result_from_json(result) if result else None,
            error=_error(content),
            final_summary=read.text_or_none(content, "final_summary"),
            history=_tuple_or_none(HistoryMessage.from_json, content, "history"),
            document=content,
        )


@dataclass(frozen=True, slots=True)
class JobList:
    jobs: tuple[JobSummary, ...]
    document: dict[str, object] | None = field(default=None, repr=False)

    @property
    def content(self) -> Json:
        return self.document if self.document is not None else {"jobs": json_list(self.jobs)}

    def to_json(self) -> Json:
        return {"content": self.content}

    def with_outcomes(self) -> list[dict[str, object]]:
        """The jobs, with the model that answered and the cost of each."""
        return [job.to_json() | job.outcome() for job in self.jobs]

    @classmethod
    def from_json(cls, document: dict[str, object]) -> JobList:
        content = read.part(document, "content")
        return cls(tuple(map(JobSummary.from_json, read.parts(content, "jobs"))), content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """The result of cancelling a job or one of its models: it was stopped, or had already ended."""

    status: JobState
    message: str
    job_id: str
    elapsed_seconds: float | None = None
    cancelled_at: str | None = None
    member: str | None = None  # the slot of the one model that was stopped; the job continues

    @property
    def content(self) -> Json:
        document: dict[str, object] = {"status": self.status, "message": self.message, "job_id": self.job_id}
        if self.cancelled_at:
            document |= {"elapsed_seconds": self.elapsed_seconds, "cancelled_at": self.cancelled_at}
        return document if self.member is None else {**document, "member": self.member}

    def to_json(self) -> Json:
        return {"content": self.content}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Cancellation:
        content = read.part(document, "content")
        return cls(
            status=cast("JobState", read.text(content, "status", "cancelled")),
            message=read.text(content, "message"),
            job_id=read.text(content, "job_id"),
            elapsed_seconds=read.number_or_none(content, "elapsed_seconds"),
            cancelled_at=read.text_or_none(content, "cancelled_at"),
            member=read.text_or_none(content, "member"),
        )

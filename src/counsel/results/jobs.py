"""A job's status, the list of jobs, and what cancelling did."""

from __future__ import annotations

from dataclasses import field

from counsel.errors import CounselError, from_dict
from counsel.job_events import Wait
from counsel.lazy_dataclass import dataclass
from counsel.results.answers import Result, result_from_json
from counsel.results.conversation import HistoryMessage
from counsel.results.parts import JobState, ModelStatus, listed, without_empty
from counsel.types import Json


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
            first=shown.get("initial_response"),
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
        "model": shown.get("model"),
        "provider": shown.get("provider"),
        "cost_usd": shown.get("cost_usd"),
        "cost_complete": shown.get("cost_complete", True),
    }


def _wait(shown: Json) -> Wait | None:
    return Wait.from_json(shown["waiting_for"]) if shown.get("waiting_for") else None


def _error(shown: Json) -> CounselError | None:
    return from_dict(shown["error"]) if shown.get("error") else None


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
        return self.document if self.document is not None else {"jobs": listed(self.jobs)}

    def to_json(self, *, outcomes: bool = False) -> Json:
        """`outcomes`: with the model that answered and the cost of each."""
        if outcomes:
            return {"content": {"jobs": [job.to_json() | job.outcome() for job in self.jobs]}}
        return {"content": self.content}

    @classmethod
    def from_json(cls, shown: Json) -> JobList:
        return cls(tuple(map(JobSummary.from_json, shown["content"]["jobs"])), shown["content"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """What came of cancelling a job, or one of its models: it was stopped, or had ended before."""

    status: JobState
    message: str
    job_id: str
    elapsed_seconds: float | None = None
    cancelled_at: str | None = None
    member: str | None = None  # the slot of the one model that was stopped; the job goes on

    @property
    def content(self) -> Json:
        shown: dict[str, object] = {"status": self.status, "message": self.message, "job_id": self.job_id}
        if self.cancelled_at:
            shown |= {"elapsed_seconds": self.elapsed_seconds, "cancelled_at": self.cancelled_at}
        return shown if self.member is None else {**shown, "member": self.member}

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
            member=content.get("member"),
        )

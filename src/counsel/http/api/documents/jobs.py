"""Jobs and conversations as the API shows them. `tests/support/openapi.py` compares every answer with these."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from counsel.engine.history.documents import ConversationSummary
from counsel.engine.history.timeline import SpanKind
from counsel.http.api.documents.answers import Answer, Consensus, ErrorDetail, Review
from counsel.job_events import WaitReason
from counsel.results import JobState, ModelStatus

# A class has the same name in the OpenAPI document; its docstring and the strings after its fields are descriptions.


# What an unfinished job, or one of its models, is waiting for. Empty: the wait is over.
Wait = TypedDict(
    "Wait",
    {
        "for": NotRequired[WaitReason],
        "text": NotRequired[Annotated[str, "For people."]],
        "job_id": NotRequired[Annotated[str, "For `turn`: the job that must end first."]],
        "at": NotRequired[
            Annotated[float, "For `retry`: the time of the next attempt, in seconds since 1970."]
        ],
        "names": NotRequired[
            Annotated[list[str], "For `keys`: the environment variables of the missing keys."]
        ],
    },
)


class Progress(TypedDict):
    completed: Annotated[int, "Number of models that have finished this round."]
    total: int
    percentage: int


class JobSummary(TypedDict):
    """One job in a list."""

    id: Annotated[str, "The conversation's id."]
    job_id: str
    status: JobState
    tool: Annotated[str, "`chat`, `consensus`, `askModel`, `review`, or `completion` (through `/v1`)."]
    models: list[str]
    progress: Progress
    elapsed_seconds: float
    started_at: Annotated[str, "ISO 8601, UTC."]
    completed_at: NotRequired[Annotated[str, "ISO 8601, UTC."]]
    title: NotRequired[str]
    summary: NotRequired[str]
    waiting_for: NotRequired[Wait]
    model: NotRequired[Annotated[str, "In a list: the model that answered."]]
    provider: NotRequired[Annotated[str, "In a list: its provider."]]
    cost_usd: NotRequired[Annotated[float, "In a list: the cost of a job that has ended, if it is known."]]
    cost_complete: NotRequired[Annotated[bool, "In a list: false if some prices are unknown."]]


class Jobs(TypedDict):
    """Newest first."""

    jobs: list[JobSummary]
    next: Annotated[str | None, "The cursor of the next page; null: this is the last page."]


class ModelState(TypedDict):
    """One model of a job that has not completed."""

    slot: Annotated[str, "The model's number within the job, the same as in events."]
    model: str
    status: ModelStatus
    phase: NotRequired[str]
    text: Annotated[str, "The model's text so far."]
    waiting_for: NotRequired[Wait]
    error: NotRequired[ErrorDetail]
    partial: NotRequired[Annotated[str, "Text of an answer that did not finish."]]
    initial_response: NotRequired[Annotated[str, "The first answer, while the model refines it."]]


class HistoryMessage(TypedDict):
    role: str
    content: str
    at: Annotated[str, "ISO 8601, UTC."]
    images: NotRequired[Annotated[int, "How many."]]
    metadata: NotRequired[dict[str, object]]


class Question(TypedDict):
    """What was asked, so that it can be asked again."""

    prompt: str
    models: list[str]
    files: Annotated[list[str], "Paths on the server's machine."]
    images: Annotated[int, "How many."]
    enable_cross_feedback: Annotated[
        bool, "Whether the models of a consensus read each other's answers and refine their own."
    ]
    use_websearch: bool
    reasoning_effort: NotRequired[str]
    members: NotRequired[
        Annotated[list[dict[str, object]], "The models with their roles and stances, if they have any."]
    ]
    judge: NotRequired[str]
    choices: NotRequired[list[str]]
    refine: NotRequired[str]
    rounds: NotRequired[int]
    order: NotRequired[str]


class Job(JobSummary):
    """One job: its progress, each model's text so far and, once it has completed, its result."""

    models_status: NotRequired[list[ModelState]]
    partial: NotRequired[Annotated[str, "Text of all answers that have not finished."]]
    result: NotRequired[Answer | Consensus | Review]
    error: NotRequired[ErrorDetail]
    final_summary: NotRequired[str]
    history: NotRequired[list[HistoryMessage]]
    question: NotRequired[Annotated[Question, "Only with `question=1`."]]
    status_line: str


class Cancelled(TypedDict):
    """The result of cancelling: the job or one of its models was stopped, or the job had already ended."""

    status: JobState
    message: str
    job_id: str
    elapsed_seconds: NotRequired[float]
    cancelled_at: NotRequired[str]
    member: NotRequired[Annotated[str, "The slot of the one model that was stopped; the job continues."]]


class Span(TypedDict):
    """A part of a job's time. Times are seconds since 1970."""

    kind: Annotated[
        SpanKind,
        "`queue`: before the first call. `round`: a round of a consensus. `answer`: one call. `first_word`: from the "
        "question to the first word. `retry`: until the next attempt. `restart`: text was discarded, or the job "
        "continued in another process. `tool`: a tool call. `wait`: waiting for a free slot.",
    ]
    slot: Annotated[str, "The model's number; empty: the job itself."]
    model: str
    label: Annotated[str, "The phase, the tool, or the reason for the wait."]
    start: float
    end: Annotated[float | None, "null: it has not ended. Equal to `start`: a single moment."]
    ok: Annotated[bool | None, "null: not known yet, or it cannot fail."]


class Timeline(TypedDict):
    """What happened to a job, and when, ordered by start."""

    job_id: str
    started_at: Annotated[float, "Seconds since 1970."]
    ended_at: float | None
    spans: list[Span]


class CancelJob(TypedDict, total=False):
    member: Annotated[str, "Stop only this model of a consensus: its slot, or its name in the job."]


class Deleted(TypedDict):
    deleted: Annotated[str, "The id."]


# ── conversations ────────────────────────────────────────────────────────────────────────────────────


class Message(HistoryMessage):
    job_id: NotRequired[Annotated[str, "The job that produced the message."]]
    image_ids: NotRequired[Annotated[list[str], "For `GET /api/images/{id}`."]]


class UnfinishedJob(TypedDict):
    """A job whose question is not in `history`."""

    job_id: str
    status: JobState
    title: str | None
    started_at: Annotated[str, "ISO 8601, UTC."]
    models: list[str]
    prompt: str
    image_ids: Annotated[list[str], "For `GET /api/images/{id}`."]
    files: Annotated[list[str], "Their names."]
    error: NotRequired[ErrorDetail]


class Conversation(ConversationSummary):
    """A conversation with its messages."""

    history: list[Message]
    is_own: NotRequired[Annotated[bool, "On a team's server: false if someone else shared the conversation."]]
    unfinished: Annotated[list[UnfinishedJob], "Jobs that ended without adding a turn."]
    running: Annotated[list[UnfinishedJob], "Jobs that have not ended."]

"""Events of a job as the API sends them: `data` of each kind."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from counsel.http.api.documents.answers import ErrorDetail
from counsel.http.api.documents.jobs import JobSummary, Wait
from counsel.job_events import RestartReason


class StartedData(TypedDict):
    tool: str
    models: list[str]
    job_id: str
    continuation_id: str


class ModelStartedData(TypedDict):
    """The model was asked. Its text from before, or from an earlier phase, is complete or discarded."""

    model: str
    phase: Annotated[str, "`answer`; in a consensus `initial` or `refined`."]


class TextData(TypedDict):
    """Put `text` at `offset`; discard everything after it."""

    text: str
    offset: Annotated[
        int, "Where `text` begins in this model's text of this phase, in characters (code points)."
    ]
    phase: str


class RestartedData(TypedDict):
    """The text of `model` from `offset` on is discarded, and the model `next` answers from the beginning."""

    model: str
    phase: str
    reason: RestartReason
    error: str
    next: str
    offset: int
    code: NotRequired[str]


class ThinkingData(TypedDict):
    text: str
    offset: Annotated[
        int, "Where `text` begins in this model's thinking; it replaces everything from there on."
    ]


class ToolData(TypedDict):
    name: str
    server: NotRequired[str]
    tool: NotRequired[str]
    ms: NotRequired[int]
    ok: NotRequired[bool]


class PartData(TypedDict):
    """In a call through `/v1`: a complete tool call, or a finished block of reasoning."""

    part: dict[str, object]


class ToolInputData(TypedDict):
    """In a call through `/v1`: a piece of a tool call's arguments. The event `part` contains the complete call."""

    id: str
    name: str
    text: str
    offset: Annotated[int, "Where `text` begins in the arguments."]


class NoticeData(TypedDict):
    kind_of: str
    text: str
    setting: NotRequired[Annotated[str, "For `left_out` and `adapted`: the setting's name."]]


class SpentData(TypedDict):
    input_tokens: int
    output_tokens: int
    cost_usd: Annotated[float | None, "null: no price is known."]


class ModelFinishedData(TypedDict):
    model: str
    phase: str
    provider: str
    ms: int
    length: Annotated[int, "The answer's length in characters."]
    first_ms: NotRequired[Annotated[int, "Milliseconds from the question to the first word."]]
    spent: NotRequired[Annotated[SpentData, "Tokens and cost of this answer."]]


class ModelFailedData(TypedDict):
    model: str
    phase: str
    error: ErrorDetail
    first_ms: NotRequired[Annotated[int, "Milliseconds from the question to the first word."]]


class PhaseData(TypedDict):
    phase: str


class DoneData(TypedDict):
    status: str


class FailedData(TypedDict):
    error: ErrorDetail


DATA: dict[str, type] = {
    "started": StartedData,
    "model_started": ModelStartedData,
    "text": TextData,
    "restarted": RestartedData,
    "thinking": ThinkingData,
    "tool": ToolData,
    "tool_input": ToolInputData,
    "part": PartData,
    "notice": NoticeData,
    "model_finished": ModelFinishedData,
    "model_failed": ModelFailedData,
    "waiting": Wait,
    "phase": PhaseData,
    "done": DoneData,
    "failed": FailedData,
    "cancelled": FailedData,
}


# ── `GET /api/events`: the `data` of each kind of message ────────────────────────────────────────────


class FollowedEvent(TypedDict):
    """`event: job`: what happened to one of the followed jobs."""

    job: str
    cursor: Annotated[
        str, "To resume here, append `~` and this cursor to the id in the next request's `job`."
    ]
    event: Annotated[dict[str, object], "A `JobEvent`."]


class ChangedJobs(TypedDict):
    """`event: jobs`: first the newest jobs, then jobs that are new or have changed."""

    jobs: list[JobSummary]


class GoneJob(TypedDict):
    """`event: gone`: there is no such job, or it was deleted."""

    job: str


STREAM: dict[str, type] = {"job": FollowedEvent, "jobs": ChangedJobs, "gone": GoneJob}

"""What goes into the store and comes out of it. Frozen: a record says what was true when it was read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from counsel.engine.store.model import Origin, Reply, Task
from counsel.errors import CounselError, Internal
from counsel.lazy_dataclass import dataclass
from counsel.requests import Status
from counsel.results import MessageDetails, QuestionDetails, Result

T = TypeVar("T")


class StoreError(Internal):
    """The database cannot be written: a full disk, a read-only folder, a damaged file."""


class LostJob(Exception):
    """Another process owns the job now, or it has ended: stop, write nothing."""


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Fence:
    """Proof that a job is ours: no write is accepted from any other owner or attempt."""

    job: str
    owner: str
    attempt: int


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """Which servers of a team may run a job, and how soon."""

    queue: str
    priority: int
    worker: int | None = None  # of this process, if it can run the job at once


@dataclass(frozen=True, slots=True)
class QueuedRow:
    """A row of the queue as its worker took it: what it writes about it later counts only if nothing has changed."""

    id: int
    attempts: int
    worker: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be written down, with the conversation that it begins or continues."""

    id: str
    key: str | None  # the call's own: the same key gives the same job
    conversation: str
    task: Task
    origin: Origin
    background: bool
    created: float
    owner: str
    attempt: int
    fingerprint: str  # of the keys that it needs
    expires: float  # when the conversation does
    keep_days: int  # after the job's end
    title: str
    may_continue: bool = True  # False: the conversation's name was made for this job
    queue: QueueEntry | None = None  # of a team


@dataclass(frozen=True, slots=True)
class Submitted:
    is_new: bool  # False: the same call was written down before
    conversation: str  # a tag may name another one than the job asked for
    is_ours: bool = True  # False: it waits in the team's queue


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job without its question and its result."""

    id: str
    key: str | None
    tool: str
    conversation: str
    status: Status
    background: bool
    created: float
    finished: float | None
    owner: str
    attempt: int
    stuck: int  # attempts in a row in which calls went out and none finished
    cancel: bool  # it was cancelled
    fingerprint: str
    models: tuple[str, ...]
    total: int
    completed: int
    title: str | None
    summary: str | None
    keep_days: int
    cancelled_members: tuple[str, ...]  # slots of a consensus that were stopped while the others continue

    @property
    def is_open(self) -> bool:
        return self.status == "processing"


@dataclass(frozen=True, slots=True)
class JobDetail(JobRecord):
    """A job with what it ended with."""

    result: Result | None
    error: CounselError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a list has. None: any."""

    status: Status | None = None
    tool: str | None = None
    model: str | None = None  # as it was requested
    conversation: str | None = None
    words: str | None = None  # all of them in the title, the summary, the models or an id


class Page(NamedTuple, Generic[T]):
    """A part of a list; `next` is where the following part starts, None after the last."""

    rows: list[T]
    next: str | None


@dataclass(frozen=True, slots=True)
class AdoptedJob:
    """A job of a dead owner, as its new owner needs it."""

    record: JobRecord
    task: Task
    origin: Origin


@dataclass(frozen=True, slots=True)
class JobStanding:
    """The current owner of a job, and whether it, or some of its models, were cancelled."""

    id: str
    owner: str
    attempt: int
    status: Status
    cancel: bool
    cancelled_members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobWithoutTurn:
    """A job of a conversation whose question is not a message: it runs, failed, or was cancelled."""

    id: str
    status: Status
    title: str | None
    created: float
    models: tuple[str, ...]
    prompt: str
    images: tuple[str, ...]
    files: tuple[str, ...]  # their names
    error: CounselError | None


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """Who answered a job that has ended, and what it cost."""

    model: str | None  # None: several models, or none
    provider: str | None
    cost: float | None
    cost_complete: bool
    tokens: int  # 0: not reported


@dataclass(frozen=True, slots=True)
class Entry:
    """A job or a conversation that an id names."""

    id: str
    title: str | None
    at: float  # a job's start, a conversation's last use
    status: str  # of a job
    conversation: str


# ── conversations ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    role: Literal["user", "assistant"]
    text: str
    asked: str | None = None  # a user's prompt without the files' contents
    images: tuple[str, ...] = ()  # blobs
    details: MessageDetails = field(default_factory=QuestionDetails)
    at: float = 0.0
    job: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTurn:
    """Messages that a job adds to its conversation."""

    conversation: str
    messages: tuple[Message, ...]
    provider: str | None
    model: str | None
    expires: float
    session: tuple[str, str] | None = None  # agent, and its own session

    @property
    def size(self) -> int:
        return sum(len(message.text) for message in self.messages)


@dataclass(frozen=True, slots=True)
class Conversation:
    id: str
    created: float
    updated: float
    expires: float
    tool: str
    title: str | None
    provider: str | None
    model: str | None
    project: str
    client: str
    tag: str | None
    messages: int


@dataclass(frozen=True, slots=True)
class Sharing:
    """A conversation that the team can read."""

    by: str  # its owner's name
    at: float  # since when


@dataclass(frozen=True, slots=True)
class SearchHit:
    conversation: Conversation
    text: str | None  # the newest message with the first word


@dataclass(frozen=True, slots=True)
class AgentSession:
    id: str
    messages: int  # of the conversation, that it has seen


# ── the end of a job ─────────────────────────────────────────────────────────────────────────────────

PartialTurn: TypeAlias = Callable[[Mapping[str, Reply]], "NewTurn | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCompleted:
    """An end with a result. `result` gets the number of messages that the conversation has now; it may be called again."""

    status: Status
    result: Callable[[int], Result]
    turn: NewTurn
    completed: int
    usage: tuple[UsageRecord, ...] = ()
    has_events: bool = True  # False: nothing of this job was ever appended
    is_kept: bool = True  # False: its caller has the answer, and nobody can ask for it again
    task: str | None = None  # without the messages that it had only to reach this process


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStopped:
    """An end without a result. `turn` makes a turn of the answers that had been remembered; it may be called again."""

    status: Status
    error: CounselError
    turn: PartialTurn
    task: str | None = None  # as in `JobCompleted`


JobEnd: TypeAlias = JobCompleted | JobStopped


# ── usage, images ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """One call to a model, whatever it was for."""

    at: float
    job: str
    tool: str
    provider: str
    model: str
    client: str
    ms: int
    code: str  # of a failure
    input: int
    output: int
    reasoning: int
    cache_read: int
    cache_write: int
    cost: float | None
    project: str = ""  # the job's folder; "": not known
    reservations: tuple[str, ...] = ()  # made for this call: its cost is now here, no longer there


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """All calls to one model."""

    provider: str
    model: str
    calls: int
    input: int
    output: int
    cost: float  # of the calls whose price is known
    seconds: float
    errors: Mapping[str, int]  # by code


@dataclass(frozen=True, slots=True)
class Blob:
    sha: str
    media_type: str
    data: bytes


# ── budgets ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class BudgetLimit:
    """The most that some calls may cost: of one job, or of a period, to all providers or one."""

    usd: float
    since: float  # costs from then on count
    job: str = ""  # "": of all jobs
    provider: str = ""  # "": to all providers
    share: float = 1.0  # how much of what is left one call may take, unless it needs more for a short answer
    person: str = ""  # "": of everyone
    group: str = ""  # all its members together

    @property
    def is_shared(self) -> bool:
        """Whether other processes spend from it, too."""
        return not self.job


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The most calls of a person, a group or to a provider: within a minute, or at the same time."""

    per: Literal["minute", "at_once"]
    most: int
    person: str = ""
    group: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True)
class RateState:
    """What counts against it. `frees`: when the next call fits, if that is known and none does now."""

    count: int
    frees: float | None = None


@dataclass(frozen=True, slots=True)
class BudgetState:
    """What is counted against a limit: costs of calls that are over, and what is reserved for those that run."""

    spent: float
    reserved: float

    def left(self, limit: BudgetLimit) -> float:
        return limit.usd - self.spent - self.reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationRequest:
    """Money for one request to a vendor: its input, and between `least` and `most` tokens of output."""

    id: str
    owner: str  # a process: reservations of dead ones are freed
    job: str
    provider: str
    model: str
    input_usd: float
    usd_per_token: float  # of output
    least: int
    fair: int  # taken even if it is more than the share of what is left
    most: int
    limits: tuple[BudgetLimit, ...]
    person: str = ""
    rates: tuple[RateLimit, ...] = ()

    def cost(self, tokens: int) -> float:
        return self.input_usd + tokens * self.usd_per_token


@dataclass(frozen=True, slots=True)
class Granted:
    """The reservation was made."""

    tokens: int  # of output
    usd: float
    lowered_by: int | None  # which of the limits made it fewer than `most`


@dataclass(frozen=True, slots=True)
class NotGranted:
    """Nothing was reserved: not even the least fits."""

    limit: int  # which one
    state: BudgetState
    needed: float


@dataclass(frozen=True, slots=True)
class TooMany:
    """Nothing was reserved: so many calls are not allowed."""

    rate: int  # which one
    state: RateState


ReservationOutcome: TypeAlias = Granted | NotGranted | TooMany


@dataclass(frozen=True, slots=True)
class OpenReservation:
    owner: str
    provider: str
    usd: float

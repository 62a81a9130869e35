"""Records that the store takes and returns. They are frozen: a record describes the state when it was read."""

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
    """A row of the queue as its worker took it. The worker's later changes apply only if the row is still the same."""

    id: int
    attempts: int
    worker: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to store, with the conversation that it starts or continues."""

    id: str
    key: str | None  # of the call: the same key gives the same job
    conversation: str
    task: Task
    origin: Origin
    background: bool
    created: float
    owner: str
    attempt: int
    fingerprint: str  # of the API keys that it needs
    expires: float  # when the conversation expires
    keep_days: int  # after the job's end
    title: str
    may_continue: bool = True  # False: the conversation's id was made for this job
    queue: QueueEntry | None = None  # set in a team


@dataclass(frozen=True, slots=True)
class Submitted:
    is_new: bool  # False: the same call was stored before
    conversation: str  # not the requested one if the job's tag names another
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
    stuck: int  # consecutive attempts that sent calls and finished none
    cancel: bool  # cancellation was requested
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
    """A job with its result or its error."""

    result: Result | None
    error: CounselError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a list includes. None: any."""

    status: Status | None = None
    tool: str | None = None
    model: str | None = None  # as it was requested
    conversation: str | None = None
    words: str | None = None  # all of them in the title, the summary, the models or an id


class Page(NamedTuple, Generic[T]):
    """One page of a list. `next` is the cursor of the following page, None on the last one."""

    rows: list[T]
    next: str | None


@dataclass(frozen=True, slots=True)
class AdoptedJob:
    """A job of a dead owner, with what its new owner needs to run it."""

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
    """A job whose question is not a message of its conversation: it runs, failed or was cancelled."""

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
    """The model that answered a job that has ended, and the cost."""

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
    prompt: str | None = None  # a user's prompt without the files' contents
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
    session: tuple[str, str] | None = None  # an agent, and the id of its own session

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
    text: str | None  # the newest message that contains the first word


@dataclass(frozen=True, slots=True)
class AgentSession:
    id: str
    messages: int  # how many messages of the conversation it has seen


# ── the end of a job ─────────────────────────────────────────────────────────────────────────────────

PartialTurn: TypeAlias = Callable[[Mapping[str, Reply]], "NewTurn | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCompleted:
    """An end with a result. `result` gets the number of messages in the conversation; it may be called repeatedly."""

    status: Status
    result: Callable[[int], Result]
    turn: NewTurn
    completed: int
    usage: tuple[UsageRecord, ...] = ()
    has_events: bool = True  # False: the job appended no events
    is_kept: bool = True  # False: the caller has the answer, and nobody can request it again
    task: str | None = None  # replaces the stored one, whose messages only had to reach this process


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStopped:
    """An end without a result. `turn` makes a turn from the stored replies; it may be called repeatedly."""

    status: Status
    error: CounselError
    turn: PartialTurn
    task: str | None = None  # as in `JobCompleted`


JobEnd: TypeAlias = JobCompleted | JobStopped


# ── usage, images ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """One call to a model, whatever its purpose."""

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
    project: str = ""  # the job's folder; "": unknown
    reservations: tuple[str, ...] = ()  # made for this call; the record's cost replaces theirs


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
    """The most that calls may cost: those of one job or of a period, to all providers or to one."""

    usd: float
    since: float  # earlier costs do not count
    job: str = ""  # "": of all jobs
    provider: str = ""  # "": to all providers
    share: float = 1.0  # of the remaining budget, for one call, unless a short answer needs more
    person: str = ""  # "": of everyone
    group: str = ""  # all its members together

    @property
    def is_shared(self) -> bool:
        """Whether other processes spend from it as well."""
        return not self.job


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The most calls by a person or a group, or to a provider, per minute or at the same time."""

    per: Literal["minute", "at_once"]
    max_calls: int
    person: str = ""
    group: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True)
class RateState:
    """The calls that count against a rate limit. `frees`: when the next call fits, if none fits now and it is known."""

    count: int
    frees: float | None = None


@dataclass(frozen=True, slots=True)
class BudgetState:
    """What counts against a limit: the cost of finished calls, and what is reserved for running ones."""

    spent: float
    reserved: float

    def left(self, limit: BudgetLimit) -> float:
        return limit.usd - self.spent - self.reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationRequest:
    """Money for one request to a vendor: its input, and between `min_output` and `max_output` tokens of output."""

    id: str
    owner: str  # a process: reservations of dead ones are freed
    job: str
    provider: str
    model: str
    input_usd: float
    usd_per_token: float  # of output
    min_output: int
    fair_output: int  # granted even if it is more than the share of the remaining budget
    max_output: int
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
    lowered_by: int | None  # index of the limit that made it fewer than `max_output`


@dataclass(frozen=True, slots=True)
class NotGranted:
    """Nothing was reserved: not even `min_output` fits."""

    limit: int  # index
    state: BudgetState
    needed: float


@dataclass(frozen=True, slots=True)
class TooMany:
    """Nothing was reserved: a rate limit is reached."""

    rate: int  # index
    state: RateState


ReservationOutcome: TypeAlias = Granted | NotGranted | TooMany


@dataclass(frozen=True, slots=True)
class OpenReservation:
    owner: str
    provider: str
    usd: float

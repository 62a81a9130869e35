"""The store as the engine uses it: operations on jobs, conversations, usage records and cached answers.

`docs/internals/store.md` has the whole contract. In short:

- A write starts when its method is called, and writes take effect in the order of the calls. Awaiting the returned
  `Pending` waits until the write is durable, or raises `StoreError`; a write that is not awaited logs its failure.
- A write with a `Fence` changes nothing unless the job is open and belongs to that owner and attempt.
- Reads see every awaited write of this store, and what other processes have committed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from counsel.engine.store.health import QueueState
from counsel.engine.store.model import Reply, Task
from counsel.engine.store.records import (
    AdoptedJob,
    AgentSession,
    Blob,
    BudgetLimit,
    BudgetState,
    Conversation,
    Fence,
    JobDetail,
    JobEnd,
    JobFilter,
    JobOutcome,
    JobRecord,
    JobStanding,
    JobWithoutTurn,
    Message,
    NewJob,
    OpenReservation,
    Page,
    QueuedRow,
    ReservationOutcome,
    ReservationRequest,
    SearchHit,
    Sharing,
    Submitted,
    UsageRecord,
    UsageTotal,
)
from counsel.job_events import JobEvent, Wait

if TYPE_CHECKING:
    from counsel.engine.store.audit import AuditStore
    from counsel.engine.store.limits import LimitStore
    from counsel.engine.store.people import PeopleStore
    from counsel.engine.store.person_keys import PersonKeyStore
    from counsel.engine.store.sessions import SessionStore

T_co = TypeVar("T_co", covariant=True)


class Pending(Protocol[T_co]):
    """A write in progress. Awaiting it is optional; cancelling the awaiting task does not stop it."""

    def __await__(self) -> Generator[object, None, T_co]: ...

    def done(self) -> bool: ...

    def exception(self) -> BaseException | None:
        """Why it failed; only once it is done."""


class JobStore(Protocol):
    # ── writes ───────────────────────────────────────────────────────────────────────────────────────

    def submit(self, job: NewJob, *, may_wait: bool = False) -> Pending[Submitted]:
        """Store a new job and its conversation. A job with a tag joins the conversation that the tag names.

        `may_wait`: no caller awaits it, so it may share the next write's commit.
        """

    def adopt(self, job: str, dead_owner: str, owner: str) -> Pending[AdoptedJob | None]:
        """Take an open job from an owner that is dead, as its next attempt. None: another process was faster."""

    def detach(self, job: str) -> Pending[None]:
        """Make it a background job, which continues without its caller."""

    def release(self, owner: str, *, keep: bool) -> Pending[None]:
        """The owner shuts down: its open jobs no longer have an owner. `keep`: synchronous ones are detached, too."""

    def request_cancel(self, job: str, member: str | None = None) -> Pending[bool]:
        """Ask the owner to stop an open job, or one of its models. False: the job has ended or is unknown."""

    def progress(self, fence: Fence, completed: int) -> Pending[None]: ...

    def describe(
        self, job: str, *, title: str | None = None, summary: str | None = None
    ) -> Pending[None]: ...

    def finish(
        self, fence: Fence, end: JobEnd, *, foreground: bool = False, alone: bool = False
    ) -> Pending[None]:
        """End a job and add its turn to the conversation; raises `LostJob`, without a change, if it is not ours.

        `foreground`: the caller waits on this machine, so the write may resolve some milliseconds before it is on disk.
        `alone`: no other job of this process is about to end and share the commit.
        """

    async def delete_job(self, job: str) -> bool:
        """Delete an ended job, also from the backups; its turn stays in its conversation. False: there was none."""

    # ── reads ────────────────────────────────────────────────────────────────────────────────────────

    async def job(self, job: str) -> JobDetail | None: ...

    async def job_with_key(self, key: str) -> str | None: ...

    async def keys_like(self, prefix: str) -> list[str]:
        """Keys of jobs that begin with this prefix of ASCII letters, digits and `-`."""

    async def task(self, job: str) -> Task | None:
        """The job's request; None: there is no such job."""

    async def existing_jobs(self, jobs: Collection[str]) -> set[str]:
        """The ids that belong to jobs."""

    async def recent_jobs(self, limit: int) -> list[JobRecord]:
        """Newest first."""

    async def jobs_page(
        self, limit: int, job_filter: JobFilter, cursor: str | None = None
    ) -> Page[JobRecord]:
        """Newest first. Raises `InvalidArgument` for a cursor that is not a page's `next`."""

    async def outcomes(self, jobs: Collection[str]) -> dict[str, JobOutcome]:
        """The outcomes of the jobs that have ended."""

    async def open_jobs(self, conversation: str | None = None) -> list[JobRecord]:
        """All that have not ended; those of one conversation in the order of its turns."""

    async def earlier_jobs(self, job: str) -> list[JobRecord]:
        """Open jobs of the same conversation that come before this one, of any owner, in the order of turns."""

    async def newest_job(self, conversation: str) -> JobDetail | None: ...

    async def jobs_without_turn(self, conversation: str) -> list[JobWithoutTurn]:
        """Jobs that run or ended without a result, and have no message in the conversation; oldest first."""

    async def standing(self, jobs: Sequence[str]) -> list[JobStanding]: ...

    async def owners(self) -> set[str]:
        """The owners of all open jobs."""


class CallStore(Protocol):
    """A job's calls to models: their replies, their events and the images that they send."""

    def mark_attempt(self, fence: Fence) -> Pending[None]:
        """This attempt sends a call: `stuck` grows by one; `remember` resets it."""

    def remember(self, fence: Fence, key: str, slot: str, reply: Reply, usage: UsageRecord) -> Pending[None]:
        """Store a finished call under its key, with its usage; delete the partial text that it replaces.

        A reply has been paid for, so it is stored even if the job was lost. The first one under a key stays.
        """

    async def reply(self, job: str, key: str) -> Reply | None: ...

    async def replies(self, job: str) -> dict[str, Reply]:
        """By key, sorted: of one model, `initial:…` comes before `refined:…`."""

    async def has_replies(self, job: str) -> bool: ...

    def append(self, fence: Fence, events: Iterable[JobEvent]) -> Pending[None]:
        """Add events to the job; nothing if the job was lost."""

    async def events(self, job: str, after: int) -> list[JobEvent]:
        """Those with a `seq` greater than `after`, in order."""

    async def last_seq(self, job: str) -> int: ...

    async def slots_with_text(self, job: str) -> list[str]:
        """Models that have begun to answer and have not finished."""

    async def waiting(self, job: str) -> Wait | None:
        """What a job, or one of its models, waits for, according to its events."""

    def mark(self, job: str) -> int:
        """For `wait_for_change`: take it before reading a job that another process runs. "": any job."""

    async def wait_for_change(self, job: str, mark: int, seconds: float) -> None:
        """Wait until any process may have changed the job since the mark, at most `seconds`.

        It is a hint: read the job again in any case.
        """

    def put_blobs(self, blobs: Sequence[Blob]) -> Pending[None]: ...

    async def blobs(self, shas: Iterable[str]) -> dict[str, Blob]: ...


class ConversationStore(Protocol):
    async def conversation(self, conversation: str) -> Conversation | None:
        """None when it has expired."""

    async def conversations(self, limit: int, *, offset: int = 0) -> list[Conversation]:
        """Those with messages, most recently used first."""

    async def search(self, words: str, limit: int) -> list[SearchHit]:
        """Conversations in which every word occurs, most recently used first."""

    async def conversations_page(
        self, limit: int, words: str = "", cursor: str | None = None
    ) -> Page[SearchHit]:
        """Like `search`, page by page; also conversations whose questions all failed or were stopped."""

    async def messages(self, conversation: str) -> list[Message]: ...

    async def conversation_size(self, conversation: str) -> int:
        """Characters of all its messages."""

    async def agent_session(self, conversation: str, agent: str) -> AgentSession | None: ...

    async def newest_tag(self, project: str, session: str | None = None) -> str | None:
        """The most recently used tag: of a session, or of those that belong to no session."""

    def set_title(self, conversation: str, title: str, *, instead_of: str) -> Pending[None]:
        """Set the title, unless it was changed meanwhile."""

    async def delete_conversation(self, conversation: str) -> bool:
        """Delete it with its finished jobs, also from the backups. False: there was none."""


class UsageStore(Protocol):
    def record_usage(self, usage: UsageRecord) -> Pending[None]:
        """For a call without `remember`: it failed, or made a job's title."""

    async def usage(self, since: float) -> list[UsageRecord]: ...

    async def usage_totals(self) -> list[UsageTotal]: ...

    async def cached_answer(self, key: str) -> Reply | None:
        """None when it has expired."""

    def cache_answer(self, key: str, reply: Reply, *, expires: float) -> Pending[None]: ...


class BudgetStore(Protocol):
    """Reservations of money. What counts against a limit: usage records, settled reservations, and open ones."""

    def reserve(self, requests: Sequence[ReservationRequest], at: float) -> Pending[list[ReservationOutcome]]:
        """Decide on all requests together, in one transaction that no other process overlaps: one outcome each.

        Those that fit with their `min_output` are granted, in order; what remains beyond that is divided evenly.
        Raises `StoreError` if limits that all processes share cannot be enforced, because they share no file.
        """

    def settle(self, reservation: str, usd: float, at: float) -> Pending[None]:
        """The request has ended and cost this much. The cost counts here until its usage record is stored."""

    def drop_reservations(self, *, ids: Collection[str] = (), owners: Collection[str] = ()) -> Pending[None]:
        """Delete open ones: their request was not sent, or their process is dead. Settled ones stay."""

    async def open_reservations(self) -> list[OpenReservation]: ...

    async def budget_states(self, limits: Sequence[BudgetLimit]) -> list[BudgetState]:
        """One for each limit."""


class Upkeep(Protocol):
    running: Callable[[], Sequence[NewJob]]  # the jobs of this process, for a database that is rebuilt

    @property
    def problem(self) -> str | None:
        """A warning for every answer, such as that nothing is stored."""

    def is_home(self) -> bool:
        """False when the home folder was deleted, moved or replaced while it was open."""

    def is_current(self) -> bool:
        """False for a moment after the database itself was deleted or replaced: do not clean up by what it says."""

    async def flush(self) -> None:
        """Wait until every earlier write is durable, or has failed."""

    def look(self) -> None:
        """Notice damage, and return to a disk that works again. Costs microseconds; called every two seconds."""

    async def check(self) -> None:
        """After an unclean shutdown: read everything once, and repair what is damaged."""

    async def sweep(self, max_bytes: int = 0) -> int:
        """Delete what has expired, stay within the limit (0: none), free space; return how many jobs were deleted."""

    async def back_up(self) -> None:
        """Make a backup if one is due."""

    async def close(self) -> None: ...


class McpSessions(Protocol):
    """MCP sessions over HTTP that several servers share."""

    def open(self, name: str, person: str, state: str) -> Pending[None]: ...

    async def use(self, name: str, person: str) -> str | None:
        """The state of this person's session, whose lifetime begins again; None: there is none."""

    async def uses(self, name: str) -> int:
        """How often the servers have used the session; 0 if it has ended."""

    def close(self, name: str) -> Pending[None]: ...


class Uploads(Protocol):
    """Files that people sent to one of several servers, each kept for a day."""

    def add(self, name: str, person: str, file: str, data: bytes) -> Pending[None]: ...

    async def read(self, name: str, person: str) -> tuple[str, bytes] | None:
        """The file's name and content; None if this person has no such upload."""


class TeamStore(Protocol):
    """Only PostgreSQL's store has people; with SQLite these raise `ConfigInvalid`."""

    @property
    def people(self) -> PeopleStore: ...

    @property
    def audit(self) -> AuditStore: ...

    @property
    def sessions(self) -> SessionStore: ...

    @property
    def limits(self) -> LimitStore: ...

    @property
    def person_keys(self) -> PersonKeyStore: ...

    def scoped(self, person: str) -> Store:
        """The store as a person sees it ("": callers who belong to no team): without the rows of others.

        For interfaces. It reads, cancels, deletes and shares the person's own rows; it runs no jobs.
        """

    def of_team(self) -> Store:
        """What people have shared with the team: conversations and their images, read-only."""

    async def sharings(self, conversations: Collection[str]) -> dict[str, Sharing]:
        """The sharings of those conversations that are shared."""

    def share(self, conversation: str, at: float | None) -> Pending[bool]:
        """Let the team read a conversation from now on, or (None) no longer. False: there is no such conversation."""


class Presence(Protocol):
    """Which owners of jobs are alive, on several machines."""

    gaps: int  # how often other processes may have considered this one dead

    async def hold(self, owner: str) -> None:
        """Show from now on that this owner is alive; return when other processes can see it."""

    def is_sure(self) -> bool:
        """Whether no other process can consider our owners dead."""

    async def sure(self) -> None:
        """Wait until `is_sure`."""

    def may_judge(self) -> bool:
        """False shortly after an outage of the database: other owners need time to show that they are alive."""

    async def states(self, owners: Collection[str]) -> dict[str, Literal["alive", "dead", "unknown"]]: ...

    async def release(self, owner: str) -> None:
        """The owner no longer has jobs."""


class Health(Protocol):
    async def check(self) -> None:
        """Raises `StoreError` when the database cannot be reached, `ConfigInvalid` when its tables do not match."""

    async def queue(self) -> QueueState: ...


class Queue(Protocol):
    """Which worker may run which job."""

    worker: int | None  # this process's number; None: not registered
    on_change: Callable[[], None]  # called when a row may be free

    async def register(self) -> int: ...

    async def unregister(self) -> None: ...

    async def beat(self) -> bool:
        """False: this worker is no longer registered."""

    def serve(self, queues: Sequence[str]) -> None:
        """Tell other processes from which queues this one takes jobs when it has capacity."""

    async def is_served(self, job: str) -> bool:
        """Whether a live process takes jobs from this job's queue."""

    async def fetch(self, queues: Sequence[str]) -> dict[str, Any] | None:
        """Take the next row, in procrastinate's form."""

    async def finish(self, row: QueuedRow) -> None:
        """Delete it, if it is still ours and our job has ended."""

    async def retry(self, row: QueuedRow, seconds: float) -> None:
        """Offer it to all workers after `seconds`, if it is still ours."""

    async def reap(self, dead_after: float) -> int:
        """Offer again what workers without a heartbeat for `dead_after` seconds had taken; return how many."""

    async def give_back_strays(self, owner: str, active: Collection[int]) -> None:
        """Offer again the rows that this worker holds although it neither runs nor owns their jobs."""

    async def jobs_of(self, owner: str) -> list[str]:
        """Open jobs of this owner."""

    async def release_job(self, job: str, owner: str) -> None: ...

    async def unattended(self) -> list[tuple[str, str]]:
        """Open jobs, with their owners, that have no row, are to be cancelled, or are older than jobs are kept."""

    async def turns_behind(self, jobs: Collection[str]) -> list[tuple[str, str]]:
        """The jobs that nobody has taken yet, that a caller waits for, and that are not the first open turn of
        their conversation; each with that first turn.
        """

    async def enqueue_missing(self, jobs: Collection[str]) -> None:
        """Offer the jobs that have no row."""

    async def defer_periodic(self, name: str, queue: str, moment: int) -> None: ...

    async def forget_workers(self, seconds: float) -> None: ...


class Team(Protocol):
    """What servers on several machines share besides stored data."""

    @property
    def health(self) -> Health: ...

    @property
    def presence(self) -> Presence: ...

    @property
    def queue(self) -> Queue: ...

    async def secret(self) -> bytes:
        """The key of all callers' fingerprints; the first server that needs it makes it."""


class Store(JobStore, CallStore, ConversationStore, UsageStore, BudgetStore, TeamStore, Upkeep, Protocol):
    """Everything that is stored."""

    @property
    def team(self) -> Team | None:
        """None where only processes of one machine use the store."""

    @property
    def mcp_sessions(self) -> McpSessions | None:
        """None where only servers of one machine use the store: each keeps its own in memory."""

    @property
    def uploads(self) -> Uploads | None:
        """None where only servers of one machine use the store: they are files of COUNSEL_HOME."""

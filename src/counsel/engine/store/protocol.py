"""The store as the engine sees it: operations on jobs, conversations, usage records and cached answers.

`docs/internals/store.md` has the whole contract. In short:

- A write starts when its method is called, and writes take effect in the order of the calls. Awaiting what comes back
  means waiting until it is durable, or raises `StoreError`; a write that is not awaited logs its failure.
- A write with a `Fence` changes nothing unless the job is open and belongs to that owner and attempt.
- Reads see every write of this store that was awaited, and what other processes have committed.
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
    """A write on its way. Awaiting it is optional; cancelling who awaits does not stop it."""

    def __await__(self) -> Generator[object, None, T_co]: ...

    def done(self) -> bool: ...

    def exception(self) -> BaseException | None:
        """Why it failed; only once it is done."""


class JobStore(Protocol):
    # ── writes ───────────────────────────────────────────────────────────────────────────────────────

    def submit(self, job: NewJob, *, may_wait: bool = False) -> Pending[Submitted]:
        """Write a new job down, and its conversation. A tag joins the conversation that the tag names.

        `may_wait`: no caller awaits it, so it may share the next write's commit.
        """

    def adopt(self, job: str, dead_owner: str, owner: str) -> Pending[AdoptedJob | None]:
        """Take an open job from an owner that is dead, as its next attempt. None: another process was faster."""

    def detach(self, job: str) -> Pending[None]:
        """From now on it is a background job: it continues without its caller."""

    def release(self, owner: str, *, keep: bool) -> Pending[None]:
        """The owner ends in good order: its open jobs have no owner. `keep`: synchronous ones are detached, too."""

    def request_cancel(self, job: str, member: str | None = None) -> Pending[bool]:
        """Ask the owner to stop an open job, or one of its models. False: the job is over, or unknown."""

    def progress(self, fence: Fence, completed: int) -> Pending[None]: ...

    def describe(
        self, job: str, *, title: str | None = None, summary: str | None = None
    ) -> Pending[None]: ...

    def finish(
        self, fence: Fence, end: JobEnd, *, foreground: bool = False, alone: bool = False
    ) -> Pending[None]:
        """End a job together with the turn that it adds to its conversation; raises `LostJob` without a change.

        `foreground`: its caller waits for it, on this machine, so it may be done some milliseconds before it is on disk.
        `alone`: no other job of this process is about to end, so there is no commit to share.
        """

    async def delete_job(self, job: str) -> bool:
        """A job that has ended, from the backups, too; its turn stays in its conversation. False: there was none."""

    # ── reads ────────────────────────────────────────────────────────────────────────────────────────

    async def job(self, job: str) -> JobDetail | None: ...

    async def job_with_key(self, key: str) -> str | None: ...

    async def keys_like(self, prefix: str) -> list[str]:
        """Keys of jobs that begin with this prefix of ASCII letters, digits and `-`."""

    async def task(self, job: str) -> Task | None:
        """What was asked; None: there is no such job."""

    async def existing_jobs(self, jobs: Collection[str]) -> set[str]:
        """Those of the ids that are jobs."""

    async def recent_jobs(self, limit: int) -> list[JobRecord]:
        """Newest first."""

    async def jobs_page(self, limit: int, chosen: JobFilter, cursor: str | None = None) -> Page[JobRecord]:
        """Newest first. Raises `InvalidArgument` for a cursor that is not a page's `next`."""

    async def outcomes(self, jobs: Collection[str]) -> dict[str, JobOutcome]:
        """Of those that have ended."""

    async def open_jobs(self, conversation: str | None = None) -> list[JobRecord]:
        """All that have not ended. Of one conversation: in the order of its turns."""

    async def earlier_jobs(self, job: str) -> list[JobRecord]:
        """Open jobs of the same conversation that come before this one, of any owner, in the order of turns."""

    async def newest_job(self, conversation: str) -> JobDetail | None: ...

    async def jobs_without_turn(self, conversation: str) -> list[JobWithoutTurn]:
        """Jobs that run, or ended without a result, and of which the conversation has nothing; oldest first."""

    async def standing(self, jobs: Sequence[str]) -> list[JobStanding]: ...

    async def owners(self) -> set[str]:
        """Of all open jobs."""


class CallStore(Protocol):
    """A job's calls to models: their replies, their events and the images that they send."""

    def mark_attempt(self, fence: Fence) -> Pending[None]:
        """A call of this attempt goes out: `stuck` grows, until a reply is remembered."""

    def remember(self, fence: Fence, key: str, slot: str, reply: Reply, usage: UsageRecord) -> Pending[None]:
        """Keep a finished call under its key, with its usage; drop the partial text that it replaces.

        A reply was paid for, so it is stored even when the job was lost. The first one under a key stays.
        """

    async def reply(self, job: str, key: str) -> Reply | None: ...

    async def replies(self, job: str) -> dict[str, Reply]:
        """By key, sorted: of one model, `initial:…` comes before `refined:…`."""

    async def has_replies(self, job: str) -> bool: ...

    def append(self, fence: Fence, events: Iterable[JobEvent]) -> Pending[None]:
        """Add events of the job. Nothing when the job was lost."""

    async def events(self, job: str, after: int) -> list[JobEvent]:
        """In order of `seq`, behind `after`."""

    async def last_seq(self, job: str) -> int: ...

    async def slots_with_text(self, job: str) -> list[str]:
        """Models that had begun to answer, and had not finished."""

    async def waiting(self, job: str) -> Wait | None:
        """What a job, or a model of it, waits for by its events."""

    def mark(self, job: str) -> int:
        """Before reading a job that another process runs: what `wait_for_change` needs. "": any job."""

    async def wait_for_change(self, job: str, mark: int, seconds: float) -> None:
        """Until the job may have changed since the mark, in whatever process, at most so long.

        A hint: read again in any case.
        """

    def put_blobs(self, blobs: Sequence[Blob]) -> Pending[None]: ...

    async def blobs(self, shas: Iterable[str]) -> dict[str, Blob]: ...


class ConversationStore(Protocol):
    async def conversation(self, conversation: str) -> Conversation | None:
        """None when it has expired."""

    async def conversations(self, limit: int, *, offset: int = 0) -> list[Conversation]:
        """Those with messages, the last used first."""

    async def search(self, words: str, limit: int) -> list[SearchHit]:
        """Conversations in which every word occurs, the last used first."""

    async def conversations_page(
        self, limit: int, words: str = "", cursor: str | None = None
    ) -> Page[SearchHit]:
        """Those in which every word occurs, the last used first; also those whose questions all failed or were stopped."""

    async def messages(self, conversation: str) -> list[Message]: ...

    async def conversation_size(self, conversation: str) -> int:
        """Characters of all its messages."""

    async def agent_session(self, conversation: str, agent: str) -> AgentSession | None: ...

    async def newest_tag(self, project: str, session: str | None = None) -> str | None:
        """The tag that was used last: among a session's own, or among those that belong to no session."""

    def set_title(self, conversation: str, title: str, *, instead_of: str) -> Pending[None]:
        """Unless the title was changed meanwhile."""

    async def delete_conversation(self, conversation: str) -> bool:
        """With its finished jobs, from the backups, too. False: there was none."""


class UsageStore(Protocol):
    def record_usage(self, usage: UsageRecord) -> Pending[None]:
        """Of a call that no job remembers: it failed, or was about a job."""

    async def usage(self, since: float) -> list[UsageRecord]: ...

    async def usage_totals(self) -> list[UsageTotal]: ...

    async def cached_answer(self, key: str) -> Reply | None:
        """None when it has expired."""

    def cache_answer(self, key: str, reply: Reply, *, expires: float) -> Pending[None]: ...


class BudgetStore(Protocol):
    """Reservations of money. What counts against a limit: usage records, settled reservations, and open ones."""

    def reserve(self, requests: Sequence[ReservationRequest], at: float) -> Pending[list[ReservationOutcome]]:
        """Decide about all of them together, in one transaction with every other process: an outcome for each.

        As many as fit with their `least` output are granted, in order; what is left beyond that is divided evenly.
        Raises `StoreError` where limits of all processes cannot be kept: without a file that they share.
        """

    def settle(self, reservation: str, usd: float, at: float) -> Pending[None]:
        """The request is over and has cost this much. It counts until its usage record is stored."""

    def drop_reservations(self, *, ids: Collection[str] = (), owners: Collection[str] = ()) -> Pending[None]:
        """Open ones whose request was not sent, or whose process is dead. Settled ones stay."""

    async def open_reservations(self) -> list[OpenReservation]: ...

    async def budget_states(self, limits: Sequence[BudgetLimit]) -> list[BudgetState]:
        """One for each."""


class Upkeep(Protocol):
    running: Callable[[], Sequence[NewJob]]  # the jobs of this process, for a database that is rebuilt

    @property
    def problem(self) -> str | None:
        """A warning for every answer, such as that nothing is stored."""

    def is_home(self) -> bool:
        """False when the home folder was deleted, moved or replaced while it was open."""

    def is_current(self) -> bool:
        """False for a moment when the database itself was deleted or replaced: nothing may be tidied up by it."""

    async def flush(self) -> None:
        """Until every write that was called before is durable, or has failed."""

    def look(self) -> None:
        """Notice damage, and return to a disk that works again. Costs microseconds; called every two seconds."""

    async def check(self) -> None:
        """After an unclean end: read everything once, and repair what is damaged."""

    async def sweep(self, max_bytes: int = 0) -> int:
        """Delete what has expired, keep within the limit (0: none), free space; how many jobs were deleted."""

    async def back_up(self) -> None:
        """If a backup is due."""

    async def close(self) -> None: ...


class McpSessions(Protocol):
    """MCP sessions over HTTP that several servers share."""

    def open(self, name: str, person: str, state: str) -> Pending[None]: ...

    async def use(self, name: str, person: str) -> str | None:
        """The state of this person's session, which lives on from now; None: there is none."""

    async def uses(self, name: str) -> int:
        """How often it was used, by any server; 0 when it is over."""

    def close(self, name: str) -> Pending[None]: ...


class Uploads(Protocol):
    """Files that people sent to one of several servers, each kept for a day."""

    def add(self, name: str, person: str, file: str, data: bytes) -> Pending[None]: ...

    async def read(self, name: str, person: str) -> tuple[str, bytes] | None:
        """The file's name and content; None where this person has no such upload."""


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
        """The store as a person sees it ("": whoever belongs to no team): rows of others do not exist there.

        For interfaces. It reads, cancels, deletes and shares what is the person's own; it runs no jobs.
        """

    def of_team(self) -> Store:
        """What people have shared with the team: conversations and their images, to be read."""

    async def sharings(self, conversations: Collection[str]) -> dict[str, Sharing]:
        """Of those that are shared."""

    def share(self, conversation: str, at: float | None) -> Pending[bool]:
        """Let the team read a conversation from now on, or (None) no longer. False: there is none."""


class Presence(Protocol):
    """Which owners of jobs live, on several machines."""

    gaps: int  # how often others may have thought that this process was dead

    async def hold(self, owner: str) -> None:
        """Show from now on that this owner lives; returns when the others can see it."""

    def is_sure(self) -> bool:
        """Whether no other process can take our owners for dead."""

    async def sure(self) -> None:
        """Until `is_sure`."""

    def may_judge(self) -> bool:
        """False shortly after the database was away: others have not had the time to show that they live."""

    async def states(self, owners: Collection[str]) -> dict[str, Literal["alive", "dead", "unknown"]]: ...

    async def release(self, owner: str) -> None:
        """It owns nothing any more."""


class Health(Protocol):
    async def check(self) -> None:
        """Raises `StoreError` when the database cannot be reached, `ConfigInvalid` when its tables do not fit."""

    async def queue(self) -> QueueState: ...


class Queue(Protocol):
    """Who may work on which job. Each is one statement."""

    worker: int | None  # this process's number; None: it is not registered
    on_change: Callable[[], None]  # called when a row may be free

    async def register(self) -> int: ...

    async def unregister(self) -> None: ...

    async def beat(self) -> bool:
        """False: this worker is not registered any more."""

    def serve(self, queues: Sequence[str]) -> None:
        """Tell the others from which queues this process takes jobs, when it has room."""

    async def is_served(self, job: str) -> bool:
        """Whether a living process takes jobs from the queue of this one."""

    async def fetch(self, queues: Sequence[str]) -> dict[str, Any] | None:
        """Take the next row, in procrastinate's form."""

    async def finish(self, row: QueuedRow) -> None:
        """Delete it, if it is still ours and our job has ended."""

    async def retry(self, row: QueuedRow, seconds: float) -> None:
        """Offer it to all after so many seconds, if it is still ours."""

    async def reap(self, dead_after: float) -> int:
        """Offer what workers had taken that have not shown for so many seconds that they live; how many."""

    async def give_back_strays(self, owner: str, active: Collection[int]) -> None:
        """Offer rows that this worker has and neither works on nor owns the job of."""

    async def jobs_of(self, owner: str) -> list[str]:
        """Open jobs of this owner."""

    async def release_job(self, job: str, owner: str) -> None: ...

    async def unattended(self) -> list[tuple[str, str]]:
        """Open jobs, with their owners, that have no row, are to be cancelled, or are older than jobs are kept."""

    async def turns_behind(self, jobs: Collection[str]) -> list[tuple[str, str]]:
        """Those of them that nobody has taken yet, that a caller waits for, and that are not the first open turn of
        their conversation; each with the first.
        """

    async def enqueue_missing(self, jobs: Collection[str]) -> None:
        """Offer those of them that have no row."""

    async def defer_periodic(self, name: str, queue: str, moment: int) -> None: ...

    async def forget_workers(self, seconds: float) -> None: ...


class Team(Protocol):
    """What servers on several machines share beside what is stored."""

    @property
    def health(self) -> Health: ...

    @property
    def presence(self) -> Presence: ...

    @property
    def queue(self) -> Queue: ...

    async def secret(self) -> bytes:
        """The key of all callers' fingerprints; made by the first server that asks."""


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

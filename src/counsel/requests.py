"""Requests to the engine, and the engine's interface for the CLI, MCP, HTTP and the socket.

These know this module and nothing behind it: no provider, no store. Results have types (`results/`), which each
interface turns into JSON when it sends them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, NotRequired, Protocol, TypeAlias, TypedDict

from counsel.caller import Caller
from counsel.job_events import JobEvent
from counsel.lazy_dataclass import dataclass
from counsel.results import Accepted, Cancellation, JobList, JobState, JobStatus, LeftOutFile, Result
from counsel.types import Effort, Exact, Json, MediaResolution, ToolSpec, Turn, Verbosity

Status: TypeAlias = JobState
MAX_MODELS = 20  # of one consensus
Refine: TypeAlias = Literal["always", "disagreement", "never"]
Order: TypeAlias = Literal["parallel", "sequential"]
Stance: TypeAlias = Literal["for", "against", "neutral"]
SEVERAL = frozenset({"consensus", "review"})  # tools that ask several models
MAX_CHAIN = 10  # models in one chain
DEFAULT_MODEL = "default"  # the conversation's model; of a new conversation, the user's setting


def chain(model: str) -> tuple[str, ...]:
    """`gpt-5, opus, local`: the models to try, one after another. A single name is a chain of one."""
    return tuple(part.strip() for part in model.split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The arguments that all questions share. None means that the caller did not set one."""

    prompt: str
    files: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    continuation_id: str | None = None
    temperature: float | None = None
    reasoning_effort: Effort | None = None
    verbosity: Verbosity | None = None
    use_websearch: bool = False
    media_resolution: MediaResolution | None = None
    export: bool | str = False  # True: a folder inside the caller's; a path: that folder
    tools: tuple[str, ...] = ()  # MCP servers that the consulted model may use
    system: str | None = None  # instead of counsel's own system prompt
    max_cost_usd: float | None = None  # of all calls of the job


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest(Question):
    model: str = "auto"
    tool: Literal["chat", "askModel"] = "chat"
    session_tag: str | None = None
    schema: Json | None = None  # JSON Schema that the answer must match
    session: str | None = None  # of the socket that the request came through; each session has its own tags


class Member(TypedDict):
    """A model of a consensus with a role or a stance."""

    model: str
    role: NotRequired[str]  # such as `security reviewer`
    stance: NotRequired[Stance]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsensusRequest(Question):
    models: tuple[str | Member, ...]  # names, `auto`, `@panel`
    judge: str | None = None  # a model, `auto`, `none`, or `default`: the user's setting
    choices: tuple[str, ...] = ()  # every model picks one of them
    refine: Refine | None = None  # None: `always`, or `never` without cross feedback
    rounds: int = 2  # including the first one
    order: Order = "parallel"
    enable_cross_feedback: bool = True
    cross_feedback_prompt: str | None = None
    check_models: bool = False  # refuse the request if a model cannot be asked, instead of asking the others


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRequest(Question):
    """`prompt` says what was compared, and what to look at."""

    diff: str  # unified
    models: tuple[str | Member, ...] = ("auto",)
    about: str = ""  # what was compared, for readers
    root: str | None = None  # the repository's folder, to tell whether a finding's file exists
    left_out: tuple[LeftOutFile, ...] = ()  # files that are not in the diff
    check_models: bool = False


_EXACT = Exact()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """A call of a client that uses OpenAI's or Anthropic's API: it keeps the conversation and sends all of it.

    The turns are stored only with `stored`: such prompts are long, and the client sends them again with every call.
    """

    model: str
    turns: tuple[Turn, ...]
    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    reasoning_effort: Effort | None = None
    verbosity: Verbosity | None = None
    max_output: int | None = None
    schema: Json | None = None
    exact: Exact = _EXACT
    # What only `exact.native` can express: `document`, `the tool code_execution_20250825`.
    untranslated: tuple[str, ...] = ()
    # Tools that only `exact.native` can express, among others: left out if necessary.
    offered: tuple[str, ...] = ()
    web_search: bool = False  # the vendor may search the web
    is_streamed: bool = False  # text that was sent cannot be withdrawn
    stored: bool = False
    previous: str | None = None  # the job whose turns come first
    continuation_id: str | None = None
    # The next three: of a counsel that passes its own calls on to this server.
    as_counsel: bool = False  # send the call with counsel's defaults, not exactly as it came
    media_resolution: MediaResolution | None = None
    output_limit: int | None = None  # of all output including reasoning, in tokens


Request: TypeAlias = ChatRequest | ConsensusRequest | ReviewRequest


class NewKey(str):
    """The key of a call that was never sent before: no job can have it yet."""

    __slots__ = ()


class Engine(Protocol):
    def register_caller(self, caller: Caller) -> None:
        """Tell the engine that a caller with its keys has connected: jobs that wait for these keys can continue."""

    async def submit(
        self, request: Request, caller: Caller, *, background: bool = False, key: str | None = None
    ) -> str:
        """Check the request, store the job, start it and return its id. Raises `Refused` before anything is sent.

        The same unguessable `key` returns the same job: a client sends a call again after the daemon has died.
        """

    async def wait(self, job_id: str) -> Result:
        """Wait for the job's result; a failed job raises its error."""

    def follow(self, job_id: str, after: int = 0) -> AsyncGenerator[JobEvent]:
        """The events after number `after`: past ones, then new ones until the job ends."""

    async def accepted(self, job_id: str) -> Accepted:
        """The immediate answer to a background call."""

    async def detach(self, job_id: str) -> None:
        """Let the job continue like a background call, because the caller no longer waits."""

    async def cancel(self, any_id: str, member: str | None = None) -> Cancellation:
        """Stop exactly this job. Takes a job's id, or a conversation's with one running job.

        `member`: only this model of a consensus, by its name or slot.
        """

    async def status(self, any_id: str, *, full_history: bool = False) -> JobStatus:
        """A job's state. Takes a job's id, or a conversation's for its newest job."""

    async def recent(self, limit: int = 10) -> JobList:
        """The latest jobs, newest first."""

    async def close(self) -> None:
        """Stop everything that runs here; the jobs can continue in another process."""


class NotReady(Protocol):
    """A reason why a process should get no work. Anyone may read it."""

    def to_json(self) -> Json: ...


class LocalEngine(Engine, Protocol):
    """An engine in this process, as the daemon sees it."""

    async def busy(self) -> bool:
        """Whether a job runs here, or a job of a dead process can be continued or ended here."""

    def home_is_ours(self) -> bool:
        """Whether COUNSEL_HOME is still the folder that was opened: it may have been deleted, moved or replaced."""

    async def drain(self, seconds: float) -> None:
        """Before `close`, in a team: take no more jobs, and let running ones end within this time."""

    async def metrics_text(self, *, people: bool = False) -> str:
        """The content of `/metrics`, in Prometheus's text format. `people`: also by person."""

    async def not_ready(self, queue_seconds: int) -> Sequence[NotReady]:
        """Why this process should get no work; empty if it should. A job may wait `queue_seconds` (0: any time)."""

    async def close(self, *, keep: bool = False) -> None:
        """Stop. `keep`: the next engine also continues synchronous calls, even if their callers do not reconnect."""

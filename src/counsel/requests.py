"""Requests to the engine, and the engine's interface for the CLI, MCP, HTTP and the socket.

These know this module and nothing behind it: no provider, no store. Results have types (`results/`); each interface
turns them into JSON at its edge.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
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
MAX_CHAIN = 10  # models of one chain
DEFAULT_MODEL = "default"  # the conversation's model; of a new conversation, the user's setting


def chain(model: str) -> tuple[str, ...]:
    """`gpt-5, opus, local`: the models to try, one after another. A single name is a chain of one."""
    return tuple(part.strip() for part in model.split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What `chat` and `consensus` have in common. None means that the caller did not set it."""

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
    session: str | None = None  # the session of the socket it came through, which has its own tags


class Member(TypedDict):
    """A model of a consensus with a part to play."""

    model: str
    role: NotRequired[str]  # such as `security reviewer`
    stance: NotRequired[Stance]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsensusRequest(Question):
    models: tuple[str | Member, ...]  # names, `auto`, `@panel`
    judge: str | None = None  # a model, `auto`, `none`, or `default`: the user's setting
    choices: tuple[str, ...] = ()  # every model picks one of them
    refine: Refine | None = None  # None: `always`, or `never` without cross feedback
    rounds: int = 2  # the first one included
    order: Order = "parallel"
    enable_cross_feedback: bool = True
    cross_feedback_prompt: str | None = None
    check_models: bool = (
        False  # refuse the request if one of the models cannot be asked, instead of asking the others
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRequest(Question):
    """`prompt` says what was compared, and what to look at."""

    diff: str  # unified
    models: tuple[str | Member, ...] = ("auto",)
    about: str = ""  # what was compared, for readers
    root: str | None = None  # the repository's folder: to tell whether a finding's file exists
    left_out: tuple[LeftOutFile, ...] = ()  # files that whoever made the diff left out
    check_models: bool = False


_EXACT = Exact()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """A call of a client that speaks OpenAI's or Anthropic's API: the client has the conversation, and sends all of it.

    Its turns are stored only if `stored`: a gateway's prompts are long, and the client sends them again with every call.
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
    untranslated: tuple[
        str, ...
    ] = ()  # what only `exact.native` expresses: `document`, `the tool code_execution_20250825`
    offered: tuple[
        str, ...
    ] = ()  # tools that only `exact.native` expresses, beside others: left out if need be
    web_search: bool = False  # the vendor may search the web
    is_streamed: bool = False  # text that was sent cannot be taken back
    stored: bool = False
    previous: str | None = None  # a job whose turns come first
    continuation_id: str | None = None
    # of a counsel that passes its own calls on to this server
    as_counsel: bool = False  # sent with counsel's defaults, and not exactly as it came
    media_resolution: MediaResolution | None = None
    output_limit: int | None = None  # of all output with its reasoning, in tokens


Request: TypeAlias = ChatRequest | ConsensusRequest | ReviewRequest


class NewKey(str):
    """A call's key that was never sent before: no job can have it."""

    __slots__ = ()


class Engine(Protocol):
    def register_caller(self, caller: Caller) -> None:
        """A caller with its keys has connected: jobs that waited for them can continue."""

    async def submit(
        self, request: Request, caller: Caller, *, background: bool = False, key: str | None = None
    ) -> str:
        """Check the request, store the job, start it; returns the job's id. Raises `Refused` before anything is sent.

        The same unguessable `key` again gives the same job: a client sends a call again when the daemon died.
        """

    async def wait(self, job_id: str) -> Result:
        """The finished job's result, or its failure raised."""

    def follow(self, job_id: str, after: int = 0) -> AsyncIterator[JobEvent]:
        """Events from `after` on: past ones, then new ones until the job ends."""

    async def accepted(self, job_id: str) -> Accepted:
        """The immediate answer to a background call."""

    async def detach(self, job_id: str) -> None:
        """The caller no longer waits; the job continues like a background call."""

    async def cancel(self, any_id: str, member: str | None = None) -> Cancellation:
        """Stop exactly this job. Takes a job's id, or a conversation's when one job runs there.

        `member`: only this model of a consensus, by its name or slot.
        """

    async def status(self, any_id: str, *, full_history: bool = False) -> JobStatus:
        """Takes a job's id, or a conversation's for its newest job."""

    async def recent(self, limit: int = 10) -> JobList:
        """The newest jobs first."""

    async def close(self) -> None:
        """Stop what runs here; the jobs can continue in another process."""


class NotReady(Protocol):
    """Why a process should get no work. Everybody may read it."""

    def to_json(self) -> Json: ...


class LocalEngine(Engine, Protocol):
    """An engine in this process, as the daemon sees it."""

    async def busy(self) -> bool:
        """A job runs here, or a job of a dead process can be continued or ended here."""

    def home_is_ours(self) -> bool:
        """False when COUNSEL_HOME was deleted, moved or replaced: it is not the folder that was opened here."""

    async def drain(self, seconds: float) -> None:
        """Before `close`, in a team: take no more jobs, and let those that run end, at most so long."""

    async def metrics_text(self, *, people: bool = False) -> str:
        """`/metrics`, in Prometheus' text format. `people`: also by person."""

    async def not_ready(self, queue_seconds: int) -> Sequence[NotReady]:
        """Why this process should get no work; empty: it should. A job may wait so long in the queue (0: any time)."""

    async def close(self, *, keep: bool = False) -> None:
        """`keep`: synchronous calls, too, continue when an engine runs again, even if their callers do not reconnect."""

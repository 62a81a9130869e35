"""Types that all packages share: requests, models and providers, events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from counsel.lazy_dataclass import dataclass

Json: TypeAlias = dict[str, Any]
Effort: TypeAlias = Literal["minimal", "low", "medium", "high", "max"]
Verbosity: TypeAlias = Literal["low", "medium", "high"]
MediaResolution: TypeAlias = Literal[
    "MEDIA_RESOLUTION_LOW",
    "MEDIA_RESOLUTION_MEDIUM",
    "MEDIA_RESOLUTION_HIGH",
    "MEDIA_RESOLUTION_UNSPECIFIED",
]
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "filtered", "broken", "paused", "other"]
Position: TypeAlias = Literal["kept", "changed"]
EFFORTS: tuple[Effort, ...] = ("minimal", "low", "medium", "high", "max")


# ── a call to one model ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Image:
    """A checked image: `media_type` comes from its bytes, not its name."""

    media_type: str
    data: bytes = field(repr=False)
    name: str = "image"
    path: Path | None = None
    width: int = 0  # 0: unknown
    height: int = 0
    url: str = ""  # the vendor fetches it; `data` is empty


@dataclass(frozen=True, slots=True)
class ToolSpec:
    name: str
    description: str
    schema: Json
    strict: bool | None = None  # None: not requested


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: Json
    namespace: str = ""  # the vendor's namespace of the tool (Responses); `name` includes it


@dataclass(frozen=True, slots=True)
class ToolResult:
    call_id: str
    name: str
    text: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Thought:
    """A finished block of a model's reasoning, in the vendor's format: it is sent back with its turn and signature.

    Only the wire that made it can read it.
    """

    wire: str
    item: Json


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation.

    `native` is an assistant's turn exactly as the wire received it (thinking signatures, reasoning items); a tool loop
    sends it back verbatim. Only the wire that made it can read it.
    """

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    images: tuple[Image, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    native: Any = field(default=None, repr=False)
    thoughts: tuple[Thought, ...] = ()  # of an assistant, if `native` is not known


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The requested settings. None means "not requested": the default is sent if the model accepts it."""

    temperature: float | None = None
    effort: Effort | None = None
    verbosity: Verbosity | None = None
    web_search: bool = False
    media_resolution: MediaResolution | None = None


@dataclass(frozen=True, slots=True)
class Native:
    """A client's own body, for vendors with the same API: it may contain what counsel's format cannot express."""

    wire: str
    body: Json = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exact:
    """Settings of a client that uses a vendor's API with counsel. A call with these is sent without our defaults."""

    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: str | None = None  # auto, none, required, or `=NAME`
    parallel_tool_calls: bool | None = None
    json_object: bool = False  # any JSON object, without a schema
    schema_name: str = "answer"
    schema_strict: bool | None = None
    thinking_budget: int | None = None  # tokens; 0: no thinking
    left_out: tuple[str, ...] = ()  # what the client offered but this vendor does not have
    native: Native | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One request to one model or agent, in a vendor-neutral form."""

    turns: tuple[Turn, ...]
    system: str | None = None
    model_settings: ModelSettings = ModelSettings()
    max_output: int | None = None
    tools: tuple[ToolSpec, ...] = ()
    schema: Json | None = None  # the answer's schema; sent if the vendor supports structured output
    tokens: int = 0  # estimated input, for the cost of a stream that breaks off; 0: unknown
    output_limit: int | None = None  # of all output including reasoning, in tokens: more is not reserved
    budget: Budget | None = field(default=None, repr=False, compare=False)  # None: none applies
    # Awaited before each request: returns when the request may be sent. None: at once.
    permit: Callable[[], Awaitable[None]] | None = field(default=None, repr=False, compare=False)
    # Takes text as it arrives, or returns False: then the text is an event. Waking a task for each delta costs as much
    # as all other work on the delta. None: all text is events.
    push: Callable[[str], bool] | None = field(default=None, repr=False, compare=False)
    streams_tools: bool = False  # pieces of tool calls are events
    # Another model can answer: after this time (by the loop's clock) do not wait for retries.
    retry_deadline: float | None = None
    # For agents only: the folder to work in, the files to read, the session to continue.
    cwd: Path | None = None
    files: tuple[Path, ...] = ()
    ranges: tuple[str, ...] = ()  # one for each of `files`: `10-50`; empty or missing: the whole file
    session: str | None = None
    exact: Exact | None = None
    # For a team's server: the same key means the same call, so it is paid only once.
    key: str = ""
    # Whether another process continues the job: then a call that is broken off here must continue at the server.
    is_handed_over: Callable[[], bool] | None = field(default=None, repr=False, compare=False)


# ── models and providers ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Provider:
    """A row of providers.toml, or a `[providers.NAME]` table of the user's config.toml."""

    name: str
    label: str
    wire: str
    base_url: str
    base_url_env: str = ""
    key_envs: tuple[str, ...] = ()
    key_required: bool = True
    key_pattern: str = ""  # a regular expression that well-formed keys match, for `doctor`
    key_url: str = ""  # where a person gets a key
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # may contain a gateway's secret
    options: Mapping[str, Any] = field(default_factory=dict)  # provider-specific quirks for the wire
    discover: bool = False  # ask the server for its models
    open_models: bool = True  # ids that the catalog does not list may be used as `provider/model`


@dataclass(frozen=True, slots=True)
class Model:
    """A row of catalog.toml: the facts about one model."""

    id: str
    provider: str
    wire_id: str
    aliases: tuple[str, ...] = ()
    label: str = ""
    context: int = 128_000
    output: int = 8_192
    vision: bool = False
    tools: bool = True
    web_search: bool = False
    temperature: tuple[float, float] | None = (0.0, 1.0)  # None: the vendor rejects the setting
    effort_style: str = (
        "none"  # how the wire expresses effort: none, level, budget, adaptive, thinking_level …
    )
    efforts: Mapping[str, str | int] = field(default_factory=dict)  # counsel's level → the value that is sent
    verbosity: bool = False
    media_resolution: bool = False
    input_price: float | None = None  # set by the user, dollars per million tokens; None: the bundled prices
    output_price: float | None = None
    auto_rank: int | None = None  # position in the default order of `auto`; None: never picked automatically
    listed: bool = True  # False: created for an id that the catalog does not list
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy, and the variable that names it. Its URL may contain a password."""

    url: str = field(repr=False)
    variable: str

    @property
    def address(self) -> str:
        """`host:port`, for messages."""
        return self.url.rpartition("://")[2].rpartition("@")[2].partition("/")[0]


@dataclass(frozen=True, slots=True)
class Network:
    """How one caller reaches an address: its proxy and trusted certificates."""

    proxy: Proxy | None = None
    ca_file: str = ""
    ca_dir: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A provider with one caller's address, key and network settings."""

    provider: Provider
    base_url: str
    key: str | None = field(default=None, repr=False)
    network: Network = Network()
    team: bool = False  # the address is that of a team's server, which asks the provider
    model_name: str = ""  # the model's name on that server


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds. `total` bounds a call with all its retries; the others bound its parts. `answer`: bytes."""

    total: float = 300.0
    connect: float = 10.0
    first_event: float = 240.0
    idle: float = 120.0
    attempts: int = 3
    answer: int = 16 * 1024 * 1024  # the longest answer; the rest is cut off


# ── events of a call ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. `input` counts all input, cached or not; `output` includes reasoning."""

    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float | None = None
    estimated: bool = False  # the vendor did not report all of it, as when a stream broke off

    @property
    def total(self) -> int:
        return self.input + self.output

    def __add__(self, other: Usage) -> Usage:
        costs = (self.cost_usd, other.cost_usd)
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            cost_usd=None if None in costs else sum(cost for cost in costs if cost),
            estimated=self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class Text:
    delta: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The last part of the answer, `text`, is discarded: the agent starts it again."""

    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Thinking:
    delta: str


@dataclass(frozen=True, slots=True)
class ToolInput:
    """A piece of a tool call's arguments, as the vendor writes them. The whole call follows as a `ToolUse`.

    Only calls with `Call.streams_tools` get it: after the first piece there can be no retry.
    """

    id: str
    name: str
    delta: str  # the first one of a call may be empty
    namespace: str = ""
    item: Json | None = (
        None  # for a kind of call that only clients of the vendor's API know: a `VendorBlock` follows
    )


@dataclass(frozen=True, slots=True)
class ToolUse:
    call: ToolCall


@dataclass(frozen=True, slots=True)
class VendorBlock:
    """What a vendor's own tools did (a search, code that it ran), in its format, for clients that use its API."""

    wire: str
    item: Json


@dataclass(frozen=True, slots=True)
class ToolRan:
    """A shared tool was called for the model (engine/tools/loop.py). Arguments and result are content: not included."""

    name: str  # as the model called it
    server: str
    tool: str
    ms: int
    ok: bool


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The usage of a call so far; replaces earlier reports of the same call."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to report to the caller in the metadata: a retry, a setting left out, a lost session."""

    kind: Literal["retry", "left_out", "adapted", "warning", "source"]
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of every call that did not fail. `paused` stays inside `models/`: see models/paused_turns.py.

    After `filtered` (refused or blocked) and `broken` (the vendor gave up on its own answer) there is no answer,
    whatever text came before: engine/consult/empty_answers.py reports them as failures. `vendor` has the vendor's own
    fields: `reason`, `text`, `recommended_model`.
    """

    reason: FinishReason = "stop"
    model: str | None = None  # the model that the vendor reports
    native: Any = field(default=None, repr=False)  # the assistant's turn verbatim, for `Turn.native`
    session: str | None = None  # an agent's own session, to continue
    vendor: Mapping[str, str] = field(default_factory=dict)
    position: Position | None = None  # set by engine/consult/position.py


Event: TypeAlias = (
    Text
    | Withdrawn
    | Thinking
    | Thought
    | ToolInput
    | ToolUse
    | VendorBlock
    | ToolRan
    | UsageReport
    | Notice
    | Finished
)


class Wire(Protocol):
    """A vendor's format in both directions: one small module each in `models/wires/`, without I/O.

    `prepare` turns a call into a request body and names the settings that the model does not accept. `reader` creates a
    fold over the stream, from SSE events to counsel's events (`ToolInput` only on request). It raises `CounselError`
    for an error event, and its `finish` raises `UpstreamError` if the stream broke off.
    """

    models_path: str  # appended to the base URL: where a server lists its models

    def headers(self, endpoint: Endpoint) -> dict[str, str]: ...
    def prepare(self, call: Call, model: Model, endpoint: Endpoint) -> Prepared: ...
    def reader(self, *, streams_tools: bool = False) -> StreamReader: ...


@dataclass(frozen=True, slots=True)
class Adapted:
    setting: str
    asked: str
    sent: str
    why: str


@dataclass(frozen=True, slots=True)
class Prepared:
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: Json = field(repr=False)
    left_out: tuple[str, ...] = ()  # names of requested settings that were not sent
    adapted: tuple[Adapted, ...] = ()  # settings that were sent with a value other than the requested one
    optional: tuple[str, ...] = ()  # fields of the body, as dotted paths, to omit if the vendor rejects them


class StreamReader(Protocol):
    delta_event: str | None  # the name of events that may be read several at a time; None: there are none

    def text_of(self, deltas: list[str]) -> str | None:
        """The text of several such events; None if they must be fed one by one."""

    def feed(self, event: str, data: str) -> list[Event]: ...
    def finish(self) -> list[Event]: ...


class Reservation(Protocol):
    """Money that is reserved for one request to a vendor."""

    output_limit: int | None  # tokens; None: only calls are counted
    lowered: str  # the budget that made it lower than the model's or the caller's own limit; "": none

    def settle(self, usage: Usage | None) -> None:
        """End the reservation with the request's usage; None: it was not sent."""


class Budget(Protocol):
    """The budgets of one call. Every request to a vendor reserves what it can cost at most."""

    async def reserve(self, call: Call, model: Model) -> Reservation | None:
        """Reserve the request's maximum cost, or raise `BudgetExceeded`; None if it costs nothing."""


# A provider's model or an agent: takes a call and answers with events, of which the last is `Finished`, or raises.
Answer: TypeAlias = Callable[[Call], AsyncGenerator[Event]]

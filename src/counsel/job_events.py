"""What happens to a job, as typed events: the engine makes them, every interface reads them.

`data` is an event as JSON, for the edges: the daemon's socket, server-sent events, rows of the database, Python
programs. Inside, code reads the fields. Not frozen: a frozen dataclass takes three times as long to make, and there is
one event for every few characters of an answer. Events are never changed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from counsel.answer_parts import AnswerPart
from counsel.errors import CounselError
from counsel.lazy_dataclass import dataclass
from counsel.text import TextBuffer, TextTail

EventKind: TypeAlias = Literal[
    "started",
    "model_started",
    "text",
    "restarted",
    "thinking",
    "tool",
    "tool_input",
    "part",
    "notice",
    "model_finished",
    "model_failed",
    "waiting",
    "phase",
    "done",
    "failed",
    "cancelled",
    "other",
]
# A model failed and another is asked; it tries again by itself; the job continues in another process.
RestartReason: TypeAlias = Literal["failed", "retried", "interrupted"]
WaitReason: TypeAlias = Literal["turn", "slot", "retry", "keys", "client"]
EventData: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wait:
    """What an unfinished job, or one of its models, waits for."""

    reason: WaitReason
    text: str
    job_id: str | None = None  # `turn`: the job that comes first
    at: float | None = None  # `retry`: when
    names: tuple[str, ...] | None = None  # `keys`: the variables that hold them

    def to_json(self) -> EventData:
        shown: EventData = {"for": self.reason, "text": self.text}
        if self.job_id is not None:
            shown["job_id"] = self.job_id
        if self.at is not None:
            shown["at"] = self.at
        if self.names is not None:
            shown["names"] = list(self.names)
        return shown

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> Wait | None:
        """None for what `waiting` says when the wait is over."""
        if "for" not in shown:
            return None
        names = tuple(shown["names"]) if "names" in shown else None
        return cls(shown["for"], shown.get("text", ""), shown.get("job_id"), shown.get("at"), names)


@dataclass(slots=True)
class JobEvent:
    """`slot` tells the models of a consensus apart (`0`, `1` …); "" is the job itself."""

    seq: int
    at: float
    slot: str

    kind: ClassVar[EventKind]

    @property
    @abstractmethod
    def data(self) -> EventData:
        """What the kind of event has, as JSON. (No `ABC`: `isinstance` would take three times as long.)"""

    def to_json(self) -> EventData:
        return {"seq": self.seq, "at": self.at, "kind": self.kind, "slot": self.slot, "data": self.data}


@dataclass(slots=True)
class Started(JobEvent):
    tool: str
    models: tuple[str, ...]
    job_id: str
    continuation_id: str

    kind = "started"

    @property
    def data(self) -> EventData:
        return {
            "tool": self.tool,
            "models": list(self.models),
            "job_id": self.job_id,
            "continuation_id": self.continuation_id,
        }


@dataclass(slots=True)
class ModelStarted(JobEvent):
    model: str
    phase: str

    kind = "model_started"

    @property
    def data(self) -> EventData:
        return {"model": self.model, "phase": self.phase}


@dataclass(slots=True)
class TextAdded(JobEvent):
    """At `offset`; what stood behind it is discarded."""

    text: str
    offset: int
    phase: str

    kind = "text"

    @property
    def data(self) -> EventData:
        return {"text": self.text, "offset": self.offset, "phase": self.phase}


@dataclass(slots=True)
class Restarted(JobEvent):
    """The text of `model` from `offset` on is discarded, and `next` answers from the beginning."""

    model: str
    phase: str
    reason: RestartReason
    error: str
    next: str
    offset: int
    code: str | None = None  # of the failure

    kind = "restarted"

    @property
    def data(self) -> EventData:
        shown: EventData = {
            "model": self.model,
            "phase": self.phase,
            "reason": self.reason,
            "error": self.error,
            "next": self.next,
            "offset": self.offset,
        }
        return shown if self.code is None else {**shown, "code": self.code}


@dataclass(slots=True)
class ThinkingAdded(JobEvent):
    text: str
    offset: int = (
        0  # of `text` in all thinking of this model, so that a follower who gets it again does not repeat it
    )

    kind = "thinking"

    @property
    def data(self) -> EventData:
        return {"text": self.text, "offset": self.offset}


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A call of a shared tool that has ended. What it was asked and what it answered is content, and not here."""

    server: str
    tool: str
    ms: int
    ok: bool

    def to_json(self) -> EventData:
        return {"server": self.server, "tool": self.tool, "ms": self.ms, "ok": self.ok}

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> ToolRun:
        return cls(shown["server"], shown["tool"], shown["ms"], shown["ok"])


@dataclass(slots=True)
class ToolUsed(JobEvent):
    name: str
    run: ToolRun | None = None  # None: an agent's own tool

    kind = "tool"

    @property
    def data(self) -> EventData:
        return {"name": self.name, **(self.run.to_json() if self.run else {})}


@dataclass(slots=True)
class ToolInputAdded(JobEvent):
    """Of a completion: a piece of a tool call's arguments, at `offset`. The whole call follows as a `PartAdded`."""

    text: str
    offset: int
    id: str
    name: str
    namespace: str = ""
    item: EventData | None = None  # of a kind that only clients of the vendor's API know

    kind = "tool_input"

    @property
    def data(self) -> EventData:
        return {"id": self.id, "name": self.name, "text": self.text, "offset": self.offset}


@dataclass(slots=True)
class PartAdded(JobEvent):
    """Of a completion: a whole tool call, a finished block of reasoning, or what a tool of the vendor's did."""

    part: AnswerPart

    kind = "part"

    @property
    def data(self) -> EventData:
        return {"part": self.part}


@dataclass(slots=True)
class Noticed(JobEvent):
    kind_of: str
    text: str
    setting: str | None = None  # `left_out`: its name

    kind = "notice"

    @property
    def data(self) -> EventData:
        shown: EventData = {"kind_of": self.kind_of, "text": self.text}
        return shown if self.setting is None else {**shown, "setting": self.setting}


@dataclass(frozen=True, slots=True)
class Spent:
    """What one answer took, known when it is complete."""

    input_tokens: int
    output_tokens: int
    cost_usd: float | None  # None: no price is known

    def to_json(self) -> EventData:
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
        }

    @classmethod
    def from_json(cls, shown: EventData) -> Spent:
        return cls(shown.get("input_tokens", 0), shown.get("output_tokens", 0), shown.get("cost_usd"))


@dataclass(slots=True)
class ModelFinished(JobEvent):
    model: str
    phase: str
    provider: str
    ms: int
    length: int  # characters
    first_ms: int | None = None  # from the question to the first word
    spent: Spent | None = None

    kind = "model_finished"

    @property
    def data(self) -> EventData:
        shown: EventData = {
            "model": self.model,
            "phase": self.phase,
            "provider": self.provider,
            "ms": self.ms,
            "length": self.length,
        }
        if self.first_ms is not None:
            shown = {**shown, "first_ms": self.first_ms}
        return shown if self.spent is None else {**shown, "spent": self.spent.to_json()}


@dataclass(slots=True)
class ModelFailed(JobEvent):
    model: str
    phase: str
    error: CounselError  # without its partial text, which other events have
    first_ms: int | None = None  # from the question to the first word

    kind = "model_failed"

    @property
    def data(self) -> EventData:
        shown: EventData = {"model": self.model, "phase": self.phase, "error": self.error.as_dict()}
        return shown if self.first_ms is None else {**shown, "first_ms": self.first_ms}


@dataclass(slots=True)
class Waiting(JobEvent):
    """Until the next event of the job, or of that model."""

    wait: Wait | None  # None: it is over

    kind = "waiting"

    @property
    def data(self) -> EventData:
        return self.wait.to_json() if self.wait else {}


@dataclass(slots=True)
class PhaseStarted(JobEvent):
    phase: str

    kind = "phase"

    @property
    def data(self) -> EventData:
        return {"phase": self.phase}


@dataclass(slots=True)
class JobDone(JobEvent):
    status: str

    kind = "done"

    @property
    def data(self) -> EventData:
        return {"status": self.status}


@dataclass(slots=True)
class JobFailed(JobEvent):
    error: CounselError

    kind: ClassVar[EventKind] = "failed"

    @property
    def data(self) -> EventData:
        return {"error": self.error.as_dict()}


@dataclass(slots=True)
class JobCancelled(JobFailed):
    kind = "cancelled"


@dataclass(slots=True)
class OtherEvent(JobEvent):
    """Of a kind that another release knows."""

    name: str
    about: EventData

    kind = "other"

    @property
    def data(self) -> EventData:
        return self.about

    def to_json(self) -> EventData:
        return {"seq": self.seq, "at": self.at, "kind": self.name, "slot": self.slot, "data": self.about}


LAST_EVENTS = (JobDone, JobFailed)  # JobCancelled is a JobFailed


class TextFold:
    """The text of each model of a job in its present phase, by slot: the one place that folds events into text."""

    def __init__(self, tail: int | None = None) -> None:
        """`tail`: keep only so many characters of each."""
        self._tail = tail
        self.texts: dict[str, TextBuffer | TextTail] = {}

    def add(self, event: JobEvent) -> bool:
        """False for an event that changes no text."""
        if isinstance(event, TextAdded):
            self.of(event.slot).put(event.offset, event.text)
        elif isinstance(event, Restarted):
            self.of(event.slot).cut(event.offset)
        elif isinstance(event, ModelStarted):
            self.texts[event.slot] = self._empty()
        else:
            return False
        return True

    def of(self, slot: str) -> TextBuffer | TextTail:
        if slot not in self.texts:
            self.texts[slot] = self._empty()
        return self.texts[slot]

    def _empty(self) -> TextBuffer | TextTail:
        return TextBuffer() if self._tail is None else TextTail(self._tail)

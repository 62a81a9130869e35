"""What happens to a job, as typed events: the engine creates them, every interface reads them.

`data` is an event as JSON, for the daemon's socket, server-sent events, rows of the database and Python programs; other
code reads the fields. Events are never changed, but not frozen: creating a frozen dataclass takes three times as long,
and there is one event for every few characters of an answer.
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
# failed: another model is asked. retried: the model is asked again. interrupted: the job continues in another process.
RestartReason: TypeAlias = Literal["failed", "retried", "interrupted"]
WaitReason: TypeAlias = Literal["turn", "slot", "retry", "keys", "client"]
EventData: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wait:
    """What an unfinished job, or one of its models, waits for."""

    reason: WaitReason
    text: str
    job_id: str | None = None  # for `turn`: the job that must end first
    at: float | None = None  # for `retry`: the time of the next attempt
    names: tuple[str, ...] | None = None  # for `keys`: the environment variables of the missing keys

    def to_json(self) -> EventData:
        document: EventData = {"for": self.reason, "text": self.text}
        if self.job_id is not None:
            document["job_id"] = self.job_id
        if self.at is not None:
            document["at"] = self.at
        if self.names is not None:
            document["names"] = list(self.names)
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Wait | None:
        """The wait; None for the data of a `waiting` event that ends it."""
        if "for" not in document:
            return None
        names = tuple(document["names"]) if "names" in document else None
        return cls(
            document["for"], document.get("text", ""), document.get("job_id"), document.get("at"), names
        )


@dataclass(slots=True)
class JobEvent:
    """`slot` is the position of a model in a consensus (`0`, `1` …); "" is the job itself."""

    seq: int
    at: float
    slot: str

    kind: ClassVar[EventKind]

    @property
    @abstractmethod
    def data(self) -> EventData:
        """The fields of this kind of event, as JSON. (No `ABC`: `isinstance` would take three times as long.)"""

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
    """Text at `offset`; the text after it is discarded."""

    text: str
    offset: int
    phase: str

    kind = "text"

    @property
    def data(self) -> EventData:
        return {"text": self.text, "offset": self.offset, "phase": self.phase}


@dataclass(slots=True)
class Restarted(JobEvent):
    """The text of `model` after `offset` is discarded, and `next` answers from the beginning."""

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
        document: EventData = {
            "model": self.model,
            "phase": self.phase,
            "reason": self.reason,
            "error": self.error,
            "next": self.next,
            "offset": self.offset,
        }
        return document if self.code is None else {**document, "code": self.code}


@dataclass(slots=True)
class ThinkingAdded(JobEvent):
    text: str
    offset: int = 0  # of `text` in the model's whole thinking, so that followers can recognise repeated text

    kind = "thinking"

    @property
    def data(self) -> EventData:
        return {"text": self.text, "offset": self.offset}


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A finished call of a shared tool. Its arguments and result are content and not included."""

    server: str
    tool: str
    ms: int
    ok: bool

    def to_json(self) -> EventData:
        return {"server": self.server, "tool": self.tool, "ms": self.ms, "ok": self.ok}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ToolRun:
        return cls(document["server"], document["tool"], document["ms"], document["ok"])


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
    """In a completion: a piece of a tool call's arguments, at `offset`. The whole call follows as a `PartAdded`."""

    text: str
    offset: int
    id: str
    name: str
    namespace: str = ""
    item: EventData | None = None  # for a kind of call that only clients of the vendor's API know

    kind = "tool_input"

    @property
    def data(self) -> EventData:
        return {"id": self.id, "name": self.name, "text": self.text, "offset": self.offset}


@dataclass(slots=True)
class PartAdded(JobEvent):
    """In a completion: a whole tool call, a finished block of reasoning, or what one of the vendor's tools did."""

    part: AnswerPart

    kind = "part"

    @property
    def data(self) -> EventData:
        return {"part": self.part}


@dataclass(slots=True)
class Noticed(JobEvent):
    kind_of: str
    text: str
    setting: str | None = None  # for `left_out`: the setting's name

    kind = "notice"

    @property
    def data(self) -> EventData:
        document: EventData = {"kind_of": self.kind_of, "text": self.text}
        return document if self.setting is None else {**document, "setting": self.setting}


@dataclass(frozen=True, slots=True)
class Spent:
    """The tokens and cost of one complete answer."""

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
    def from_json(cls, document: EventData) -> Spent:
        return cls(
            document.get("input_tokens", 0), document.get("output_tokens", 0), document.get("cost_usd")
        )


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
        document: EventData = {
            "model": self.model,
            "phase": self.phase,
            "provider": self.provider,
            "ms": self.ms,
            "length": self.length,
        }
        if self.first_ms is not None:
            document = {**document, "first_ms": self.first_ms}
        return document if self.spent is None else {**document, "spent": self.spent.to_json()}


@dataclass(slots=True)
class ModelFailed(JobEvent):
    model: str
    phase: str
    error: CounselError  # without its partial text, which is in other events
    first_ms: int | None = None  # from the question to the first word

    kind = "model_failed"

    @property
    def data(self) -> EventData:
        document: EventData = {"model": self.model, "phase": self.phase, "error": self.error.as_dict()}
        return document if self.first_ms is None else {**document, "first_ms": self.first_ms}


@dataclass(slots=True)
class Waiting(JobEvent):
    """The job or model waits, until its next event."""

    wait: Wait | None  # None: the wait is over

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
    """An event of a kind that only another release knows."""

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
    """The text of each model in its current phase, by slot. Only this class folds events into text."""

    def __init__(self, tail: int | None = None) -> None:
        """`tail`: keep only that many characters of each text."""
        self._tail = tail
        self.texts: dict[str, TextBuffer | TextTail] = {}

    def add(self, event: JobEvent) -> bool:
        """Whether the event changes a text."""
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

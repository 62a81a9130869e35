"""What is stored about a job: the complete request, so that it can run again after a crash; its caller; each reply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, fields
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from counsel import answer_parts, live_json, strict_json
from counsel.answer_parts import AnswerPart
from counsel.caller import Caller
from counsel.engine.store import completion_json
from counsel.job_events import ToolRun
from counsel.lazy_dataclass import dataclass
from counsel.people import Person
from counsel.request_context import NONE, RequestContext
from counsel.requests import CompletionRequest
from counsel.results import AnswerNotice, LeftOutFile, Source
from counsel.settings import Settings
from counsel.types import Effort, MediaResolution, ModelSettings, Position, Usage, Verbosity

_DEFAULT_TEMPERATURE = {"consensus": 0.2, "review": 0.2}  # where it differs from the wires' default


class Part(NamedTuple):
    """The place of a file's content in a question's text."""

    key: str  # path and range
    sha: str  # of its lines
    start: int
    end: int


SETTINGS = (
    "temperature",
    "reasoning_effort",
    "verbosity",
    "use_websearch",
    "media_resolution",
    "tools",
    "roles",
    "stances",
    "max_cost_usd",
    "judge",
    "choices",
    "refine",
    "rounds",
    "order",
    "cross_feedback",
    "feedback_prompt",
)


_settings = attrgetter(*SETTINGS)


class ReviewSubject(TypedDict, total=False):
    """What a review compares."""

    offset: int  # of the diff in `Task.text`
    about: str
    left_out: list[LeftOutFile]
    root: str  # of the repository


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    tool: str
    prompt: str  # as the caller wrote it
    text: str  # with the files' contents
    models: tuple[str, ...]
    images: tuple[str, ...] = ()  # blobs
    files: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()  # one per file of `files`
    sources: tuple[Source, ...] = ()
    parts: tuple[Part, ...] = ()  # where each file is in `text`; one per source, for the first of `sources`
    temperature: float | None = None
    reasoning_effort: Effort | None = None
    verbosity: Verbosity | None = None
    use_websearch: bool = False
    media_resolution: MediaResolution | None = None
    export: tuple[str, ...] = ()  # the folder to export to, and the folder that must contain it
    tools: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()  # one per model, or empty
    stances: tuple[str, ...] = ()  # one per model, or empty
    judge: str | None = None  # `auto`: no other model is available as judge
    choices: tuple[str, ...] = ()
    refine: str = ""  # empty: `cross_feedback` decides, also in jobs of older releases
    rounds: int | None = None  # None: two
    order: str = ""  # empty: parallel
    cross_feedback: bool = False
    feedback_prompt: str | None = None
    system: str | None = None
    schema: dict[str, object] | None = None
    max_cost_usd: float | None = None  # for all its calls together
    tag: str | None = None
    project: str = ""  # where tags are looked up
    completion: CompletionRequest | None = None
    review: ReviewSubject | None = None
    stateless: bool = False  # no conversation: the client keeps the turns

    @property
    def refines(self) -> str:
        """`always`, `disagreement` or `never`."""
        return self.refine or ("always" if self.cross_feedback else "never")

    @property
    def model_settings(self) -> ModelSettings:
        temperature = _DEFAULT_TEMPERATURE.get(self.tool) if self.temperature is None else self.temperature
        return ModelSettings(
            temperature, self.reasoning_effort, self.verbosity, self.use_websearch, self.media_resolution
        )

    def settings(self) -> dict[str, object]:
        """The settings that the caller chose, for readers of the conversation; defaults are omitted."""
        settings = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in zip(SETTINGS, _settings(self), strict=True)
            if value or (value == 0 and value is not False)
        }
        settings["models"] = list(self.models)
        return settings

    @property
    def can_run_again(self) -> bool:
        """Whether another process can run it from what is stored."""
        return self.completion is None or self.completion.stored

    def asked_for(self, setting: str) -> bool:
        """Whether the caller chose it. If not, no notice is needed when a model does not support it."""
        return getattr(self, setting, True) is not None

    def dump(self, *, with_messages: bool = False) -> str:
        """`with_messages`: also the messages of a completion that is not stored, because another process runs it."""
        data: dict[str, object] = dict(zip(_TASK_FIELDS, _task_values(self), strict=True))
        data["sources"] = [source.to_json() for source in self.sources]
        if self.text == self.prompt:
            del data["text"]
        if self.max_cost_usd is None:
            del data["max_cost_usd"]
        for name in _OMITTED_IF_EMPTY:
            if not data[name]:
                del data[name]
        if self.completion is None:
            del data["completion"], data["stateless"]
        else:
            is_complete = with_messages or self.completion.stored
            data["completion"] = completion_json.dump(self.completion) if is_complete else None
        return strict_json.dumps(data)

    @classmethod
    def load(cls, text: str) -> Task:
        data = json.loads(text)
        data.setdefault("text", data["prompt"])
        data["sources"] = list(map(Source.from_json, data.get("sources", ())))
        data["parts"] = [Part(*part) for part in data.get("parts", ())]
        if data.get("completion") is not None:
            data["completion"] = completion_json.load(data["completion"])
        return cls(**{name: _frozen(value) for name, value in data.items() if name in _TASK_FIELDS})


def _frozen(value: object) -> Any:
    return tuple(value) if isinstance(value, list) else value


# set in few jobs
_OMITTED_IF_EMPTY = ("roles", "stances", "judge", "choices", "refine", "rounds", "order", "review")
_TASK_FIELDS = tuple(row.name for row in fields(Task))
_task_values = attrgetter(*_TASK_FIELDS)
_NO_USAGE = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One finished call, stored so that a resumed job does not repeat it."""

    text: str
    provider: str
    model: str
    usage: Usage = _NO_USAGE
    finish_reason: str = "stop"
    ms: int = 0
    vendor_model: str | None = None
    left_out: tuple[str, ...] = ()
    notices: tuple[AnswerNotice, ...] = ()
    session: str | None = None
    cached: bool = False
    tools: tuple[ToolRun, ...] = ()  # calls of shared tools
    parts: tuple[AnswerPart, ...] = ()  # of a completion
    vendor: Mapping[str, str] = field(default_factory=dict)  # of a completion: why it ended
    position: Position | None = None  # of a refined answer, as its last line states it
    is_json: bool = False  # requested by counsel: a vote, a verdict or findings

    @property
    def shown(self) -> str:
        """The text that live views display."""
        return live_json.readable(self.text) if self.is_json else self.text

    def dump(self) -> str:
        data = {name: getattr(self, name) for name in _REPLY_FIELDS}
        data["usage"] = {name: getattr(self.usage, name) for name in _USAGE_FIELDS}
        data["notices"] = [notice.to_json() for notice in self.notices]
        data["tools"] = [run.to_json() for run in self.tools]
        if not self.parts:
            del data["parts"], data["vendor"]
        if self.position is None:
            del data["position"]
        if not self.is_json:
            del data["is_json"]
        return strict_json.dumps(data)

    @classmethod
    def load(cls, text: str) -> Reply:
        """Ignores unknown fields, which a newer release wrote, and accepts that an older one wrote fewer."""
        data = json.loads(text)
        usage = {name: value for name, value in data.pop("usage", {}).items() if name in _USAGE_FIELDS}
        values = {name: _frozen(value) for name, value in data.items() if name in _REPLY_FIELDS}
        values["notices"] = tuple(map(AnswerNotice.from_json, data.get("notices", ())))
        values["parts"] = tuple(map(answer_parts.from_json, data.get("parts", ())))
        values["tools"] = tuple(map(ToolRun.from_json, data.get("tools", ())))
        return cls(**{"provider": "", "model": "", **values, "usage": Usage(**usage)})


_REPLY_FIELDS = tuple(row.name for row in fields(Reply))
_USAGE_FIELDS = tuple(row.name for row in fields(Usage))


@dataclass(frozen=True, slots=True)
class Origin:
    """Who asked, without keys or environment: those stay in memory."""

    client: str = ""
    agent: str | None = None
    cwd: str = ""
    roots: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()
    person: Person | None = None
    request: RequestContext = NONE

    @classmethod
    def of(cls, caller: Caller, request: RequestContext = NONE) -> Origin:
        roots = tuple(map(str, caller.roots))
        return cls(caller.client, caller.agent, str(caller.cwd), roots, caller.chain, caller.person, request)

    @property
    def owner(self) -> str:
        return self.person.id if self.person else ""

    def caller(self, settings: Settings) -> Caller:
        return Caller(
            client=self.client,
            agent=self.agent,
            cwd=Path(self.cwd),
            roots=tuple(Path(root) for root in self.roots),
            chain=self.chain,
            settings=settings,
            person=self.person,
        )

    @lru_cache(maxsize=64)  # noqa: B019 - few callers, and no keys
    def dump(self) -> str:
        data = {name: getattr(self, name) for name in _ORIGIN_FIELDS}
        if self.person is None:
            del data["person"]
        else:
            data["person"] = [self.person.id, self.person.name, self.person.role, list(self.person.groups)]
        data["request"] = [self.request.id, self.request.traceparent]
        if self.request == NONE:
            del data["request"]
        return strict_json.dumps(data)

    @classmethod
    def load(cls, text: str) -> Origin:
        data = json.loads(text)
        if person := data.get("person"):
            data["person"] = Person(*map(_frozen, person))
        if request := data.get("request"):
            data["request"] = RequestContext(*request)
        return cls(**{name: _frozen(data[name]) for name in _ORIGIN_FIELDS if name in data})


_ORIGIN_FIELDS = tuple(row.name for row in fields(Origin))

"""What is stored of a job as a whole: its question, complete, so that it can run again after a crash; who asked; each reply."""

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
from counsel.types import Effort, Knobs, MediaResolution, Position, Usage, Verbosity

_DEFAULT_TEMPERATURE = {
    "consensus": 0.2,
    "review": 0.2,
}  # where it differs from what the wires send by themselves


class Part(NamedTuple):
    """A file's block inside of a question's text."""

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

    offset: int  # where `Task.text` has the diff
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
    ranges: tuple[str, ...] = ()  # of `files`, one each
    sources: tuple[Source, ...] = ()
    parts: tuple[Part, ...] = ()  # the position of each file in `text`; the first of `sources`, one each
    temperature: float | None = None
    reasoning_effort: Effort | None = None
    verbosity: Verbosity | None = None
    use_websearch: bool = False
    media_resolution: MediaResolution | None = None
    export: tuple[str, ...] = ()  # the folder to export to, and the one that it must not leave
    tools: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()  # of `models`, one each, or none at all
    stances: tuple[str, ...] = ()  # the same
    judge: str | None = None  # `auto`: no model is left for it
    choices: tuple[str, ...] = ()
    refine: str = ""  # empty: as `cross_feedback` says, in jobs of older releases, too
    rounds: int | None = None  # None: two
    order: str = ""  # empty: parallel
    cross_feedback: bool = False
    feedback_prompt: str | None = None
    system: str | None = None
    schema: dict[str, object] | None = None
    max_cost_usd: float | None = None  # of all its calls
    tag: str | None = None
    project: str = ""  # where tags are looked for
    completion: CompletionRequest | None = None
    review: ReviewSubject | None = None
    stateless: bool = False  # no conversation: its client has the turns

    @property
    def refines(self) -> str:
        """`always`, `disagreement` or `never`."""
        return self.refine or ("always" if self.cross_feedback else "never")

    @property
    def knobs(self) -> Knobs:
        temperature = _DEFAULT_TEMPERATURE.get(self.tool) if self.temperature is None else self.temperature
        return Knobs(
            temperature, self.reasoning_effort, self.verbosity, self.use_websearch, self.media_resolution
        )

    def settings(self) -> dict[str, object]:
        """What the caller set, for readers of the conversation; without what was left to us."""
        values = zip(SETTINGS, _settings(self), strict=True)
        chosen = {name: value for name, value in values if value or (value == 0 and value is not False)}
        chosen["models"] = list(self.models)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in chosen.items()}

    @property
    def can_run_again(self) -> bool:
        """In another process, from what is stored."""
        return self.completion is None or self.completion.stored

    def asked_for(self, setting: str) -> bool:
        """False for a setting that the caller left to us: no notice is needed when a model does not take it."""
        return getattr(self, setting, True) is not None

    def dump(self, *, with_messages: bool = False) -> str:
        """`with_messages`: also of a completion that is not stored; another process runs it."""
        data: dict[str, object] = dict(zip(_TASK_FIELDS, _task_values(self), strict=True))
        data["sources"] = [source.to_json() for source in self.sources]
        if self.text == self.prompt:
            del data["text"]
        if self.max_cost_usd is None:
            del data["max_cost_usd"]
        for name in _OF_CONSENSUS:
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


_OF_CONSENSUS = (
    "roles",
    "stances",
    "judge",
    "choices",
    "refine",
    "rounds",
    "order",
    "review",
)  # few jobs have them
_TASK_FIELDS = tuple(row.name for row in fields(Task))
_task_values = attrgetter(*_TASK_FIELDS)
_NO_USAGE = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One finished call, as it is memoised."""

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
    position: Position | None = None  # of a refined answer: what its author stated in its last line
    is_json: bool = False  # asked for by counsel: a vote, a verdict, findings

    @property
    def shown(self) -> str:
        """The text that live views have of it."""
        return live_json.shown(self.text) if self.is_json else self.text

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
        """A newer release may have written fields that this one does not know, an older one fewer."""
        data = json.loads(text)
        used = {name: value for name, value in data.pop("usage", {}).items() if name in _USAGE_FIELDS}
        known = {name: _frozen(value) for name, value in data.items() if name in _REPLY_FIELDS}
        known["notices"] = tuple(map(AnswerNotice.from_json, data.get("notices", ())))
        known["parts"] = tuple(map(answer_parts.from_json, data.get("parts", ())))
        known["tools"] = tuple(map(ToolRun.from_json, data.get("tools", ())))
        return cls(**{"provider": "", "model": "", **known, "usage": Usage(**used)})


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
        roots, chain = tuple(str(root) for root in caller.roots), tuple(caller.chain)
        return cls(caller.client, caller.agent, str(caller.cwd), roots, chain, caller.person, request)

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

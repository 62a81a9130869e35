"""What happened to a job and when: spans of time, derived from its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Literal, TypeAlias

from counsel.engine.store.records import JobDetail
from counsel.job_events import (
    JobCancelled,
    JobDone,
    JobEvent,
    JobFailed,
    ModelFailed,
    ModelFinished,
    ModelStarted,
    Noticed,
    PhaseStarted,
    Restarted,
    Started,
    TextAdded,
    ToolUsed,
    Waiting,
)
from counsel.lazy_dataclass import dataclass
from counsel.results import ChatResult, ConsensusResult
from counsel.results.parts import labels

SpanKind: TypeAlias = Literal["queue", "first_word", "answer", "round", "retry", "restart", "tool", "wait"]


@dataclass(slots=True)
class Span:
    kind: SpanKind
    slot: str
    model: str
    label: str
    start: float  # seconds since 1970
    end: float | None = None
    ok: bool | None = None


def of(job: JobDetail, events: Iterable[JobEvent], first: Mapping[str, float]) -> dict[str, object]:
    """The timeline as JSON. `first`: by slot, when the current call's first word arrived, if known."""
    timeline = _Timeline(job)
    for event in events:
        timeline.add(event)
    timeline.finish(first)
    spans = sorted(timeline.spans or _from_result(job), key=lambda span: span.start)
    return {
        "job_id": job.id,
        "started_at": job.created,
        "ended_at": job.finished,
        "spans": [asdict(span) for span in spans],
    }


class _Timeline:
    def __init__(self, job: JobDetail) -> None:
        self.spans: list[Span] = []
        self._job = job
        self._models = dict(enumerate(labels(job.models)))
        self._queue: Span | None = None
        self._round: Span | None = None
        self._answers: dict[str, Span] = {}  # by slot: the current call
        self._words: dict[str, Span] = {}  # by slot: until the current call's first word
        self._waits: dict[str, Span] = {}  # by slot, "" for the job
        self._last = job.created
        self._handlers: dict[type, Callable[[Any], None]] = {
            Started: self._started,
            PhaseStarted: self._phase,
            ModelStarted: self._begin,
            TextAdded: lambda event: self._first_word(event.slot, event.at),
            ModelFinished: self._end_answer,
            ModelFailed: self._end_answer,
            Waiting: self._wait,
            Noticed: self._noticed,
            Restarted: self._restarted,
            ToolUsed: self._tool,
            **dict.fromkeys((JobDone, JobFailed, JobCancelled), lambda event: self._end_round(event.at)),
        }

    def add(self, event: JobEvent) -> None:
        self._end_wait(event)
        if handle := self._handlers.get(type(event)):
            handle(event)
        self._last = event.at

    def finish(self, first: Mapping[str, float]) -> None:
        """Complete the spans. Open spans end with the job; in an open job they have no end."""
        if not self.spans and self._job.is_open:
            self._open("queue", "", "", self._job.created)
        for slot, at in first.items():
            self._first_word(slot, at)
        if self._job.finished is not None:
            for span in self.spans:
                span.end = self._job.finished if span.end is None else span.end

    # ── the job ──

    def _started(self, event: Started) -> None:
        if self._queue is None:
            wait = self._waits.pop("", None)
            self._queue = self._open("queue", "", wait.label if wait else "", self._job.created)
            self._queue.end = event.at
            if wait:
                self.spans.remove(wait)
            return
        for span in self.spans:  # begun by the process that died
            span.end = self._last if span.end is None else span.end
        self._answers, self._words, self._waits, self._round = {}, {}, {}, None
        restart = self._open("restart", "", "The job continued in another process.", self._last)
        restart.end = event.at

    def _phase(self, event: PhaseStarted) -> None:
        self._end_round(event.at)
        self._round = self._open("round", "", event.phase, event.at)

    def _end_round(self, at: float) -> None:
        if self._round and self._round.end is None:
            self._round.end = at

    # ── one model ──

    def _begin(self, event: ModelStarted) -> None:
        self._end_call(event.slot, event.at)
        self._answers[event.slot] = self._open("answer", event.slot, event.phase, event.at, event.model)
        self._words[event.slot] = self._open("first_word", event.slot, event.phase, event.at, event.model)

    def _first_word(self, slot: str, at: float) -> None:
        if word := self._words.pop(slot, None):
            word.end, word.ok = max(at, word.start), True

    def _end_answer(self, event: ModelFinished | ModelFailed) -> None:
        word = self._words.get(event.slot)
        if word and event.first_ms is not None:
            self._first_word(event.slot, word.start + event.first_ms / 1000)
        self._end_call(event.slot, event.at, ok=isinstance(event, ModelFinished))

    def _end_call(self, slot: str, at: float, *, ok: bool = False) -> None:
        if answer := self._answers.pop(slot, None):
            answer.end, answer.ok = at, ok
        if word := self._words.pop(slot, None):  # no word arrived
            self.spans.remove(word)

    def _wait(self, event: Waiting) -> None:
        if event.wait is None:
            return
        kind: SpanKind = "retry" if event.wait.reason == "retry" else "wait"
        last = self.spans[-1] if self.spans else None
        if kind == "retry" and last and (last.kind, last.slot, last.end) == ("retry", event.slot, last.start):
            span = last  # the notice with the reason
            span.end = None
        else:
            span = self._open(kind, event.slot, event.wait.text, event.at)
        if event.wait.at is not None:
            span.end = event.wait.at  # the time of the next attempt; an earlier event may end the wait
        self._waits[event.slot] = span

    def _end_wait(self, event: JobEvent) -> None:
        """The next event of the job, or of the model, ends its wait."""
        if (isinstance(event, Started) and self._queue is None) or isinstance(event, TextAdded):
            return
        if span := self._waits.pop(event.slot, None):
            span.end = event.at if span.end is None else min(span.end, event.at)

    def _noticed(self, event: Noticed) -> None:
        if event.kind_of == "retry":
            self._moment("retry", event, event.text, ok=False)

    def _restarted(self, event: Restarted) -> None:
        if event.reason != "interrupted":  # `Started` covers that
            self._moment("restart", event, event.error, ok=False)

    def _tool(self, event: ToolUsed) -> None:
        if event.run is None:
            self._moment("tool", event, event.name)
            return
        label = f"{event.run.server}: {event.run.tool}"
        span = self._open("tool", event.slot, label, event.at - event.run.ms / 1000)
        span.end, span.ok = event.at, event.run.ok

    # ── spans ──

    def _moment(self, kind: SpanKind, event: JobEvent, label: str, *, ok: bool | None = None) -> None:
        span = self._open(kind, event.slot, label, event.at)
        span.end, span.ok = event.at, ok

    def _open(self, kind: SpanKind, slot: str, label: str, start: float, model: str = "") -> Span:
        name = model or (self._models.get(int(slot), "") if slot.isdigit() else "")
        span = Span(kind, slot, name, label, start)
        self.spans.append(span)
        return span


def _from_result(job: JobDetail) -> list[Span]:
    """The spans of a job without events, from its answers' response times. The job ended within a fraction of a second,
    or its events were deleted."""
    end = job.finished or job.created
    if isinstance(job.result, ConsensusResult):
        slots = {label: str(slot) for slot, label in enumerate(labels(job.models))}
        answers = [("initial", answer.model, answer.metadata) for answer in job.result.initial]
        answers += [
            ("refined", answer.first.model, answer.metadata)
            for answer in job.result.refined
            if answer.metadata
        ]
        spans = []
        for phase, model, metadata in answers:
            seconds = (metadata.response_time_ms or 0) / 1000
            start = job.created if phase == "initial" else max(job.created, end - seconds)
            spans.append(Span("answer", slots.get(model, ""), model, phase, start, start + seconds, ok=True))
        return spans
    if isinstance(job.result, ChatResult):
        details = job.result.metadata
        start = max(job.created, end - (details.response_time_ms or 0) / 1000)
        return [
            Span("queue", "", "", "", job.created, start),
            Span("answer", "0", details.model, "answer", start, end, ok=True),
        ]
    return []

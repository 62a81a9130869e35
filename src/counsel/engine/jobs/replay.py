"""The events of a job that another process runs, or that has ended, read from the store.

The store deletes the text of ended jobs, and all events of a job that ended before the first flush, because the result
has everything. A late follower gets the text from there, so that every stream carries the whole answer and ends with
the job's end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import replace

from counsel.engine.jobs import call_keys, partial
from counsel.engine.store.protocol import Store
from counsel.engine.store.records import JobDetail
from counsel.errors import from_dict
from counsel.job_events import (
    LAST_EVENTS,
    JobCancelled,
    JobDone,
    JobEvent,
    JobFailed,
    ModelFailed,
    ModelFinished,
    ModelStarted,
    PartAdded,
    TextAdded,
    TextFold,
    ThinkingAdded,
)
from counsel.requests import SEVERAL
from counsel.results import ModelState
from counsel.results.parts import labels

_POLL = 0.5  # seconds between reads of a job that another process runs, if no change is noticed earlier


async def follow(
    store: Store, look: Callable[[], Awaitable[JobDetail]], job_id: str, after: int
) -> AsyncGenerator[JobEvent]:
    fold = TextFold()
    read_seq, end_seq = after, None
    while True:
        mark = store.mark(job_id)
        job = await look()  # before the events: once it has ended, all of them are stored
        events = await store.events(job_id, read_seq)
        for event in events if read_seq else _newest_attempts(events):
            read_seq = event.seq
            if isinstance(event, LAST_EVENTS):
                end_seq = event.seq
            else:
                fold.add(event)
                yield event
        if not job.is_open:
            break
        await store.wait_for_change(job_id, mark, _POLL)
    end = end_seq or max(read_seq + 1, 2)
    if after < end - 1:  # else the follower has seen all text
        for event in _missing_text(job, await _answers(store, job), fold, end - 1):
            yield event
    yield _end_event(job, end)


def _newest_attempts(events: list[JobEvent]) -> Iterator[JobEvent]:
    """The events without the content of attempts that another attempt in the same phase has replaced."""
    newest_starts = {
        (event.slot, event.phase): event.seq for event in events if isinstance(event, ModelStarted)
    }
    phases: dict[str, str] = {}
    for event in events:
        if isinstance(event, ModelStarted):
            phases[event.slot] = event.phase
        newest = newest_starts.get((event.slot, phases.get(event.slot, "")), 0)
        if event.seq >= newest or not isinstance(event, TextAdded | ThinkingAdded | PartAdded):
            yield event


def _missing_text(
    job: JobDetail, answers: Mapping[str, tuple[str, str]], fold: TextFold, seq: int
) -> Iterator[JobEvent]:
    for slot, (phase, text) in answers.items():
        existing = fold.of(slot).text()
        offset = len(existing) if text.startswith(existing) else 0
        if len(text) > offset:
            yield TextAdded(seq, _end_time(job), slot, text[offset:], offset, phase)


def _end_event(job: JobDetail, seq: int) -> JobEvent:
    if job.result is not None:
        return JobDone(seq, _end_time(job), "", job.status)
    kind = JobCancelled if job.status == "cancelled" else JobFailed
    return kind(seq, _end_time(job), "", job.error or from_dict({}))


def _end_time(job: JobDetail) -> float:
    return job.finished or job.created


async def _answers(store: Store, job: JobDetail) -> dict[str, tuple[str, str]]:
    """By slot: the phase and the text of the model's last answer."""
    if job.result is None:
        return {}
    if job.tool not in SEVERAL:
        return {"0": ("answer", job.result.content)}
    answers = call_keys.last(await store.replies(job.id))
    return {slot: (phase, reply.shown) for slot, (phase, reply) in answers.items()}


async def states(store: Store, job: JobDetail) -> list[ModelState]:
    """The state and text of each model of a job that another process runs, or that did not complete."""
    models = {
        str(number): ModelState(slot=str(number), model=label, status="waiting", stored=True)
        for number, label in enumerate(labels(job.models))
    }
    fold = TextFold()
    for event in await store.events(job.id, 0):
        if event.slot == call_keys.JUDGE and isinstance(event, ModelStarted):
            models.setdefault(
                event.slot, ModelState(slot=event.slot, model=event.model, status="waiting", stored=True)
            )
        if event.slot in models:
            models[event.slot] = _apply(models[event.slot], event)
            fold.add(event)
    for slot, text in fold.texts.items():
        models[slot] = replace(models[slot], text=text.text())
    replies = await store.replies(job.id)
    if not job.is_open:
        return partial.states(job, list(models.values()), replies)
    for slot, reply in partial.last_answers(replies).items():
        if slot in models and models[slot].status == "completed":
            models[slot] = replace(models[slot], text=reply.shown)
    return list(models.values())


async def texts(store: Store, job_id: str, slots: Collection[str]) -> dict[str, str]:
    """The text of these models until the process that ran the job ended."""
    if not slots:
        return {}
    fold = TextFold()
    for event in await store.events(job_id, 0):
        if event.slot in slots:
            fold.add(event)
    return {slot: text.text() for slot, text in fold.texts.items()}


def _apply(state: ModelState, event: JobEvent) -> ModelState:
    if isinstance(event, ModelStarted):
        return replace(state, model=event.model, status="processing", phase=event.phase, error=None)
    if isinstance(event, ModelFinished):
        return replace(state, status="completed")
    if isinstance(event, ModelFailed):
        return replace(state, status="failed", error=event.error)
    return state

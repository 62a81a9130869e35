"""A job's events, read from the store: of a job that another process runs, or that is over.

The store drops the text of what has ended, and all events of a job that ended before the first flush: the result
says it all. A late follower gets the same from there, so that every stream carries the whole answer and
ends with the job's end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
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

_POLL = 0.5  # seconds between looks at a job that another process runs, if no change is noticed earlier


async def follow(
    store: Store, look: Callable[[], Awaitable[JobDetail]], job_id: str, after: int
) -> AsyncIterator[JobEvent]:
    folded = TextFold()
    seen, last = after, None
    while True:
        mark = store.mark(job_id)
        now = await look()  # before the events: when it is over, they are all there
        news = await store.events(job_id, seen)
        for event in news if seen else _newest_attempts(news):
            seen = event.seq
            if isinstance(event, LAST_EVENTS):
                last = event.seq
            else:
                folded.add(event)
                yield event
        if not now.is_open:
            break
        await store.wait_for_change(job_id, mark, _POLL)
    end = last or max(seen + 1, 2)
    if after < end - 1:  # else the follower has seen them
        for event in _missing_text(now, await _answers(store, now), folded, end - 1):
            yield event
    yield _ending(now, end)


def _newest_attempts(events: list[JobEvent]) -> Iterator[JobEvent]:
    """Without the content of attempts that another attempt in the same phase has replaced."""
    started = {(event.slot, event.phase): event.seq for event in events if isinstance(event, ModelStarted)}
    phases: dict[str, str] = {}
    for event in events:
        if isinstance(event, ModelStarted):
            phases[event.slot] = event.phase
        newest = started.get((event.slot, phases.get(event.slot, "")), 0)
        if event.seq >= newest or not isinstance(event, TextAdded | ThinkingAdded | PartAdded):
            yield event


def _missing_text(
    job: JobDetail, answers: Mapping[str, tuple[str, str]], folded: TextFold, seq: int
) -> Iterator[JobEvent]:
    for slot, (phase, text) in answers.items():
        known = folded.of(slot).text()
        offset = len(known) if text.startswith(known) else 0
        if len(text) > offset:
            yield TextAdded(seq, _ended(job), slot, text[offset:], offset, phase)


def _ending(job: JobDetail, seq: int) -> JobEvent:
    if job.result is not None:
        return JobDone(seq, _ended(job), "", job.status)
    kind = JobCancelled if job.status == "cancelled" else JobFailed
    return kind(seq, _ended(job), "", job.error or from_dict({}))


def _ended(job: JobDetail) -> float:
    return job.finished or job.created


async def _answers(store: Store, job: JobDetail) -> dict[str, tuple[str, str]]:
    """By slot: the phase of a model's last answer, and its text."""
    if job.result is None:
        return {}
    if job.tool not in SEVERAL:
        return {"0": ("answer", job.result.content)}
    answers = call_keys.last(await store.replies(job.id))
    return {slot: (phase, reply.shown) for slot, (phase, reply) in answers.items()}


async def states(store: Store, job: JobDetail) -> list[ModelState]:
    """Each model of a job that another process runs, or that did not complete: its state and its text."""
    models = {
        str(number): ModelState(slot=str(number), model=label, status="waiting", stored=True)
        for number, label in enumerate(labels(job.models))
    }
    folded = TextFold()
    for event in await store.events(job.id, 0):
        if event.slot == call_keys.JUDGE and isinstance(event, ModelStarted):
            models.setdefault(
                event.slot, ModelState(slot=event.slot, model=event.model, status="waiting", stored=True)
            )
        if event.slot in models:
            models[event.slot] = _after(models[event.slot], event)
            folded.add(event)
    for slot, text in folded.texts.items():
        models[slot] = replace(models[slot], text=text.text())
    replies = await store.replies(job.id)
    if not job.is_open:
        return partial.states(job, list(models.values()), replies)
    for slot, reply in partial.last_answers(replies).items():
        if slot in models and models[slot].status == "completed":
            models[slot] = replace(models[slot], text=reply.shown)
    return list(models.values())


async def texts(store: Store, job_id: str, slots: Collection[str]) -> dict[str, str]:
    """What these models had said before the process that ran the job ended."""
    if not slots:
        return {}
    folded = TextFold()
    for event in await store.events(job_id, 0):
        if event.slot in slots:
            folded.add(event)
    return {slot: text.text() for slot, text in folded.texts.items()}


def _after(state: ModelState, event: JobEvent) -> ModelState:
    if isinstance(event, ModelStarted):
        return replace(state, model=event.model, status="processing", phase=event.phase, error=None)
    if isinstance(event, ModelFinished):
        return replace(state, status="completed")
    if isinstance(event, ModelFailed):
        return replace(state, status="failed", error=event.error)
    return state

"""A job's events as the journal tells them: of a job that another process runs, or that is over.

The journal drops the text of what has ended, and all events of a job that ended before the first flush: the result
says it all. A follower who comes late is told the same from there, so that every stream carries the whole answer and
ends with the job's end.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator

from counsel.engine.consult import consensus, packing
from counsel.engine.jobs import partial
from counsel.engine.store.sqlite import jobs
from counsel.engine.store.sqlite.database import Database
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
    TextAdded,
    TextFold,
)
from counsel.types import Json

_POLL = 0.1  # seconds between looks at a job that another process runs


async def follow(
    database: Database, row: Callable[[], sqlite3.Row], job_id: str, after: int
) -> AsyncIterator[JobEvent]:
    told = TextFold()
    seen, last = after, None
    while True:
        now = row()  # before the events: when it is over, they are all there
        for event in jobs.events(database, job_id, seen):
            seen = event.seq
            if isinstance(event, LAST_EVENTS):
                last = event.seq
            else:
                told.add(event)
                yield event
        if now["status"] != "processing":
            break
        await asyncio.sleep(_POLL)
    end = last or max(seen + 1, 2)
    if after < end - 1:  # else whoever asks has heard them
        for event in _untold(database, now, told, end - 1):
            yield event
    yield _ending(now, end)


def _untold(database: Database, row: sqlite3.Row, told: TextFold, seq: int) -> Iterator[JobEvent]:
    for slot, (phase, text) in _said(database, row).items():
        known = told.of(slot).text()
        offset = len(known) if text.startswith(known) else 0
        if len(text) > offset:
            yield TextAdded(seq, row["finished"], slot, text[offset:], offset, phase)


def _ending(row: sqlite3.Row, seq: int) -> JobEvent:
    if row["result"]:
        return JobDone(seq, row["finished"], "", row["status"])
    kind = JobCancelled if row["status"] == "cancelled" else JobFailed
    return kind(seq, row["finished"], "", from_dict(json.loads(row["error"] or "{}")))


def _said(database: Database, row: sqlite3.Row) -> dict[str, tuple[str, str]]:
    """What each model said last, and in which phase."""
    if not row["result"]:
        return {}
    if row["tool"] != "consensus":
        return {"0": ("answer", packing.load(row["result"])["content"])}
    said: dict[str, tuple[str, str]] = {}
    for key, reply in sorted(jobs.replies(database, row["id"]).items()):  # "initial:…" before "refined:…"
        phase, _, slot = key.rpartition(":")
        said[slot] = phase, reply.text
    return said


def slots(database: Database, row: sqlite3.Row) -> list[Json]:
    """Each model of a job that another process runs, or that did not complete: its state and its text."""
    found = {
        str(number): {"slot": str(number), "model": label, "status": "waiting", "text": ""}
        for number, label in enumerate(consensus.labels(tuple(json.loads(row["models"]))))
    }
    told = TextFold()
    for event in jobs.events(database, row["id"], 0):
        if event.slot in found:
            _fold(found[event.slot], event)
            told.add(event)
    for name, text in told.texts.items():
        found[name]["text"] = text.text()
    replies = jobs.replies(database, row["id"])
    if row["status"] != "processing":
        return partial.states(row, list(found.values()), replies)
    for name, reply in partial.last_answers(replies).items():
        if name in found and found[name]["status"] == "completed":
            found[name]["text"] = reply.text
    return list(found.values())


def _fold(slot: Json, event: JobEvent) -> None:
    if isinstance(event, ModelStarted):
        slot.pop("error", None)
        slot |= {"model": event.model, "status": "processing", "phase": event.phase}
    elif isinstance(event, ModelFinished):
        slot["status"] = "completed"
    elif isinstance(event, ModelFailed):
        slot |= {"status": "failed", "error": event.error.as_dict()}

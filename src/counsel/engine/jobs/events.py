"""What a running job has said so far, and who listens.

Structural events are few and kept; text is kept once per slot and joined only when someone asks. The journal gets
what is new of both every 200 ms, so that another process can follow and a crash loses little of what was seen.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import field, replace
from typing import Any, Literal, TypeAlias

from counsel.engine.jobs.event_queue import EventQueue
from counsel.lazy_dataclass import dataclass
from counsel.requests import JobEvent
from counsel.text_buffer import TextBuffer
from counsel.types import Json

# A model failed and another is asked; it tries again by itself; the job goes on in another process.
Restart: TypeAlias = Literal["failed", "retried", "interrupted"]
LAST_KINDS = frozenset({"done", "failed", "cancelled"})
MOST_ASIDES = 2_000  # notices and tool calls of one job that are told and kept
_ASIDES = frozenset({"notice", "tool"})


@dataclass(slots=True)
class Slot:
    """One model of a job."""

    model: str
    status: str = "waiting"
    phase: str = ""
    said: TextBuffer = field(default_factory=TextBuffer)
    flushed: int = 0
    error: Json | None = None
    waits: Json | None = None  # what for, while nothing else happens

    @property
    def length(self) -> int:
        return self.said.length

    def text(self) -> str:
        return self.said.text()


class Live:
    def __init__(self, job_id: str, models: tuple[str, ...], seq: int = 0) -> None:
        self.job_id = job_id
        self.slots = {str(index): Slot(model) for index, model in enumerate(models)}
        self.events: list[JobEvent] = []
        self.seq = seq
        self.waits: Json | None = None  # what the job waits for before its first call
        self.journalled = seq > 0  # something of this job stands in the journal's events
        self._unwritten: list[JobEvent] = []
        self._asides = 0
        self._listeners: set[EventQueue] = set()

    # ── telling ──────────────────────────────────────────────────────────────────────────────────────

    def emit(self, kind: str, slot: str = "", **data: Any) -> None:
        if kind in _ASIDES:
            self._asides += 1
            if self._asides > MOST_ASIDES:
                return
            if self._asides == MOST_ASIDES:
                kind, data = (
                    "notice",
                    {
                        "kind_of": "warning",
                        "text": "There were too many notices and tool calls: no further ones are told.",
                    },
                )
        event = self._next(kind, slot, data)
        self.events.append(event)
        self._unwritten.append(event)
        self._tell(event)

    def wait(self, slot: str, what: str, text: str, **data: Any) -> None:
        """The job, or with `slot` one of its models, waits. `what`: turn, slot, retry; the next event of either ends it."""
        told: Json = {"for": what, "text": text, **data}
        if slot:
            self.slots[slot].waits = told
        else:
            self.waits = told
        self.emit("waiting", slot, **told)

    def waits_for(self) -> Json | None:
        """What the job waits for: before its first call, or while none of its models speaks."""
        busy = [state for state in self.slots.values() if state.status == "processing"]
        if self.waits or not busy or not all(state.waits for state in busy):
            return self.waits
        return busy[0].waits

    def go_on(self, slot: str) -> None:
        """What was waited for is here."""
        if self.slots[slot].waits:
            self.slots[slot].waits = None
            self.emit("waiting", slot)

    def begin(self, slot: str, phase: str) -> TextBuffer:
        """The model is asked; what it says from now on is in the buffer that comes back."""
        state = self.slots[slot]
        state.waits = None
        state.status, state.phase, state.error = "processing", phase, None
        state.said, state.flushed = TextBuffer(), 0
        self.emit("model_started", slot, model=state.model, phase=phase)
        return state.said

    def text(self, slot: str, delta: str) -> None:
        state = self.slots[slot]
        offset = state.length
        state.waits = None
        state.said.append(delta)
        if self._listeners:
            self._tell(
                JobEvent(
                    self.seq,
                    time.time(),
                    "text",
                    slot,
                    {"text": delta, "offset": offset, "phase": state.phase},
                )
            )

    def restart(
        self, slot: str, reason: Restart, error: str, *, after: str, keep: int = 0, **data: Any
    ) -> None:
        """What was told behind `keep` is void. `after` is who says it anew; nothing is told where nothing was void."""
        state = self.slots[slot]
        if state.length > keep:
            state.said.cut(keep)
            state.flushed = min(state.flushed, keep)
            self._restarted(slot, reason=reason, error=error, next=after, offset=keep, **data)

    def resume(self, slots: Iterable[str]) -> None:
        """These had spoken in a process that has ended: nobody goes on from there."""
        for slot in slots:
            error = "The process that ran this job ended."
            self._restarted(slot, reason="interrupted", error=error, next=self.slots[slot].model, offset=0)

    def _restarted(self, slot: str, **data: Any) -> None:
        state = self.slots[slot]
        self.emit("restarted", slot, **{"model": state.model, "phase": state.phase, **data})

    def thinking(self, slot: str, delta: str) -> None:
        if self._listeners:
            self._tell(JobEvent(self.seq, time.time(), "thinking", slot, {"text": delta}))

    def settle(self, slot: str, status: str, error: Json | None = None, **data: Any) -> None:
        state = self.slots[slot]
        if error:  # a finished answer is remembered as a whole; of this one there is nothing but its events
            self._write_text(slot, state)
        state.status, state.error, state.waits = status, error, None
        told = {"error": _without_partial(error)} if error else {}
        kind = "model_failed" if error else "model_finished"
        self.emit(kind, slot, model=state.model, phase=state.phase, **told, **data)

    def refuse(self, slot: str, phase: str, error: Json) -> None:
        """A model that failed: told once, also when it could not even be asked."""
        state = self.slots[slot]
        if (state.status, state.phase) != ("failed", phase):
            self.begin(slot, phase)
            self.settle(slot, "failed", error)

    def _next(self, kind: str, slot: str, data: Json) -> JobEvent:
        self.seq += 1
        return JobEvent(self.seq, time.time(), kind, slot, data)

    def _tell(self, event: JobEvent) -> None:
        for listener in self._listeners:
            listener.put(event)

    # ── writing down ─────────────────────────────────────────────────────────────────────────────────

    def unwritten(self) -> list[JobEvent]:
        """Events for the journal since the last call; text of each slot as one piece."""
        for name, state in self.slots.items():
            if state.status == "processing":
                self._write_text(name, state)
        written, self._unwritten = [_for_journal(event) for event in self._unwritten], []
        self.journalled |= bool(written)
        return written

    def _write_text(self, name: str, state: Slot) -> None:
        if state.length > state.flushed:
            piece = state.said.since(state.flushed)
            data = {"text": piece, "offset": state.flushed, "phase": state.phase}
            self._unwritten.append(self._next("text", name, data))
            state.flushed = state.length

    def leave(self) -> None:
        """Nothing more is told here: the job goes on in another process."""
        for listener in self._listeners:
            listener.put(None)

    # ── listening ────────────────────────────────────────────────────────────────────────────────────

    async def follow(self) -> AsyncIterator[JobEvent]:
        """All that was, in short, then what comes, to the end; without an end when the job was lost."""
        listener = EventQueue()
        for past in self._so_far():
            listener.put(past)
        self._listeners.add(listener)
        try:
            while True:
                told: JobEvent | None = await listener.get()
                if told is None:
                    return
                yield told
                if told.kind in LAST_KINDS:
                    return
        finally:
            self._listeners.discard(listener)

    def _so_far(self) -> list[JobEvent]:
        """What was emitted, and in its place what each model has said in its present phase."""
        ends = {
            event.slot: event for event in self.events if event.kind in {"model_finished", "model_failed"}
        }
        speaking = [name for name, state in self.slots.items() if state.status == "processing"]
        said: list[JobEvent] = []
        last: list[JobEvent] = []
        for event in self.events:
            if ends.get(event.slot) is event and event.slot not in speaking:
                said += self._said(event.slot)
            (last if event.kind in LAST_KINDS else said).append(event)
        for slot in speaking:
            said += self._said(slot)
        return said + last

    def _said(self, slot: str) -> list[JobEvent]:
        state = self.slots[slot]
        if not state.length:
            return []
        data = {"text": state.text(), "offset": 0, "phase": state.phase}
        return [JobEvent(self.seq, time.time(), "text", slot, data)]


def _without_partial(error: Json) -> Json:
    """The text was told as it came, and the job's own error has it: not once more in an event."""
    return {name: value for name, value in error.items() if name != "partial"}


def _for_journal(event: JobEvent) -> JobEvent:
    if event.kind not in LAST_KINDS or "error" not in event.data:
        return event
    return replace(event, data={**event.data, "error": _without_partial(event.data["error"])})

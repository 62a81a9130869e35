"""The events and texts of a running job, and its followers.

Structural events are few and stored as they are; text is kept once per slot and joined only when it is read. New events
and text are written to the database every 200 ms, so that another process can follow and a crash loses little of what
followers saw.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable
from dataclasses import field, replace
from typing import Literal, TypeAlias

from counsel.answer_parts import AnswerPart
from counsel.engine.jobs.event_queue import EventQueue, Push
from counsel.errors import CounselError
from counsel.job_events import (
    LAST_EVENTS,
    JobCancelled,
    JobDone,
    JobEvent,
    JobFailed,
    ModelFailed,
    ModelFinished,
    ModelStarted,
    Noticed,
    PartAdded,
    PhaseStarted,
    Restarted,
    RestartReason,
    Spent,
    Started,
    TextAdded,
    ThinkingAdded,
    ToolInputAdded,
    ToolRun,
    ToolUsed,
    Wait,
    Waiting,
)
from counsel.lazy_dataclass import dataclass
from counsel.text import TextBuffer
from counsel.types import ToolInput

SlotStatus: TypeAlias = Literal["waiting", "processing", "completed", "failed", "cancelled", "interrupted"]
MOST_THINKING = 64 * 1024  # characters of a model's thinking that are stored, and shown to later followers
MOST_ASIDES = 2_000  # notices and tool calls of one job that are reported and stored


@dataclass(slots=True)
class Slot:
    """One model of a job."""

    model: str
    status: SlotStatus = "waiting"
    phase: str = ""
    buffer: TextBuffer = field(default_factory=TextBuffer)
    flushed: int = 0
    error: CounselError | None = None
    waits: Wait | None = None  # what it waits for, while nothing else happens
    asked: float = 0.0  # when its call was sent
    first: float | None = None  # when its first word came
    thinking: TextBuffer = field(default_factory=TextBuffer)  # of all phases, up to MOST_THINKING
    thought: int = 0  # characters of all its thinking
    thinking_stored: int = 0
    inputs: dict[str, int] = field(default_factory=dict)  # by tool call: characters of its arguments so far
    has_calls: bool = False  # or results of a vendor's own tools

    @property
    def is_read(self) -> bool:
        """Whether followers have something that another model's answer cannot continue."""
        return bool(self.length or self.inputs or self.has_calls)

    @property
    def length(self) -> int:
        return self.buffer.length

    @property
    def first_ms(self) -> int | None:
        return None if self.first is None else max(0, round((self.first - self.asked) * 1000))

    def text(self) -> str:
        return self.buffer.text()

    def forget_thinking(self) -> None:
        self.thinking, self.thought, self.thinking_stored = TextBuffer(), 0, 0


class Live:
    def __init__(
        self, job_id: str, models: tuple[str, ...], seq: int = 0, *, judge: str | None = None
    ) -> None:
        self.job_id = job_id
        self.slots = {str(index): Slot(model) for index, model in enumerate(models)}
        if judge is not None:
            self.slots["judge"] = Slot(judge)
        self.events: list[JobEvent] = []
        self.seq = self.began = seq
        self.waits: Wait | None = None  # what the job waits for before its first call
        self.is_stored = seq > 0  # there are stored events of this job
        self.has_thought = False  # there is thinking to store
        self.is_resumable = False  # a follower may come back after the end for the events that it missed
        self._unwritten: list[JobEvent] = []
        self._asides = 0
        self._last_events: list[JobEvent] | None = None  # the end, until it is written
        self._listeners: set[EventQueue] = set()

    # ── adding events ──────────────────────────────────────────────────────────────────────────────────────

    def started(self, tool: str, models: tuple[str, ...], job_id: str, conversation: str) -> None:
        self._emit(Started(*self._stamp(), tool, models, job_id, conversation))

    def phase(self, name: str) -> None:
        self._emit(PhaseStarted(*self._stamp(), name))

    def notice(self, slot: str, kind_of: str, text: str, setting: str | None = None) -> None:
        if self._accepts(slot):
            self._emit(Noticed(*self._stamp(slot), kind_of, text, setting))

    def tool_input(self, slot: str, piece: ToolInput, delta: str) -> None:
        """Not stored, because the whole call is."""
        inputs = self.slots[slot].inputs
        offset = inputs.get(piece.id, 0)
        inputs[piece.id] = offset + len(delta)
        if self._listeners:
            call = ToolInputAdded(
                self.seq, time.time(), slot, delta, offset, piece.id, piece.name, piece.namespace, piece.item
            )
            self._publish(call)

    def part(self, slot: str, part: AnswerPart) -> None:
        self.slots[slot].has_calls |= part["type"] != "thinking"
        self._emit(PartAdded(*self._stamp(slot), part))

    def tool(self, slot: str, name: str, run: ToolRun | None = None) -> None:
        if self._accepts(slot):
            self._emit(ToolUsed(*self._stamp(slot), name, run))

    def done(self, status: str) -> None:
        self._emit(JobDone(*self._stamp(), status))

    def failed(self, error: CounselError) -> None:
        self._emit(JobFailed(*self._stamp(), error.copy()))

    def cancelled(self, error: CounselError) -> None:
        self._emit(JobCancelled(*self._stamp(), error.copy()))

    def _accepts(self, slot: str) -> bool:
        """Whether one more notice or tool call is allowed; the last one is the note that there were too many."""
        self._asides += 1
        if self._asides == MOST_ASIDES:
            text = "Too many notices and tool calls: further ones are not shown."
            self._emit(Noticed(*self._stamp(slot), "warning", text))
        return self._asides < MOST_ASIDES

    def _stamp(self, slot: str = "") -> tuple[int, float, str]:
        self.seq += 1
        return self.seq, time.time(), slot

    def _emit(self, event: JobEvent) -> None:
        self._unwritten.append(event)
        if self._last_events is not None and isinstance(event, LAST_EVENTS):
            self._last_events.append(event)
        else:
            self.events.append(event)
            if self._listeners:
                self._publish(event)

    def hold_end(self) -> None:
        """The end is published by `publish_end`, once it is written. Until then another process may take the job (this
        one was suspended, or dies now), and followers would have seen an end that did not happen.
        """
        self._last_events = []

    def publish_end(self) -> None:
        last_events, self._last_events = self._last_events or [], None
        for event in last_events:
            self.events.append(event)
            self._publish(event)

    def wait(self, slot: str, wait: Wait) -> None:
        """The job, or with `slot` one of its models, waits; the next event of either ends the wait."""
        if slot:
            self.slots[slot].waits = wait
        else:
            self.waits = wait
        self._emit(Waiting(*self._stamp(slot), wait))

    def waits_for(self) -> Wait | None:
        """What the job waits for: before its first call, or while none of its models answers."""
        busy = [state for state in self.slots.values() if state.status == "processing"]
        if self.waits or not busy or not all(state.waits for state in busy):
            return self.waits
        return busy[0].waits

    def go_on(self, slot: str) -> None:
        """The model's wait is over."""
        if self.slots[slot].waits:
            self.slots[slot].waits = None
            self._emit(Waiting(*self._stamp(slot), None))

    def begin(self, slot: str, phase: str) -> TextBuffer:
        """The model's call starts; return the buffer for its text."""
        state = self.slots[slot]
        state.waits = None
        if phase == state.phase:
            state.forget_thinking()  # a new attempt, which starts thinking anew
        state.status, state.phase, state.error = "processing", phase, None
        if state.length:  # of an earlier phase
            state.buffer = TextBuffer()
        state.flushed, state.inputs, state.has_calls = 0, {}, False
        state.asked, state.first = time.time(), None
        self._emit(ModelStarted(*self._stamp(slot), state.model, phase))
        return state.buffer

    def text(self, slot: str, delta: str) -> None:
        state = self.slots[slot]
        offset = state.length
        state.waits = None
        if state.first is None:
            state.first = time.time()
        state.buffer.append(delta)
        if self._listeners:
            self._publish(TextAdded(self.seq, time.time(), slot, delta, offset, state.phase))

    def restart(
        self,
        slot: str,
        reason: RestartReason,
        error: str,
        *,
        model: str,
        after: str,
        keep: int = 0,
        code: str | None = None,
    ) -> None:
        """Discard the text of `model` after `keep`; `after` answers instead. No event if nothing is discarded."""
        state = self.slots[slot]
        if state.length > keep:
            state.buffer.cut(keep)
            state.flushed = min(state.flushed, keep)
            if not keep:
                state.forget_thinking()
            self._emit(Restarted(*self._stamp(slot), model, state.phase, reason, error, after, keep, code))

    def resume(self, slots: Iterable[str]) -> None:
        """These slots had text in a process that has ended; their models start again."""
        for slot in slots:
            error, state = "The process that ran this job ended.", self.slots[slot]
            stamp = self._stamp(slot)
            self._emit(Restarted(*stamp, state.model, state.phase, "interrupted", error, state.model, 0))

    def thinking(self, slot: str, delta: str) -> None:
        state = self.slots[slot]
        offset = state.thought
        state.thought += len(delta)
        if offset < MOST_THINKING:
            state.thinking.append(delta[: MOST_THINKING - offset])
        if self._listeners:
            self._publish(ThinkingAdded(self.seq, time.time(), slot, delta, offset))

    def _keep_thinking(self, slot: str) -> None:
        """Store the new thinking for later followers; current ones already have it."""
        state = self.slots[slot]
        if state.thinking.length > state.thinking_stored:
            piece = state.thinking.since(state.thinking_stored)
            self._unwritten.append(ThinkingAdded(*self._stamp(slot), piece, state.thinking_stored))
            state.thinking_stored = state.thinking.length
            self.has_thought = True

    def finish(self, slot: str, provider: str, ms: int, length: int, spent: Spent | None = None) -> None:
        state = self.slots[slot]
        state.status, state.error, state.waits = "completed", None, None
        self._keep_thinking(slot)
        stamp = self._stamp(slot)
        self._emit(
            ModelFinished(*stamp, state.model, state.phase, provider, ms, length, state.first_ms, spent)
        )

    def fail(self, slot: str, error: CounselError) -> None:
        state = self.slots[slot]
        # a finished answer is stored as a whole; a failed one only in its events
        self._write_text(slot, state)
        self._keep_thinking(slot)
        reported_error = error.copy(partial=False)  # followers have the text, and the job's own error has it
        state.status, state.error, state.waits = "failed", error.copy(), None
        self._emit(ModelFailed(*self._stamp(slot), state.model, state.phase, reported_error, state.first_ms))

    def refuse(self, slot: str, phase: str, error: CounselError) -> None:
        """Report a model's failure once, even if the model could not be asked."""
        state = self.slots[slot]
        if (state.status, state.phase) != ("failed", phase):
            self.begin(slot, phase)
            self.fail(slot, error)

    def _publish(self, event: JobEvent) -> None:
        for listener in self._listeners:
            listener.put(event)

    # ── storing ──────────────────────────────────────────────────────────────────────────────────────

    def unwritten(self) -> list[JobEvent]:
        """Events for the store since the last call; the text of each slot is one event."""
        for name, state in self.slots.items():
            if state.status == "processing":
                self._write_text(name, state)
        events, self._unwritten = [_for_store(event) for event in self._unwritten], []
        self.is_stored |= bool(events)
        return events

    def _write_text(self, name: str, state: Slot) -> None:
        if state.length > state.flushed:
            piece = state.buffer.since(state.flushed)
            self._unwritten.append(TextAdded(*self._stamp(name), piece, state.flushed, state.phase))
            state.flushed = state.length

    def leave(self) -> None:
        """End the streams of followers: the job continues in another process."""
        for listener in self._listeners:
            listener.put(None)

    # ── listening ────────────────────────────────────────────────────────────────────────────────────

    async def follow(self, push: Push | None = None) -> AsyncGenerator[JobEvent]:
        """Past events, with texts joined, then new ones up to the end; no end if the job was lost.

        Events that `push` takes are not yielded.
        """
        listener = EventQueue(push)
        for past in self._so_far():
            listener.put(past)
        self._listeners.add(listener)
        try:
            while True:
                event: JobEvent | None = await listener.get()
                if event is None:
                    return
                yield event
                if isinstance(event, LAST_EVENTS):
                    return
        finally:
            self._listeners.discard(listener)

    def _so_far(self) -> list[JobEvent]:
        """The emitted events, and among them the text of each model in its current phase."""
        ends = {event.slot: event for event in self.events if isinstance(event, ModelFinished | ModelFailed)}
        speaking = [name for name, state in self.slots.items() if state.status == "processing"]
        past: list[JobEvent] = []
        last: list[JobEvent] = []
        for event in self.events:
            if ends.get(event.slot) is event and event.slot not in speaking:
                past += self._text_so_far(event.slot)
            (last if isinstance(event, LAST_EVENTS) else past).append(event)
        for slot in speaking:
            past += self._text_so_far(slot)
        return past + last

    def _text_so_far(self, slot: str) -> list[JobEvent]:
        state = self.slots[slot]
        past: list[JobEvent] = []
        if state.thinking.length:
            past.append(ThinkingAdded(self.seq, time.time(), slot, state.thinking.text()))
        if state.length:
            past.append(TextAdded(self.seq, time.time(), slot, state.text(), 0, state.phase))
        return past


def _for_store(event: JobEvent) -> JobEvent:
    if isinstance(event, JobFailed):
        return replace(event, error=event.error.copy(partial=False))
    return event

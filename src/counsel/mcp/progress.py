"""Progress messages for a waiting caller: the newest text, or how long a model has been thinking.

Clients show the beginning of a message (Claude Code about 200 characters), so messages are short. Clients that reset
their timers on progress need a message every few seconds, and its number must grow.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from counsel.errors import CounselError
from counsel.job_events import (
    JobEvent,
    ModelFailed,
    ModelFinished,
    ModelStarted,
    PhaseStarted,
    Restarted,
    TextAdded,
    TextFold,
    Waiting,
)
from counsel.lazy_dataclass import dataclass
from counsel.mcp import render
from counsel.requests import Engine

Report: TypeAlias = Callable[[float, str], None]

REPORT_EVERY = 0.25  # seconds: one notification per delta would cut throughput to a quarter (measured)
HEARTBEAT = 4.0  # seconds of silence after which a message says which model is thinking
REPORT_TEXT = 200  # characters of one message
_LEAST = 24  # characters of each model's text, however many models there are


async def report(engine: Engine, job: str, send: Report) -> None:
    """Send the newest text: a few times per second while it grows, else every few seconds."""
    text = LiveText()
    collecting = asyncio.ensure_future(_collect(engine, job, text))
    try:
        while True:
            await _wait_for_change(text)
            send(text.size, text.message())
            if collecting.done():
                return
            await asyncio.sleep(REPORT_EVERY)
    finally:
        collecting.cancel()
        with suppress(asyncio.CancelledError, CounselError):
            await collecting


async def _wait_for_change(text: LiveText) -> None:
    try:
        async with asyncio.timeout(HEARTBEAT):
            await text.changed.wait()
    except TimeoutError:
        text.beat()
    text.changed.clear()


async def _collect(engine: Engine, job: str, text: LiveText) -> None:
    async for event in engine.follow(job):
        text.add(event)


@dataclass(slots=True)
class _Model:
    name: str
    began: float
    newest: float = 0.0  # when its last text arrived
    note: str = ""
    ended: str = ""

    def message(self, tail: str, length: int, most: int) -> str:
        """The note about discarded text, the newest text, and how long the model has been silent."""
        now = time.monotonic()
        silent = now - (self.newest or self.began)
        if not tail:
            return self.note or f"{self.name} is thinking ({now - self.began:.0f} s)"
        state = f" [silent for {silent:.0f} s]" if silent >= HEARTBEAT else ""
        text = _tail(tail, max(_LEAST, most - len(state) - len(self.note)), length) + state
        return f"{self.note}\n\n{text}" if self.note else text

    def line(self, tail: str, length: int, most: int) -> str:
        """One of several models, in one line."""
        if self.ended:
            return f"{self.name}: {self.ended}"
        if not tail:
            return self.message(tail, length, most)
        return f"{self.name}: {_tail(' '.join(tail.split()), max(_LEAST, most), length)}"


def _tail(text: str, most: int, length: int) -> str:
    """The end of a text, starting at a word."""
    if length <= most and len(text) <= most:
        return text
    tail = text[-(most - 1) :]
    first = tail.find(" ")
    if 0 <= first < len(tail) // 2:
        tail = tail[first + 1 :]
    return f"…{tail}"


class LiveText:
    """A job's answers while they arrive: of each, the end, as long as a message can show."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.size = 0
        self._models: dict[str, _Model] = {}
        self._texts = TextFold(tail=REPORT_TEXT * 2)
        self._began = time.monotonic()
        self._wait_note = ""  # before the first call

    def add(self, event: JobEvent) -> None:
        self._texts.add(event)
        if isinstance(event, TextAdded):
            self._model(event.slot).newest = time.monotonic()
            self._grow(len(event.text))
        elif isinstance(event, ModelStarted):
            self._wait_note = ""
            note = self._models[event.slot].note if event.slot in self._models else ""
            self._models[event.slot] = _Model(event.model or event.slot, time.monotonic(), note=note)
        elif isinstance(event, PhaseStarted):
            for model in self._models.values():
                model.note = ""
        elif isinstance(event, Waiting):
            if event.wait and not event.slot:
                self._wait_note = f"[waits for {event.wait.text}]"
                self._grow(1)
        elif isinstance(event, Restarted):
            self._model(event.slot).note = f"[{render.restarted(event)}]"
            self._grow(1)
        elif isinstance(event, ModelFinished | ModelFailed):
            self._model(event.slot).ended = "done" if isinstance(event, ModelFinished) else "failed"
            if len(self._models) > 1:
                self._grow(1)

    def beat(self) -> None:
        """Increase the number: a client may drop a notification whose number has not grown."""
        self.size += 1

    def _model(self, slot: str) -> _Model:
        return self._models.setdefault(slot, _Model(slot, time.monotonic()))

    def _grow(self, by: int) -> None:
        self.size += by
        self.changed.set()

    def message(self) -> str:
        if self._wait_note:
            return self._wait_note
        if not self._models:
            return f"starting ({time.monotonic() - self._began:.0f} s)"
        texts = [(model, self._texts.of(slot)) for slot, model in self._models.items()]
        if len(texts) == 1:
            model, text = texts[0]
            return model.message(text.text(), text.length, REPORT_TEXT)
        share = REPORT_TEXT // len(texts)
        return "\n".join(
            model.line(text.text(), text.length, share - len(model.name) - 3) for model, text in texts
        )

"""What a caller with a progress token hears while it waits: the end of the text so far, and that a silent model still works.

Clients show the head of a message (Claude Code about 200 characters), so a message is short: the newest words. Clients
that reset their timers on progress need one every few seconds, and its number must grow.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from counsel.errors import CounselError
from counsel.lazy_dataclass import dataclass
from counsel.mcp import render
from counsel.requests import Engine, JobEvent

Report: TypeAlias = Callable[[float, str], None]

REPORT_EVERY = 0.25  # seconds: a progress notification per delta costs four times the throughput (facts)
HEARTBEAT = 4.0  # seconds of silence after which a message says who is thinking
REPORT_TEXT = 200  # characters of one message
_LEAST = 24  # characters of each model's text, however many there are
_ENDED = {"model_finished": "done", "model_failed": "failed"}


async def report(engine: Engine, job: str, tell: Report) -> None:
    """The newest text, a few times per second while it grows, else every few seconds that it does not."""
    text = Growing()
    following = asyncio.ensure_future(_collect(engine, job, text))
    try:
        while True:
            await _news(text)
            tell(text.size, text.shown())
            if following.done():
                return
            await asyncio.sleep(REPORT_EVERY)
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError, CounselError):
            await following


async def _news(text: Growing) -> None:
    try:
        async with asyncio.timeout(HEARTBEAT):
            await text.grown.wait()
    except TimeoutError:
        text.beat()
    text.grown.clear()


async def _collect(engine: Engine, job: str, text: Growing) -> None:
    async for event in engine.follow(job):
        text.add(event)


@dataclass(slots=True)
class _Model:
    name: str
    began: float
    heard: float = 0.0  # when its last text came
    tail: str = ""
    length: int = 0
    note: str = ""
    ended: str = ""

    def cut(self, offset: int) -> None:
        """What came from `offset` on is void."""
        kept = max(0, len(self.tail) - max(0, self.length - offset)) if offset else 0
        self.tail, self.length = self.tail[:kept], offset

    def hear(self, delta: str) -> None:
        self.tail = (self.tail + delta)[-REPORT_TEXT * 2 :]
        self.length += len(delta)
        self.heard = time.monotonic()

    def shown(self, most: int) -> str:
        """The note about what became void, the newest words, and how long the model has been silent."""
        now = time.monotonic()
        silent = now - (self.heard or self.began)
        if not self.tail:
            return self.note or f"{self.name} is thinking ({now - self.began:.0f} s)"
        state = f" [silent for {silent:.0f} s]" if silent >= HEARTBEAT else ""
        text = _tail(self.tail, max(_LEAST, most - len(state) - len(self.note)), self.length) + state
        return f"{self.note}\n\n{text}" if self.note else text

    def line(self, most: int) -> str:
        """One of several models, in one line."""
        if self.ended:
            return f"{self.name}: {self.ended}"
        if not self.tail:
            return self.shown(most)
        return f"{self.name}: {_tail(' '.join(self.tail.split()), max(_LEAST, most), self.length)}"


def _tail(text: str, most: int, length: int) -> str:
    """The end of a text, from the beginning of a word on."""
    if length <= most and len(text) <= most:
        return text
    tail = text[-(most - 1) :]
    first = tail.find(" ")
    if 0 <= first < len(tail) // 2:
        tail = tail[first + 1 :]
    return f"…{tail}"


class Growing:
    """The answers of a job as they come, each only as long as a message can show."""

    def __init__(self) -> None:
        self.grown = asyncio.Event()
        self.size = 0
        self._models: dict[str, _Model] = {}
        self._began = time.monotonic()
        self._waits = ""  # before the first call

    def add(self, event: JobEvent) -> None:
        handler = _EVENTS.get(event.kind)
        if handler is not None:
            handler(self, event)

    def beat(self) -> None:
        """A client may drop a notification whose number is no greater than the last one's."""
        self.size += 1

    def _started(self, event: JobEvent) -> None:
        self._waits = ""
        name = str(event.data.get("model", event.slot))
        note = self._models[event.slot].note if event.slot in self._models else ""
        self._models[event.slot] = _Model(name, time.monotonic(), note=note)

    def _phase(self, _event: JobEvent) -> None:
        for model in self._models.values():
            model.note = ""

    def _waiting(self, event: JobEvent) -> None:
        if not event.slot:
            self._waits = f"[waits for {event.data['text']}]"
            self._grow(1)

    def _restarted(self, event: JobEvent) -> None:
        model = self._model(event.slot)
        model.cut(event.data["offset"])
        model.note = f"[{render.restarted(event.data)}]"
        self._grow(1)

    def _text(self, event: JobEvent) -> None:
        delta, model = str(event.data["text"]), self._model(event.slot)
        model.cut(event.data["offset"])
        model.hear(delta)
        self._grow(len(delta))

    def _model_ended(self, event: JobEvent) -> None:
        self._model(event.slot).ended = _ENDED[event.kind]
        if len(self._models) > 1:
            self._grow(1)

    def _model(self, slot: str) -> _Model:
        return self._models.setdefault(slot, _Model(slot, time.monotonic()))

    def _grow(self, by: int) -> None:
        self.size += by
        self.grown.set()

    def shown(self) -> str:
        if self._waits:
            return self._waits
        models = list(self._models.values())
        if not models:
            return f"starting ({time.monotonic() - self._began:.0f} s)"
        if len(models) == 1:
            return models[0].shown(REPORT_TEXT)
        each = REPORT_TEXT // len(models)
        return "\n".join(model.line(each - len(model.name) - 3) for model in models)


_EVENTS: dict[str, Callable[[Growing, JobEvent], None]] = {
    "model_started": Growing._started,  # noqa: SLF001 - a table of this module's own
    "phase": Growing._phase,  # noqa: SLF001
    "waiting": Growing._waiting,  # noqa: SLF001
    "restarted": Growing._restarted,  # noqa: SLF001
    "text": Growing._text,  # noqa: SLF001
    "model_finished": Growing._model_ended,  # noqa: SLF001
    "model_failed": Growing._model_ended,  # noqa: SLF001
}

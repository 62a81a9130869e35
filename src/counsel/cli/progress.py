"""What a person sees while a model is asked: who is waited for, and what it thinks.

On a terminal these are live rows, which end as one line (`thought for 12 s`); on a terminal without cursor movement
(`TERM=dumb`) plain lines; elsewhere nothing but notices.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import ExitStack, suppress
from typing import Self, TextIO

from counsel.cli import output, tables
from counsel.cli.live_region import LiveRegion, Row, no_echo, row, window
from counsel.text import TextTail

_TICK = 0.08  # seconds between two frames
_PAUSE = 4  # times as long as a frame took: long answers must not keep a processor busy
_DIM = "2"
_THOUGHTS = 6  # rows of thinking
_LONGEST_THOUGHT = 8_000  # characters of thinking that are kept


def progress() -> Progress:
    """For stderr."""
    if not sys.stderr.isatty() or output.is_quiet():
        return Progress()
    return LiveProgress(sys.stderr) if output.can_move_cursor() else LineProgress()


class Progress:
    """Nothing but notices, as lines on stderr."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    def wait_for(self, model: str) -> None:
        """The model was asked."""

    def think(self, text: str, at: float) -> None:
        """It thinks."""

    def answers(self, at: float) -> None:
        """It no longer thinks: its answer begins, or it has ended."""

    def note(self, line: str) -> None:
        output.message(line)

    def stop(self) -> None:
        """Remove what is not part of the answer."""


class LineProgress(Progress):
    def __init__(self) -> None:
        self._since = 0.0
        self._waits_for = ""

    def wait_for(self, model: str) -> None:
        if model != self._waits_for:  # a model that is asked again was announced by a notice
            self._waits_for = model
            output.message(f"waiting for {model} …")

    def think(self, text: str, at: float) -> None:  # noqa: ARG002 (Progress)
        if not self._since:
            self._since = at
            output.message("thinking …")

    def answers(self, at: float) -> None:
        if self._since:
            output.message(thought_for(at - self._since))
            self._since = 0.0


class LiveProgress(Progress):
    """Live rows at the end of the terminal, drawn by a task of their own."""

    def __init__(self, stream: TextIO) -> None:
        self.region = LiveRegion(stream)
        self._terminal = ExitStack()
        self._ticking: asyncio.Task[None] | None = None
        self._model, self._asked_at = "", 0.0
        self._thoughts = TextTail(_LONGEST_THOUGHT)
        self._thinking_since = 0.0

    async def __aenter__(self) -> Self:
        self._terminal.enter_context(no_echo())
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._ticking:
            self._ticking.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticking
        self.stop()
        self._terminal.close()

    def wait_for(self, model: str) -> None:
        self._model, self._asked_at = output.sanitized(model), time.monotonic()

    def think(self, text: str, at: float) -> None:
        self._thinking_since = self._thinking_since or at
        self._thoughts.put(self._thoughts.length, text)

    def answers(self, at: float) -> None:
        self._model = ""
        if self._thinking_since and not output.is_quiet():
            self.fold(row(thought_for(at - self._thinking_since), _DIM))
            self._thinking_since = 0.0
            self._thoughts = TextTail(_LONGEST_THOUGHT)

    def note(self, line: str) -> None:
        self.region.clear()
        output.message(line)
        self.draw()

    def stop(self) -> None:
        self.forget()
        self.region.clear()

    def forget(self) -> None:
        """Nothing is waited for any more."""
        self._model, self._thinking_since = "", 0.0

    def fold(self, line: Row) -> None:
        """One line in place of the thinking."""
        self.region.draw([line])

    def draw(self) -> None:
        self.region.draw([], self.status())

    def status(self) -> list[Row]:
        """The live rows: a model that is waited for, or what it thinks."""
        if output.is_quiet():
            return []
        waited = int(time.monotonic() - self._asked_at)
        if self._thinking_since:
            columns = window()[0]
            lines = output.sanitized(" ".join(self._thoughts.text().split()))
            shown = tables.fold(lines, columns - 2)[-_THOUGHTS:] if lines else []
            return [row("thinking …", _DIM), *(row(f"  {line}", _DIM) for line in shown)]
        if self._model and waited:
            return [row(f"waiting for {self._model} … {waited} s", _DIM)]
        return []

    async def _tick(self) -> None:
        while True:
            began = time.monotonic()
            self.draw()
            await asyncio.sleep(max(_TICK, _PAUSE * (time.monotonic() - began)))


def thought_for(seconds: float) -> str:
    whole = max(1, round(seconds))
    return f"thought for {whole} s" if whole < 120 else f"thought for {whole // 60} min"

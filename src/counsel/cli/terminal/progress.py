"""What a person sees while a model works: that counsel waits for it, and its thinking.

On a terminal these are live rows, replaced at the end by one line (`thought for 12 s`); on a terminal without cursor
movement (`TERM=dumb`) plain lines; elsewhere only notices.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import ExitStack, suppress
from typing import Self, TextIO

from counsel.cli.terminal import output, tables
from counsel.cli.terminal.live_region import LiveRegion, Row, no_echo, row, window
from counsel.text import TextTail

_TICK = 0.08  # seconds between two frames
_PAUSE = 4  # a pause is this many times as long as a frame took: long answers must not keep a processor busy
_DIM = "2"
_THOUGHTS = 6  # rows of thinking
_LONGEST_THOUGHT = 8_000  # characters of thinking that are kept


def progress() -> Progress:
    """The progress display for stderr."""
    if not sys.stderr.isatty() or output.is_quiet():
        return Progress()
    return LiveProgress(sys.stderr) if output.can_move_cursor() else LineProgress()


class Progress:
    """Only notices, as lines on stderr."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    def wait_for(self, model: str) -> None:
        """Show that counsel waits for the model."""

    def think(self, text: str, at: float) -> None:
        """Show thinking."""

    def end_thinking(self, at: float) -> None:
        """End the thinking: the answer begins or the call has ended."""

    def note(self, line: str) -> None:
        output.message(line)

    def stop(self) -> None:
        """Remove what is not part of the answer."""


class LineProgress(Progress):
    def __init__(self) -> None:
        self._thinking_since = 0.0
        self._model = ""

    def wait_for(self, model: str) -> None:
        if model != self._model:  # a notice already announces a retry of the same model
            self._model = model
            output.message(f"waiting for {model} …")

    def think(self, text: str, at: float) -> None:  # noqa: ARG002 (Progress)
        if not self._thinking_since:
            self._thinking_since = at
            output.message("thinking …")

    def end_thinking(self, at: float) -> None:
        if self._thinking_since:
            output.message(thought_for(at - self._thinking_since))
            self._thinking_since = 0.0


class LiveProgress(Progress):
    """Live rows at the end of the terminal, drawn by their own task."""

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

    def end_thinking(self, at: float) -> None:
        self._model = ""
        if self._thinking_since and not output.is_quiet():
            self.collapse(row(thought_for(at - self._thinking_since), _DIM))
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
        """Stop showing a wait or thinking."""
        self._model, self._thinking_since = "", 0.0

    def collapse(self, line: Row) -> None:
        """Replace the thinking with one line."""
        self.region.draw([line])

    def draw(self) -> None:
        self.region.draw([], self.status())

    def status(self) -> list[Row]:
        """The live rows: the wait for a model, or its thinking."""
        if output.is_quiet():
            return []
        elapsed = int(time.monotonic() - self._asked_at)
        if self._thinking_since:
            columns = window()[0]
            lines = output.sanitized(" ".join(self._thoughts.text().split()))
            thought_lines = tables.fold(lines, columns - 2)[-_THOUGHTS:] if lines else []
            return [row("thinking …", _DIM), *(row(f"  {line}", _DIM) for line in thought_lines)]
        if self._model and elapsed:
            return [row(f"waiting for {self._model} … {elapsed} s", _DIM)]
        return []

    async def _tick(self) -> None:
        while True:
            start = time.monotonic()
            self.draw()
            await asyncio.sleep(max(_TICK, _PAUSE * (time.monotonic() - start)))


def thought_for(seconds: float) -> str:
    count = max(1, round(seconds))
    return f"thought for {count} s" if count < 120 else f"thought for {count // 60} min"

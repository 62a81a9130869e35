"""An answer on stdout: word by word on a terminal, else when it is complete.

What a pipe or a file has received cannot be taken back, and a model may fail after it has begun: there the answer is
written when it is complete, unless `--stream` asks for live text. Where text is discarded later, a line behind it says
so, and the answer starts again below that line.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import Self

import click

from counsel import job_events
from counsel.cli import output
from counsel.job_events import JobEvent, ModelStarted, Noticed, Restarted, TextAdded
from counsel.mcp import render
from counsel.text import TextBuffer

_NOTICES = frozenset({"retry", "passed_over", "warning"})
_WAITS = frozenset({"turn", "slot"})


def stream_option(command: Callable[..., object]) -> Callable[..., object]:
    help_ = "Write text to a pipe or file as it arrives. If a call restarts, the discarded part stays there, marked."
    return click.option("--stream", is_flag=True, help=help_)(command)


class LiveAnswer:
    """One answer: `follow` its events to the end, then `finish` with the answer itself."""

    def __init__(self, *, stream: bool = False) -> None:
        self._live = stream or sys.stdout.isatty()
        self._written = TextBuffer()  # since the last mark

    async def follow(self, events: AsyncIterator[JobEvent]) -> None:
        with WaitingLine() as waiting:
            async for event in events:
                if isinstance(event, TextAdded):
                    if self._live:
                        waiting.stop()
                        self._text(event.text, event.offset)
                elif isinstance(event, Restarted):
                    self._restarted(event, waiting)
                elif isinstance(event, Noticed):
                    if event.kind_of in _NOTICES:
                        waiting.print(f"… {event.text}")
                elif isinstance(event, job_events.Waiting):
                    if event.wait and event.wait.reason in _WAITS:
                        waiting.print(f"… waiting for {event.wait.text}")
                elif isinstance(event, ModelStarted) and not self._written.length:
                    waiting.start(event.model)

    def finish(self, answer: str) -> None:
        """Write what is missing of the answer, or all of it behind a mark where something else was written."""
        self._match(answer)
        output.answer("\n")

    def fail(self, partial: str | None, job_id: str) -> None:
        """The answer broke off: what arrived of it is not written as if it were one."""
        if self._written.length:
            output.answer("" if self._at_line_start() else "\n")
        elif partial:
            output.message(f"The partial answer is kept: `counsel jobs {job_id}` shows it.")

    def _text(self, text: str, offset: int) -> None:
        if offset == self._written.length:
            self._write(text)
        else:  # from the start after another process took over, or once more
            self._match(self._written.text()[:offset] + text, whole=False)

    def _match(self, text: str, *, whole: bool = True) -> None:
        written = self._written.text()
        if not whole and written.startswith(text):
            return
        if not text.startswith(written):
            self._mark("the call was repeated; the text above is discarded")
            written = ""
        self._write(text[len(written) :])

    def _restarted(self, event: Restarted, waiting: WaitingLine) -> None:
        if not self._written.length:
            waiting.print(f"… {render.restarted(event)}")
            return
        kept = self._written.text()[: event.offset]
        self._mark(render.restarted(event))
        self._write(kept)

    def _mark(self, line: str) -> None:
        """Behind the discarded text; on stderr, too, unless both are the same terminal."""
        output.answer("" if self._at_line_start() else "\n")
        if not (sys.stdout.isatty() and sys.stderr.isatty()):
            output.answer(f"[{output.sanitized(line)}]\n")
        output.message(f"… {line}")
        self._written = TextBuffer()

    def _write(self, text: str) -> None:
        output.answer(text)
        self._written.append(text)

    def _at_line_start(self) -> bool:
        return not self._written.length or self._written.text().endswith("\n")


class WaitingLine:
    """`waiting for gpt-5 … 3 s` on a terminal's stderr, until the first word."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, model: str) -> None:
        self.stop()
        if sys.stderr.isatty() and not output.is_quiet():
            self._task = asyncio.create_task(self._count(model))

    def print(self, line: str) -> None:
        """A line for the person; the count continues below it."""
        self._wipe()
        output.message(line)

    def stop(self) -> None:
        if self._task:
            self._task.cancel()
            self._task = None
            self._wipe()

    async def _count(self, model: str) -> None:
        seconds = 0
        while True:
            await asyncio.sleep(1)
            seconds += 1
            self._shown = True
            sys.stderr.write(f"\r\x1b[2Kwaiting for {output.sanitized(model)} … {seconds} s")
            sys.stderr.flush()

    def _wipe(self) -> None:
        """Only a line that holds the count."""
        if self._shown:
            self._shown = False
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()

"""An answer on stdout: live and as Markdown on a terminal, else the exact text when it is complete.

What a pipe or a file has received cannot be taken back, and a model may fail after it has begun: there the answer is
written when it is complete, unless `--stream` asks for live text. Where text is discarded later, a line behind it says
so, and the answer starts again below that line.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Protocol

import click

from counsel.cli import output
from counsel.cli.live_region import Row, window
from counsel.cli.progress import LiveProgress, Progress, progress
from counsel.cli.wording import in_cli_words
from counsel.job_events import (
    JobEvent,
    ModelFinished,
    ModelStarted,
    Noticed,
    Restarted,
    TextAdded,
    ThinkingAdded,
    Waiting,
)
from counsel.mcp import render
from counsel.text import TextBuffer

if TYPE_CHECKING:
    from counsel.cli.markdown import MarkdownStream

_NOTICES = frozenset({"retry", "passed_over", "warning"})
_WAITS = frozenset({"turn", "slot"})


def stream_option(command: Callable[..., object]) -> Callable[..., object]:
    help_ = "Write text to a pipe or file as it arrives. If a call restarts, the discarded part stays there, marked."
    return click.option("--stream", is_flag=True, help=help_)(command)


def plain_option(command: Callable[..., object]) -> Callable[..., object]:
    help_ = "Show the text as it is, not rendered as Markdown."
    return click.option("--plain", is_flag=True, help=help_)(command)


class Writer(Protocol):
    """Where an answer's text is written as it arrives."""

    def write(self, text: str) -> None: ...

    def finish(self) -> None:
        """The text is complete."""

    def break_off(self) -> None:
        """No more of it arrives; the next line starts at the left."""


class LiveAnswer:
    """One answer: `follow` its events to the end, then `finish` with the answer itself."""

    def __init__(self, *, stream: bool = False, plain: bool = False, live: bool = True) -> None:
        self._live = stream or (live and sys.stdout.isatty())
        self._written = TextBuffer()  # since the last mark
        self._progress: Progress
        self._writer: Writer
        if output.can_render() and not plain:
            self._progress = self._writer = RenderedAnswer()
        else:
            self._progress, self._writer = progress(), PlainWriter()

    async def follow(self, events: AsyncIterator[JobEvent]) -> None:
        async with self._progress:
            async for event in events:
                if isinstance(event, TextAdded):
                    if self._live:
                        self._progress.answers(event.at)
                        self._text(event.text, event.offset)
                else:
                    self._report(event)

    def _report(self, event: JobEvent) -> None:
        progress = self._progress
        match event:
            case ThinkingAdded():
                progress.think(event.text, event.at)
            case ModelFinished():
                progress.answers(event.at)
            case Restarted():
                self._restarted(event)
            case Noticed() if event.kind_of in _NOTICES:
                progress.note(f"… {in_cli_words(event.text)}")
            case Waiting(wait=wait) if wait and wait.reason in _WAITS:
                progress.note(f"… waiting for {wait.text}")
            case ModelStarted() if not self._written.length:
                progress.wait_for(event.model)
            case _:
                pass

    def finish(self, answer: str) -> None:
        """Write what is missing of the answer, or all of it behind a mark where something else was written."""
        self._match(answer)
        self._writer.finish()

    def fail(self, partial: str | None, job_id: str) -> None:
        """The answer broke off: what arrived of it is not written as if it were one."""
        if self._written.length:
            self._writer.break_off()
        elif partial:
            from counsel.cli import ids  # few answers break off

            output.message(f"The partial answer is kept: `counsel jobs {ids.short(job_id)}` shows it.")

    def stop(self) -> None:
        """The person stopped it."""
        self._writer.break_off()

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

    def _restarted(self, event: Restarted) -> None:
        if not self._written.length:
            self._progress.note(f"… {render.restarted(event)}")
            return
        kept = self._written.text()[: event.offset]
        self._mark(render.restarted(event))
        self._write(kept)

    def _mark(self, line: str) -> None:
        """Behind the discarded text; on stderr, too, unless both are the same terminal."""
        self._writer.break_off()
        if not (sys.stdout.isatty() and sys.stderr.isatty()):
            output.answer(f"[{output.sanitized(line)}]\n")
        output.message(f"… {line}")
        self._written = TextBuffer()

    def _write(self, text: str) -> None:
        self._writer.write(text)
        self._written.append(text)


class PlainWriter:
    """The text as it is."""

    def __init__(self) -> None:
        self._at_start = True

    def write(self, text: str) -> None:
        output.answer(text)
        self._at_start = text.endswith("\n") if text else self._at_start

    def finish(self) -> None:
        output.answer("\n")
        self._at_start = True

    def break_off(self) -> None:
        if not self._at_start:
            self.finish()


class RenderedAnswer(LiveProgress):
    """Markdown in the same live rows as the progress: finished blocks scroll, the last one is redrawn."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)
        self._stream: MarkdownStream | None = None

    def wait_for(self, model: str) -> None:
        super().wait_for(model)
        # while the model is waited for: it takes 90 ms that would otherwise delay the first word
        import counsel.cli.markdown  # noqa: F401 - read ahead of its use

    def write(self, text: str) -> None:
        if self._stream is None:
            from counsel.cli.markdown import MarkdownStream

            self._stream = MarkdownStream()
        self._stream.add(text)

    def fold(self, line: Row) -> None:
        if self._stream is None:
            super().fold(line)  # between two parts of an answer it would be taken for a part of it

    def draw(self) -> None:
        finished, live = self._frame()
        self.region.draw(finished, live + self.status())

    def stop(self) -> None:
        self.forget()
        self.draw()

    def finish(self) -> None:
        self.forget()
        self.region.draw(self._frame(ended=True)[0])
        self._stream = None

    break_off = finish

    def _frame(self, *, ended: bool = False) -> tuple[list[Row], list[Row]]:
        columns, height = window()
        return self._stream.frame(columns, height, ended=ended) if self._stream else ([], [])

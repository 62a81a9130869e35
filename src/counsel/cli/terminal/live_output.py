"""An answer on stdout: live and as Markdown on a terminal, else the exact text when it is complete.

Text that a pipe or a file has received cannot be taken back, and a model may fail halfway: there the answer is written
when it is complete, unless `--stream` asks for live text. If text is discarded later, a line below it says so, and the
answer starts again below that line.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Protocol

import click

from counsel.cli.terminal import output
from counsel.cli.terminal.live_region import Row, window
from counsel.cli.terminal.progress import LiveProgress, Progress, progress
from counsel.cli.terminal.wording import in_cli_words
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
    from counsel.cli.terminal.markdown import MarkdownStream

_NOTICES = frozenset({"retry", "passed_over", "warning"})
_WAITS = frozenset({"turn", "slot"})


def stream_option(command: Callable[..., object]) -> Callable[..., object]:
    help_ = (
        "Write text to a pipe or file as it arrives. If a call restarts, the discarded part stays, marked."
    )
    return click.option("--stream", is_flag=True, help=help_)(command)


def plain_option(command: Callable[..., object]) -> Callable[..., object]:
    help_ = "Print plain text instead of rendered Markdown."
    return click.option("--plain", is_flag=True, help=help_)(command)


class Writer(Protocol):
    """Where an answer's text is written as it arrives."""

    def write(self, text: str) -> None: ...

    def finish(self) -> None:
        """End the complete text."""

    def break_off(self) -> None:
        """End the line: no more text arrives."""


class LiveAnswer:
    """One answer: `follow` its events to the end, then `finish` with the answer itself."""

    def __init__(self, *, stream: bool = False, plain: bool = False, live: bool = True) -> None:
        self._live = stream or (live and sys.stdout.isatty())
        self._written = TextBuffer()  # since text was last discarded
        self._progress: Progress
        self._writer: Writer
        if output.can_render() and not plain:
            self._progress = self._writer = RenderedAnswer()
        else:
            self._progress, self._writer = progress(), PlainWriter()

    async def follow(self, events: AsyncGenerator[JobEvent]) -> None:
        async with self._progress:
            async for event in events:
                if isinstance(event, TextAdded):
                    if self._live:
                        self._progress.end_thinking(event.at)
                        self._text(event.text, event.offset)
                else:
                    self._report(event)

    def _report(self, event: JobEvent) -> None:
        progress = self._progress
        match event:
            case ThinkingAdded():
                progress.think(event.text, event.at)
            case ModelFinished():
                progress.end_thinking(event.at)
            case Restarted():
                self._restart(event)
            case Noticed() if event.kind_of in _NOTICES:
                progress.note(f"… {in_cli_words(event.text)}")
            case Waiting(wait=wait) if wait and wait.reason in _WAITS:
                progress.note(f"… waiting for {wait.text}")
            case ModelStarted() if not self._written.length:
                progress.wait_for(event.model)
            case _:
                pass

    def finish(self, answer: str) -> None:
        """Write the rest of the answer.

        If other text was written, mark that as discarded and write the whole answer.
        """
        self._match(answer)
        self._writer.finish()

    def fail(self, partial: str | None, job_id: str) -> None:
        """End an answer that failed: its partial text is not written as if it were an answer."""
        if self._written.length:
            self._writer.break_off()
        elif partial:
            from counsel.cli import ids  # few answers break off

            output.message(f"The partial answer is kept: `counsel jobs {ids.short(job_id)}` shows it.")

    def stop(self) -> None:
        """End an answer that the person stopped."""
        self._writer.break_off()

    def _text(self, text: str, offset: int) -> None:
        if offset == self._written.length:
            self._write(text)
        else:  # another process took over and starts from the beginning, or the text was sent twice
            self._match(self._written.text()[:offset] + text, complete=False)

    def _match(self, text: str, *, complete: bool = True) -> None:
        previous = self._written.text()
        if not complete and previous.startswith(text):
            return
        if not text.startswith(previous):
            self._mark("the call was repeated; the text above is discarded")
            previous = ""
        self._write(text[len(previous) :])

    def _restart(self, event: Restarted) -> None:
        if not self._written.length:
            self._progress.note(f"… {render.restarted(event)}")
            return
        prefix = self._written.text()[: event.offset]
        self._mark(render.restarted(event))
        self._write(prefix)

    def _mark(self, line: str) -> None:
        """Print the line below discarded text: on stderr, and on stdout unless both are terminals."""
        self._writer.break_off()
        if not (sys.stdout.isatty() and sys.stderr.isatty()):
            output.answer(f"[{output.sanitized(line)}]\n")
        output.message(f"… {line}")
        self._written = TextBuffer()

    def _write(self, text: str) -> None:
        self._writer.write(text)
        self._written.append(text)


class PlainWriter:
    """Writes the text unchanged."""

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
        # the import takes 90 ms: during the wait it does not delay the first word
        import counsel.cli.terminal.markdown  # noqa: F401 - imported early

    def write(self, text: str) -> None:
        if self._stream is None:
            from counsel.cli.terminal.markdown import MarkdownStream

            self._stream = MarkdownStream()
        self._stream.add(text)

    def collapse(self, line: Row) -> None:
        if self._stream is None:
            super().collapse(line)  # inside an answer, the line would look like part of the answer

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

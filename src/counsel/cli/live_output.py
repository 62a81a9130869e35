"""An answer on its way to stdout, word by word where a person watches.

What a pipe or a file has got cannot be taken back, and a model may fail after it has begun: there the answer is
written when it is whole, unless the live text is asked for. Where words turn out to be void, a line behind them says
so, and the answer begins again below it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import click

from counsel.cli import output
from counsel.mcp import render
from counsel.requests import JobEvent
from counsel.types import Json

_NOTICES = frozenset({"retry", "passed_over", "warning"})


def stream_option(command: Callable[..., Any]) -> Callable[..., Any]:
    help_ = "Write text to a pipe or file as it arrives. If a call restarts, the discarded part stays there, marked."
    return click.option("--stream", is_flag=True, help=help_)(command)


class Telling:
    """One answer. `hear` its events to their end, then `end` with the answer itself."""

    def __init__(self, *, stream: bool = False) -> None:
        self._live = stream or sys.stdout.isatty()
        self._written: list[str] = []  # since the last mark
        self._length = 0

    async def hear(self, events: AsyncIterator[JobEvent]) -> None:
        with Waiting() as waiting:
            async for event in events:
                if event.kind == "text" and self._live:
                    waiting.over()
                    self._text(event.data["text"], event.data["offset"])
                elif event.kind == "restarted":
                    self._restarted(event.data, waiting)
                elif event.kind == "notice" and event.data.get("kind_of") in _NOTICES:
                    waiting.say(f"… {event.data['text']}")
                elif event.kind == "waiting" and event.data.get("for") in {"turn", "slot"}:
                    waiting.say(f"… waiting for {event.data['text']}")
                elif event.kind == "model_started" and not self._length:
                    waiting.begin(event.data["model"])

    def end(self, answer: str) -> None:
        """What is missing of the answer, or all of it behind a mark where something else was written."""
        self._match(answer)
        output.answer("\n")

    def arrived(self, partial: str | None, job_id: str) -> None:
        """The answer failed on its way: what had come of it is no answer, and stands nowhere as one."""
        if self._length:
            output.answer("" if self._at_line_start() else "\n")
        elif partial:
            output.words(f"The partial answer is kept: `counsel jobs {job_id}` shows it.")

    def _text(self, text: str, offset: int) -> None:
        if offset == self._length:
            self._write(text)
        else:  # told from the start after another process took over, or told again
            self._match(self._so_far()[:offset] + text, whole=False)

    def _match(self, text: str, *, whole: bool = True) -> None:
        written = self._so_far()
        if not whole and written.startswith(text):
            return
        if not text.startswith(written):
            self._mark("the call was repeated; the text above is discarded")
            written = ""
        self._write(text[len(written) :])

    def _restarted(self, data: Json, waiting: Waiting) -> None:
        if not self._length:
            waiting.say(f"… {render.restarted(data)}")
            return
        kept = self._so_far()[: data["offset"]]
        self._mark(render.restarted(data))
        self._write(kept)

    def _mark(self, line: str) -> None:
        """Said where the void words stand; on stderr, too, when that is another place."""
        output.answer("" if self._at_line_start() else "\n")
        if not (sys.stdout.isatty() and sys.stderr.isatty()):
            output.answer(f"[{output.tame(line)}]\n")
        output.words(f"… {line}")
        self._written, self._length = [], 0

    def _write(self, text: str) -> None:
        output.answer(text)
        self._written.append(text)
        self._length += len(text)

    def _so_far(self) -> str:
        self._written = ["".join(self._written)]
        return self._written[0]

    def _at_line_start(self) -> bool:
        return not self._length or self._so_far().endswith("\n")


class Waiting:
    """`waiting for gpt-5 … 3 s` on a terminal's stderr, until the first word."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.over()

    def begin(self, model: str) -> None:
        self.over()
        if sys.stderr.isatty():
            self._task = asyncio.create_task(self._count(model))

    def say(self, line: str) -> None:
        """A line for the person; the count goes on below it."""
        self._wipe()
        output.words(line)

    def over(self) -> None:
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
            sys.stderr.write(f"\r\x1b[2Kwaiting for {output.tame(model)} … {seconds} s")
            sys.stderr.flush()

    def _wipe(self) -> None:
        """Never a line that holds something else."""
        if self._shown:
            self._shown = False
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()

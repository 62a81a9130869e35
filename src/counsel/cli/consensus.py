"""`counsel consensus`: several models side by side, live."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

import click

from counsel.cli import ask_options, connect, json_option, output
from counsel.job_events import (
    JobEvent,
    ModelFailed,
    ModelFinished,
    ModelStarted,
    Restarted,
    TextFold,
    Waiting,
)
from counsel.lazy_dataclass import dataclass
from counsel.requests import ConsensusRequest, Engine
from counsel.results import ConsensusResult, Result

if TYPE_CHECKING:
    from rich.console import RenderableType


@click.command(cls=ask_options.QuestionCommand)
@click.argument("prompt", required=False)
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    required=True,
    shell_complete=ask_options.models_like,
    help="Model, alias or agent; repeat for each. The same model may be named twice.",
)
@click.option("--no-feedback", is_flag=True, help="One round only: models do not see each other's answers.")
@click.option(
    "--feedback-prompt",
    metavar="TEXT",
    help="Add this to the prompt with which each model refines its answer.",
)
@ask_options.options
@connect.standalone_option
@json_option
def consensus(
    prompt: str | None,
    models: tuple[str, ...],
    no_feedback: bool,
    feedback_prompt: str | None,
    standalone: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Ask several models; each then reads the others' answers and refines its own.

    counsel consensus "Monolith or services?" -m gpt-5 -m opus -m gemini-2.5-pro
    """
    text = ask_options.full_prompt(prompt)
    caller, fields = ask_options.prepare(options)
    request = ConsensusRequest(
        prompt=text,
        models=models,
        enable_cross_feedback=not no_feedback,
        cross_feedback_prompt=feedback_prompt,
        **fields,
    )
    asking = ask_options.submit(
        request,
        caller,
        _watched,
        standalone=standalone,
        background=options["background"],
        as_json=as_json,
    )
    if result := connect.run(asking):
        show(result)


async def _watched(engine: Engine, job_id: str) -> Result:
    await watch(engine, job_id)
    return await engine.wait(job_id)


def show(result: Result) -> None:
    output.answer(result.content + "\n")
    ask_options.notes(result)
    counts = []
    if isinstance(result, ConsensusResult):
        counts = [
            f"{len(result.initial)} of {result.models_consulted} answered",
            f"{result.refined_count} refined",
        ]
    output.message(" · ".join([*counts, ask_options.footer(result)]))


@dataclass(slots=True)
class Column:
    model: str
    state: str = "waiting"


class Board:
    """What each model is doing, as events tell it."""

    def __init__(self) -> None:
        self.columns: dict[str, Column] = {}
        self._texts = TextFold(tail=_LONGEST)

    def add(self, event: JobEvent) -> bool:
        """True when something changed that a person without a live screen should read."""
        if isinstance(event, ModelStarted):
            self.columns[event.slot] = Column(event.model, f"{_PHASES.get(event.phase, '')}…")
        elif event.slot not in self.columns:
            return False
        self._texts.add(event)
        if isinstance(event, Restarted):
            self.columns[event.slot].state = f"starting again: {event.error}"
        elif isinstance(event, ModelFinished):
            self.columns[event.slot].state = "done"
        elif isinstance(event, ModelFailed):
            self.columns[event.slot].state = f"failed: {event.error.message}"
        return isinstance(event, ModelStarted | Restarted | ModelFinished | ModelFailed)

    def text(self, slot: str) -> str:
        """The end of what the model has said."""
        return self._texts.of(slot).text()

    def line(self, slot: str) -> str:
        column = self.columns[slot]
        return f"{column.model}: {column.state}"

    def render(self, width: int, height: int) -> RenderableType:
        """Side by side as many as fit, each showing the end of its text."""
        from rich.table import Table

        across = max(1, min(len(self.columns), width // _NARROWEST))
        lines = max(1, (height - 1) // -(-len(self.columns) // across) - 2) if self.columns else 1
        grid = Table.grid(expand=True)
        for _ in range(across):
            grid.add_column(ratio=1)
        panels = [
            _panel(column, self.text(slot), width // across - 4, lines)
            for slot, column in self.columns.items()
        ]
        for start in range(0, len(panels), across):
            grid.add_row(*panels[start : start + across])
        return grid


def _panel(column: Column, text: str, width: int, lines: int) -> RenderableType:
    from rich.panel import Panel
    from rich.text import Text

    end = text[-width * lines :].splitlines()
    wrapped = [part for line in end for part in textwrap.wrap(line, max(8, width)) or [""]]
    shown = Text(output.sanitized("\n".join(wrapped[-lines:])))
    return Panel(
        shown,
        title=Text(output.sanitized(column.model)),
        subtitle=Text(output.sanitized(column.state), overflow="ellipsis"),
        height=lines + 2,
    )


_NARROWEST = 36  # characters of a column that can still be read
_LONGEST = 100_000  # characters of a column on the largest screen
_PHASES = {"initial": "first answer", "refined": "refining", "answer": "answering"}


async def watch(engine: Engine, job_id: str) -> None:
    """Side by side on a terminal; elsewhere one line per change, on stderr."""
    board = Board()
    if not sys.stderr.isatty() or output.is_quiet():
        async for event in engine.follow(job_id):
            if isinstance(event, Waiting) and event.wait and not event.slot:
                output.message(f"… waiting for {event.wait.text}")
            if board.add(event) and event.slot:
                output.message(board.line(event.slot))
        return
    from rich.live import Live

    console = output.console(stderr=True)
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        async for event in engine.follow(job_id):
            board.add(event)
            live.update(board.render(console.width, console.height))

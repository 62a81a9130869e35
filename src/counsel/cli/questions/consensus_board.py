"""The models of a consensus side by side, while they answer."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from counsel.cli.terminal import output, tables
from counsel.cli.terminal.live_region import Row, window
from counsel.cli.terminal.progress import LiveProgress
from counsel.cli.terminal.wording import in_cli_words
from counsel.job_events import (
    JobEvent,
    ModelFailed,
    ModelFinished,
    ModelStarted,
    PhaseStarted,
    Restarted,
    TextAdded,
    TextFold,
    ThinkingAdded,
    Waiting,
)
from counsel.lazy_dataclass import dataclass
from counsel.requests import Engine

if TYPE_CHECKING:
    from rich.console import RenderableType

_NARROWEST = 36  # characters; a narrower column is hard to read
_LONGEST = 100_000  # characters; fills a column of the largest screen
_LETTERS = re.compile(r"^[A-T]\n+", re.MULTILINE)
_PHASES = {
    "initial": "first answer",
    "refined": "refining",
    "answer": "answering",
    "verdict": "judging",
    "review": "reviewing",
    "check": "checking findings",
}


@dataclass(slots=True)
class Column:
    model: str
    phase: str
    state: str


class Board:
    """What each model is doing, according to the events."""

    most_lines = _LONGEST  # of each model's text

    def __init__(self) -> None:
        self.columns: dict[str, Column] = {}
        self._texts = TextFold(tail=_LONGEST)
        self._answered: set[str] = set()  # slots with an answer in this round

    def add(self, event: JobEvent) -> bool:
        """Apply the event. Return whether to print the change as a line where there is no live board."""
        is_news = isinstance(event, ModelStarted | Restarted | ModelFinished | ModelFailed)
        if isinstance(event, PhaseStarted):
            self._answered.clear()
            return False
        if isinstance(event, ModelStarted):
            is_news = event.slot not in self._answered  # a second start means that the answer was refused
            phase = f"{_PHASES.get(event.phase, '')} …"
            self.columns[event.slot] = Column(event.model, phase, phase)
        elif event.slot not in self.columns:
            return False
        self._texts.add(event)
        column = self.columns[event.slot]
        if isinstance(event, ThinkingAdded | TextAdded):
            column.state = "thinking …" if isinstance(event, ThinkingAdded) else column.phase
        elif isinstance(event, Restarted):
            self._answered.discard(event.slot)
            column.state = f"starting again: {event.error}"
        elif isinstance(event, ModelFinished):
            self._answered.add(event.slot)
            column.state = "done"
        elif isinstance(event, ModelFailed):
            column.state = f"failed: {in_cli_words(event.error.message)}"
        return is_news

    def text(self, slot: str) -> str:
        """The end of the model's text. Lines of a judge's JSON that contain only an answer's letter are left out."""
        text = self._texts.of(slot).text()
        return _LETTERS.sub("", text) if self.columns[slot].phase.startswith(_PHASES["verdict"]) else text

    def line(self, slot: str) -> str:
        column = self.columns[slot]
        return f"{column.model}: {column.state}"

    def render(self, width: int, height: int) -> RenderableType:
        """As many columns side by side as fit, each with the end of its text."""
        from rich.table import Table

        across = max(1, min(len(self.columns), width // _NARROWEST))
        fitting = (height - 1) // -(-len(self.columns) // across) - 2 if self.columns else 1
        lines = max(1, min(fitting, self.most_lines))
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

    end = output.printable(text[-width * lines :]).expandtabs(4).splitlines()
    rows = [part for line in end for part in tables.fold(line, max(8, width))]
    body = Text("\n".join(rows[-lines:]))
    return Panel(
        body,
        title=Text(output.sanitized(column.model)),
        subtitle=Text(output.sanitized(column.state), overflow="ellipsis"),
        height=lines + 2,
    )


class LiveBoard(LiveProgress):
    """The board in the last rows of the terminal. It disappears when the models finish or the person stops them."""

    def __init__(self, board: Board) -> None:
        super().__init__(sys.stderr)
        self._board = board
        self._console = output.console(stderr=True)

    def status(self) -> list[Row]:
        from counsel.cli.terminal import rich_rows

        if not self._board.columns:
            return []
        columns, height = window()
        return rich_rows.render(self._console, self._board.render(columns, height), columns)


async def watch(engine: Engine, job_id: str, board: Board | None = None) -> None:
    """Show the models side by side on a terminal; elsewhere print one line per change on stderr."""
    board = board or Board()
    if sys.stderr.isatty() and output.can_move_cursor() and not output.is_quiet():
        async with LiveBoard(board):
            async for event in engine.follow(job_id):
                board.add(event)
        return
    async for event in engine.follow(job_id):
        if isinstance(event, Waiting) and event.wait and not event.slot:
            output.message(f"… waiting for {event.wait.text}")
        if board.add(event) and event.slot:
            output.message(board.line(event.slot))

"""The last rows of a terminal, redrawn in place: text above them is written once and scrolls.

A frame is one write that starts at the first row that changed, so nothing flickers and little is sent over a slow
connection. Rows are one column narrower than the window: a full row would leave the cursor in a state that terminals
disagree about.
"""

from __future__ import annotations

import os
import shutil
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from typing import NamedTuple, TextIO

from counsel.cli.terminal import closed_window
from counsel.cli.terminal.tables import cells

# Synchronized output: a frame appears when it is complete. Terminals without this feature ignore the sequences.
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"


class Row(NamedTuple):
    text: str  # with escape sequences for colours
    cells: int


EMPTY = Row("", 0)


def row(text: str, style: str = "") -> Row:
    """A row of plain text; `style` is the code of an escape sequence, for example "2" for dimmed."""
    return Row(f"\x1b[{style}m{text}\x1b[0m" if style else text, cells(text))


def window() -> tuple[int, int]:
    """Columns and rows that a region may use."""
    size = shutil.get_terminal_size()
    return max(size.columns - 1, 8), max(size.lines - 1, 2)


class LiveRegion:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rows: list[Row] = [EMPTY]  # rows that can be redrawn; the cursor is at the end of the last one
        self._window = window()

    def draw(self, finished: Sequence[Row], live: Sequence[Row] = ()) -> None:
        """Write the finished rows, and below them the live ones, which the next frame replaces."""
        size, old_size = window(), self._window
        live = [*live[-size[1] :]] or [EMPTY]
        new = [*finished, *live]
        self._window = size
        if size != old_size:
            self._write(new, min(_height(self._rows, size, old_size) - 1, size[1]))
        elif new != self._rows:
            # The last row is written again: the cursor is there.
            pairs = zip(self._rows[:-1], new[:-1], strict=False)
            unchanged_count = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            self._write(new[unchanged_count:], _height(self._rows[unchanged_count:], size, old_size) - 1)
        self._rows = live

    def clear(self) -> None:
        """Remove the live rows."""
        if self._rows != [EMPTY]:
            size = window()
            self._write([EMPTY], min(_height(self._rows, size, self._window) - 1, size[1]))
            self._rows = [EMPTY]

    def _write(self, rows: Sequence[Row], up: int) -> None:
        start = f"\r\x1b[{up}A" if up else "\r"
        body = "\n".join(map(self._with_erasure, rows))
        closed_window.write(self._stream, f"{_BEGIN}{start}{body}\x1b[J{_END}")

    def _with_erasure(self, row: Row) -> str:
        """The row, erasing old text. After a full row, erasing would take its last character: erase before it."""
        return f"{row.text}\x1b[K" if row.cells <= self._window[0] else f"\x1b[J{row.text}"


def _height(rows: Sequence[Row], size: tuple[int, int], old_size: tuple[int, int]) -> int:
    """The number of window rows that these rows occupy now; several for a row that is wider than the window.

    Most terminals wrap rows that no longer fit when the window becomes narrower; some cut them off instead.
    """
    columns = (size if _rewraps(os.environ) else old_size)[0] + 1
    return sum(max(1, -(-row.cells // columns)) for row in rows)


def _rewraps(env: Mapping[str, str]) -> bool:
    """Whether the terminal rewraps rows when its window changes: all but xterm, the Linux console and GNU screen."""
    return not (env.get("XTERM_VERSION") or env.get("STY")) and env.get("TERM") != "linux"


@contextmanager
def no_echo() -> Iterator[None]:
    """Hide typed characters and the `^C` of Ctrl-C: they would break the live rows."""
    file = _own_terminal()
    if file is None:
        yield
        return
    attributes = termios.tcgetattr(file)
    quiet = [*attributes[:3], attributes[3] & ~termios.ECHO, *attributes[4:]]
    termios.tcsetattr(file, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        with suppress(termios.error):  # the window was closed
            termios.tcsetattr(file, termios.TCSANOW, attributes)


def _own_terminal() -> int | None:
    """The terminal that this process reads from. None in the background: changing it would stop the process."""
    try:
        file = sys.stdin.fileno()
        return file if os.tcgetpgrp(file) == os.getpgrp() else None
    except (AttributeError, OSError, ValueError):
        return None

"""What commands print: answers and documents to stdout, words for people to stderr.

Colour and live lines appear on a terminal only. rich is imported when a terminal is there to use it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def document(value: Any) -> None:
    """One JSON document on stdout, in one write so that a pipe never sees half of it."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def words(text: str) -> None:
    """A line for a person."""
    sys.stderr.write(text + "\n")


def accepted(value: Any, *, as_json: bool) -> None:
    """A background job has begun: its id on stdout, how to go on for a person."""
    if as_json:
        document(value)
        return
    sys.stdout.write(value["job_id"] + "\n")
    words(value["content"])
    words(f"counsel jobs {value['job_id']} --follow shows it; counsel cancel {value['job_id']} stops it")


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console  # noqa: PLC0415

    return Console(stderr=stderr, highlight=False)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table that fits a terminal; in a pipe, aligned columns that are never cut."""
    if sys.stdout.isatty():
        _rich_table(columns, rows)
    else:
        _plain_table(columns, rows)


def _rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        shown.add_column(column, overflow="fold", no_wrap=number == 0)  # a name is there to be copied
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))  # Text: a `[` in a cell is no markup
    console().print(shown)


def _plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [[column.upper() for column in columns], *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        sys.stdout.write("  ".join(padded).rstrip() + "\n")

"""What commands print: answers and documents to stdout, words for people to stderr.

Colour and live lines appear on a terminal only. rich is imported when a terminal is there to use it.
What others wrote (prompts, answers, names of servers and skills, errors) is tamed before a terminal sees it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from counsel.cli import tables

if TYPE_CHECKING:
    from rich.console import Console

# What could move a terminal's cursor, change its colours or title; and what turns the order of a line's letters around.
_CONTROLS = "[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # compiled when first needed, by `re` itself
_TRICKS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
_COLOURS = {"green": 32, "yellow": 33, "red": 31}
_UNESCAPED = "[\x7f-\x9f\ud800-\udfff]"  # controls that JSON lets stand as they are; bytes that were no UTF-8


def tame(text: str) -> str:
    """For names, titles and messages: what shows is what is there."""
    return text if text.isprintable() else re.sub(_TRICKS, "\ufffd", text)


def answer(text: str) -> None:
    """What a model said, or a file's text: exact in a pipe, without a terminal's commands on a terminal."""
    if sys.stdout.isatty():
        text = re.sub(_CONTROLS, "\ufffd", text.replace("\r", ""))
    sys.stdout.write(text)
    sys.stdout.flush()


def line(text: str = "", colour: str = "") -> None:
    """A line of a list, on stdout; in colour on a terminal whose user does not mind."""
    text = tame(text)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if colour and sys.stdout.isatty() and not plain:
        text = f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"
    sys.stdout.write(text + "\n")


def document(value: Any) -> None:
    """One JSON document on stdout, in one write so that a pipe never sees half of it."""
    sys.stdout.write(escaped(json.dumps(value, ensure_ascii=False, indent=2)) + "\n")


def escaped(document: str) -> str:
    """JSON that does nothing to a terminal and that UTF-8 can hold."""
    return re.sub(_UNESCAPED, lambda found: f"\\u{ord(found[0]):04x}", document)


def words(text: str) -> None:
    """A line for a person."""
    with contextlib.suppress(OSError):  # whoever reads answers has gone: the next write to it will tell
        sys.stdout.flush()  # so that both come in their order where they go the same way
    with contextlib.suppress(OSError):  # nobody hears it: no reason to fail
        sys.stderr.write(tame(text) + "\n")


def accepted(value: Any, *, as_json: bool) -> None:
    """A background job has begun: its id on stdout, how to go on for a person."""
    if as_json:
        document(value)
        return
    line(value["job_id"])
    words(value["content"])
    words(f"`counsel jobs {value['job_id']} --follow` shows it; `counsel cancel {value['job_id']}` stops it")


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console  # noqa: PLC0415

    return Console(stderr=stderr, highlight=False)


def width() -> int | None:
    """Of the terminal; None in a pipe."""
    if not sys.stdout.isatty():
        return None
    import shutil  # with the archive formats: 3 ms that only a terminal needs

    return shutil.get_terminal_size().columns


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table that fits a terminal; in a pipe, aligned columns that are never cut."""
    tamed = [[tame(" ".join(cell.split())) for cell in row] for row in rows]
    sys.stdout.write("".join(f"{line}\n" for line in tables.lines(columns, tamed, width())))

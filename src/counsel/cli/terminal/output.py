"""What commands print: answers and JSON documents on stdout, messages for people on stderr.

Colours and live lines appear on a terminal only. rich is imported only when there is a terminal.
Untrusted text (prompts, answers, names of servers and skills, errors) is sanitized before it is shown on a terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from counsel.cli.terminal import closed_window, tables

if TYPE_CHECKING:
    from rich.console import Console

    from counsel.cli.terminal.live_region import Row

# Control characters (they move the cursor, change colours or the title), and those that change the text's direction.
_CONTROLS = "[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # compiled by `re` when first used
_UNSAFE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
_COMMAND = r"(?:\A|(?<=[\n\r]))\s*:(?=:)|#(?=#\[)"
_COLOURS = {"green": 32, "yellow": 33, "red": 31, "bold": 1, "dim": 2}
_DIFF_COLOURS = {"+++": 1, "---": 1, "@@": 36, "+": 32, "-": 31}
_UNESCAPED = (
    "[\x7f-\x9f\ud800-\udfff]"  # control characters that JSON does not escape; bytes that were not UTF-8
)


def sanitized(text: str) -> str:
    """A name, title or message without control characters."""
    return text if text.isprintable() else re.sub(_UNSAFE, "\ufffd", text)


def printable(text: str) -> str:
    """An answer for a terminal, without control characters."""
    return re.sub(_CONTROLS, "\ufffd", text.replace("\r", ""))


def without_commands(text: str) -> str:
    """Text in which GitHub's runner sees no command: a line that begins with `::` or has `##[` (its
    ActionCommand.cs)."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return text
    return re.sub(_COMMAND, "\\g<0>\u200b", text)


def answer(text: str) -> None:
    """Print a model's answer or a file's text: exact in a pipe, without control characters on a terminal."""
    closed_window.write(sys.stdout, printable(text) if sys.stdout.isatty() else text)


def whole_answer(text: str, *, plain: bool = False) -> None:
    """Print a complete answer and a newline; on a terminal, rendered as Markdown."""
    if plain or not can_render():
        answer(text + "\n")
        return
    from counsel.cli.terminal import markdown
    from counsel.cli.terminal.live_region import window

    rows(markdown.rows(text, window()[0]))


def rows(screen_rows: Iterable[Row]) -> None:
    """Print rows of a terminal unchanged."""
    sys.stdout.write("".join(f"{row.text}\n" for row in screen_rows))
    sys.stdout.flush()


def turn(heading: str, text: str, *, rendered: bool) -> None:
    """Print one message of a conversation below its heading; if `rendered`, as Markdown on a terminal."""
    answer(f"{heading}\n")
    if rendered and can_render():
        whole_answer(text)
        answer("\n")
    else:
        answer(f"{text}\n\n")


def can_move_cursor() -> bool:
    """Whether the terminal understands more than lines of text."""
    return os.environ.get("TERM") not in {"dumb", "unknown", "", None}


def can_render() -> bool:
    """Whether answers are rendered as Markdown."""
    return sys.stdout.isatty() and can_move_cursor()


def has_colours() -> bool:
    return can_render() and not os.environ.get("NO_COLOR")


def line(text: str = "", colour: str = "") -> None:
    """Print a line of a list on stdout; in colour on a terminal, unless NO_COLOR is set."""
    text = sanitized(text)
    if colour and has_colours():
        text = f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"
    sys.stdout.write(text + "\n")


def diff(text: str) -> None:
    """Print the exact changes of files; in colour where `line` has colours."""
    if has_colours():
        text = re.sub("(?m)^.+$", lambda match: _in_colour(printable(match[0])), text)
        sys.stdout.write(text)
    else:
        answer(text)


def _in_colour(text: str) -> str:
    start = next((start for start in _DIFF_COLOURS if text.startswith(start)), "")
    return f"\x1b[{_DIFF_COLOURS[start]}m{text}\x1b[0m" if start else text


def document(value: object) -> None:
    """Print one JSON document on stdout, in one write so that a reader never gets half of it."""
    sys.stdout.write(escaped(json.dumps(value, ensure_ascii=False, indent=2)) + "\n")


def escaped(document: str) -> str:
    """JSON without control characters and commands, and valid as UTF-8."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        document = document.replace("##[", "\\u0023#[")
    return re.sub(_UNESCAPED, lambda match: f"\\u{ord(match[0]):04x}", document)


_quiet = False


def set_quiet(quiet: bool) -> None:
    """With `-q`, `message` writes nothing. `cli.run` resets it, so that errors are shown."""
    global _quiet  # noqa: PLW0603 - one command per process
    _quiet = quiet


def is_quiet() -> bool:
    return _quiet


def footer(text: str) -> None:
    """Print the last line about an answer; on a terminal, dimmed and below an empty line."""
    if can_render() and sys.stderr.isatty() and not _quiet:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.write(f"\n\x1b[2m{sanitized(text)}\x1b[0m\n")
    else:
        message(text)


def message(text: str) -> None:
    """Print a line for people on stderr."""
    if _quiet:
        return
    with contextlib.suppress(OSError):  # the reader of stdout is gone: the next write to it raises
        sys.stdout.flush()  # keeps the order if both are the same terminal
    with contextlib.suppress(OSError):  # a closed stderr is no reason to fail
        sys.stderr.write(without_commands(sanitized(text)) + "\n")


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def width() -> int | None:
    """Columns of the terminal; None in a pipe."""
    if not sys.stdout.isatty():
        return None
    import shutil  # imports the archive formats: 3 ms that only a terminal needs

    return shutil.get_terminal_size().columns


def message_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table for people on stderr."""
    cells = [[sanitized(" ".join(cell.split())) for cell in row] for row in rows]
    for text in tables.lines(columns, cells, width() if sys.stderr.isatty() else None):
        message(text)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, shortened: Sequence[str] = ()) -> None:
    """Print a table that fits the terminal; in a pipe, aligned columns that are never cut.

    `shortened`: columns that end in `…` on a narrow terminal instead of wrapping.
    """
    cells = [[sanitized(" ".join(cell.split())) for cell in row] for row in rows]
    lines = tables.lines(columns, cells, width(), shortened)
    sys.stdout.write("".join(f"{line}\n" for line in lines))

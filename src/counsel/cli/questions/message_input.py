"""Messages that a person types, with line editing and history, or that come through a pipe."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from counsel.cli.terminal import output

PROMPT, MORE = "> ", "… "
QUOTES = '"""'
_HISTORY_LINES = 1000


class MessageInput:
    """Reads messages. A line is a message, unless it ends with a backslash or opens a block of triple quotes."""

    def __init__(self, history: Path) -> None:
        self.interactive = sys.stdin.isatty()
        self._editable = self.interactive and sys.stdout.isatty()
        self._history = history
        if self._editable:
            self._prepare_editing()

    def read(self) -> str | None:
        """The next message without backslashes and quotes; None at the end of the input. Ctrl-C: KeyboardInterrupt."""
        line = self._line(PROMPT)
        if line is None:
            return None
        if line.strip().startswith(QUOTES):
            return self._block(line.strip().removeprefix(QUOTES))
        lines = [line]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            next_line = self._line(MORE)
            if next_line is None:
                break
            lines.append(next_line)
        return "\n".join(lines)

    def _block(self, first: str) -> str:
        lines: list[str] = []
        line: str | None = first
        while line is not None:
            if line.rstrip().endswith(QUOTES):
                lines.append(line.rstrip().removesuffix(QUOTES))
                break
            lines.append(line)
            line = self._line(MORE)
        return "\n".join(lines).strip("\n")

    def _line(self, prompt: str) -> str | None:
        if self._editable:
            return self._edit_line(prompt)
        if self.interactive:  # `input` would write the prompt to stdout, which is a pipe or a file
            sys.stderr.write(prompt)
            sys.stderr.flush()
        line = sys.stdin.readline()
        return line.removesuffix("\n") if line else None

    def _edit_line(self, prompt: str) -> str | None:
        try:
            line = input(prompt)
        except EOFError:
            return None
        self._remember(line)
        return line

    def _prepare_editing(self) -> None:
        try:
            import readline
        except ImportError:  # a Python without readline: the terminal's own editing remains
            return
        # a paste is one message, and no character in it acts as a key
        readline.parse_and_bind("set enable-bracketed-paste on")
        readline.set_auto_history(False)
        readline.set_history_length(_HISTORY_LINES)
        with contextlib.suppress(OSError):
            self._history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._history, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
            readline.read_history_file(self._history)
            if readline.get_current_history_length() >= _HISTORY_LINES:
                readline.write_history_file(self._history)

    def _remember(self, line: str) -> None:
        """Append the line at once: a window may be closed at any time, and two chats share the file."""
        with contextlib.suppress(ImportError, OSError):
            import readline

            if line.strip() and "\n" not in line:
                readline.add_history(line)
                readline.append_history_file(1, self._history)


def end_line() -> None:
    """End the line in which the terminal shows `^C` or `^D`."""
    output.message("")

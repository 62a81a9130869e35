"""A command in a terminal: what its user sees at any moment, and the scrollback."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import pyte

from fake import FakeProcess
from support.stdio_client import SHORT_LIVED

SECONDS = 60  # against a hang, on a busy machine


class Terminal:
    """`with Terminal("ask", "hello", env=…) as terminal:` runs `counsel ask hello`; `command` runs something else."""

    def __init__(
        self,
        *arguments: str,
        env: Mapping[str, str],
        cwd: Path,
        columns: int = 80,
        rows: int = 24,
        command: tuple[str, ...] = (sys.executable, "-m", "counsel"),
    ) -> None:
        self.screen: Any = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.01)
        self._stream = pyte.ByteStream(self.screen)
        self.data = b""
        self._argv = [*command, *arguments]
        self._env = {"TERM": "xterm-256color", **env}
        self._cwd = cwd

    def __enter__(self) -> Self:
        self._master, slave = os.openpty()
        termios.tcsetwinsize(slave, (self.screen.lines, self.screen.columns))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CONTROLLED, *self._argv],
            env=self._env,
            cwd=self._cwd,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(SECONDS)
        if self._master >= 0:
            os.close(self._master)

    # ── the person ──

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.type("\x03")

    def resize(self, columns: int, rows: int) -> None:
        """pyte, like xterm, does not wrap the lines of a window that became narrower."""
        self.screen.resize(rows, columns)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close_window(self) -> None:
        """The kernel sends SIGHUP, and the terminal is gone."""
        os.close(self._master)
        self._master = -1

    # ── the screen ──

    @property
    def display(self) -> list[str]:
        """The rows of the screen, without the empty ones at the end."""
        rows = [row.rstrip() for row in self.screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def lines(self) -> list[str]:
        """The scrollback and the screen."""
        columns = range(self.screen.columns)
        above = ["".join(row[x].data for x in columns).rstrip() for row in self.screen.history.top]
        return [*above, *self.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def style(self, text: str) -> Any:
        """The attributes of the first cell of this text on the screen."""
        for y, row in enumerate(self.screen.display):
            if (x := row.find(text)) >= 0:
                return self.screen.buffer[y][x]
        raise AssertionError(f"{text!r} is not on the screen:\n" + "\n".join(self.display))

    # ── waiting ──

    def until(self, condition: str | Callable[[], object], seconds: float = SECONDS) -> None:
        """Read until this text is on the screen, or until this condition is true."""
        is_done = condition if callable(condition) else lambda: condition in "\n".join(self.display)
        end = time.monotonic() + seconds
        while not is_done():
            assert self._read(end), f"{condition!r} did not come:\n{self.text}"

    def wait(self) -> int:
        """Read to the end. Return the exit code."""
        end = time.monotonic() + SECONDS
        while self._read(end):
            pass
        return self.process.wait(max(0.1, end - time.monotonic()))

    def send_signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0, end - time.monotonic()))
        assert ready, f"nothing came in time:\n{self.text}"
        try:
            chunk = os.read(self._master, 65536)
        except OSError:  # on Linux: the other side has closed
            return False
        self.data += chunk
        self._stream.feed(chunk)
        return bool(chunk)


def user_env(user: Path, home: Path, vendors: FakeProcess) -> dict[str, str]:
    """A person with two keys, whose vendors are the fake."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(user),
        "COUNSEL_HOME": str(home),
        "LANG": "C.UTF-8",
        **SHORT_LIVED,
        "OPENAI_API_KEY": "sk-test-000000000000000000000000",
        "OPENAI_BASE_URL": vendors.v1,
        "ANTHROPIC_API_KEY": "sk-ant-test-000000000000",
        "ANTHROPIC_BASE_URL": vendors.url,
    }


# Makes it the controlling terminal: otherwise Ctrl-C and a closed window send no signal.
_CONTROLLED = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""

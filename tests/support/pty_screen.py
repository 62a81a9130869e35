"""The output of a command in a terminal of a given size."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Screen:
    code: int
    text: str  # stdout and stderr as they come, without colours

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def in_terminal(*arguments: str, env: Mapping[str, str], cwd: Path, columns: int = 80) -> Screen:
    """Run `counsel ARGUMENTS` in a terminal that is `columns` wide, to its end."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, columns))
    command = [sys.executable, "-m", "counsel", *arguments]
    full = {"TERM": "xterm-256color", **env}
    process = subprocess.Popen(command, env=full, cwd=cwd, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    data = b""
    with contextlib.suppress(OSError):  # on Linux: the other side has closed
        while chunk := os.read(master, 65536):
            data += chunk
    os.close(master)
    code = process.wait(timeout=60)
    return Screen(code, ESCAPES.sub("", data.decode().replace("\r\n", "\n")))

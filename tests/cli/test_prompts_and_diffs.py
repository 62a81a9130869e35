"""Questions, previews and waiting, as a person sees them in a terminal."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from counsel.text import counted
from support.stdio_client import SHORT_LIVED
from support.terminal import Terminal

COLOUR = re.compile(rb"\x1b\[[0-9;]+m")
Make = Callable[..., Terminal]


@pytest.fixture
def terminal(tmp_path: Path) -> Make:
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 2.0.0\n")
    program.chmod(0o755)
    env = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "COUNSEL_HOME": str(tmp_path / "home"),
        **SHORT_LIVED,
    }

    def make(*arguments: str, **more: str) -> Terminal:
        return Terminal(*arguments, env={**env, **more}, cwd=tmp_path)

    return make


def answer(screen: Terminal, key: str) -> None:
    """Press Ctrl-C again if it is lost: Python misses one between the prompt and its wait for keys."""
    for _ in range(10):
        screen.type(key)
        with contextlib.suppress(AssertionError):
            screen.until("Nothing was changed.", 6)
            return
    raise AssertionError(screen.text)


@pytest.mark.parametrize(("key", "code"), [("n\n", 1), ("\n", 1), ("\x03", 130), ("\x04", 130)])
def test_declining_says_that_nothing_was_changed(terminal: Make, key: str, code: int) -> None:
    with terminal("setup", "--agent", "claude", "--no-check") as screen:
        screen.until("Write this change?")
        answer(screen, key)
        assert screen.wait() == code
    assert screen.lines[-1] == "Nothing was changed."
    assert "interrupted" not in screen.text


@pytest.mark.parametrize(
    ("env", "colours"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_diff_is_coloured_unless_no_color_is_set(
    terminal: Make, env: dict[str, str], colours: bool
) -> None:
    with terminal("servers", "add", "x", "--agent", "claude", "--dry-run", "--", "echo", **env) as screen:
        assert screen.wait() == 0
    assert bool(COLOUR.search(screen.data)) is colours
    assert any(line.startswith("+") and '"x"' in line for line in screen.lines)


def test_stdio_on_a_terminal_says_that_it_waits_for_a_client(terminal: Make) -> None:
    with terminal("stdio") as screen:
        screen.until("waiting for an MCP client")
        screen.type("\x04")
        assert screen.wait() == 0
    with terminal("stdio") as screen:
        screen.until("counsel ask")
        screen.interrupt()
        assert screen.wait() == 130
    assert screen.lines[-1] == "^C"
    assert screen.screen.cursor.x == 0, "the shell's prompt is on a line of its own"
    assert all(len(line) < 80 for line in screen.lines), screen.text


def test_one_file_and_two_files() -> None:
    assert [counted(count, "file") for count in (0, 1, 2, 1000)] == [
        "0 files",
        "1 file",
        "2 files",
        "1,000 files",
    ]
    assert counted(2, "entry", "entries") == "2 entries"

"""Many writers at once, and writers that are killed: every entry survives, the file always parses."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from servers import real_clients
from support.client_programs import environment, program
from support.user import User

WRITER = Path(__file__).parent / "writer.py"
PARSERS: dict[str, Callable[[str], Any]] = {
    "claude": json.loads,
    "codex": tomllib.loads,
    "gemini": json.loads,
    "cursor": json.loads,
}


class Watcher(threading.Thread):
    """Reads the files continuously: a reader must never see an incomplete one."""

    def __init__(self, files: dict[str, Path]) -> None:
        super().__init__(daemon=True)
        self.files = files
        self.ended = threading.Event()
        self.reads = 0
        self.broken: list[str] = []

    def run(self) -> None:
        while not self.ended.is_set():
            for agent, file in self.files.items():
                try:
                    text = file.read_text()
                except FileNotFoundError:
                    continue
                self.reads += 1
                try:
                    PARSERS[agent](text)
                except ValueError as error:
                    self.broken.append(f"{file}: {error}: {text[-80:]!r}")
            self.ended.wait(0.001)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.join()
        assert self.reads > 0
        assert self.broken == []


def start(user: User, name: str, count: int, agents: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), name, str(count), agents]
    return subprocess.Popen(
        command, cwd=user.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(writers: list[subprocess.Popen[str]]) -> None:
    for writer in writers:
        _, err = writer.communicate()
        assert writer.returncode == 0, err


def files(user: User) -> dict[str, Path]:
    return {agent: user.file(agent) for agent in PARSERS}


@pytest.mark.slow
def test_sixteen_writers_lose_nothing(user: User) -> None:
    user.write("claude", json.dumps({"keep": {"me": [1, 2]}}, indent=2))
    with Watcher(files(user)):
        finish([start(user, f"w{number}", 4, ",".join(PARSERS)) for number in range(16)])
    expected = {f"w{writer}-{number}" for writer in range(16) for number in range(4)}
    for agent in PARSERS:
        assert {row["name"] for row in user.json("list", "-a", agent)["servers"]} == expected
    assert json.loads(user.file("claude").read_text())["keep"] == {"me": [1, 2]}
    assert not (user.home / ".claude.json.lock").exists()
    assert not list(user.home.glob("**/*.counsel-tmp"))


@pytest.mark.slow
@pytest.mark.client
def test_counsel_and_the_real_claude_write_at_once(user: User) -> None:
    """16 writers of one ~/.claude.json at once; 4 of them are `claude mcp add`, which takes the same lock."""
    program("claude")
    real_clients.ask(user.home, user.project, "claude", "mcp", "add", "-s", "user", "first", "--", "echo")
    theirs = [
        subprocess.Popen(
            [program("claude"), "mcp", "add", "-s", "user", f"claude-{number}", "--", "echo"],
            cwd=user.project,
            env=environment(user.home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    with Watcher({"claude": user.file("claude")}):
        finish([*(start(user, f"w{number}", 6, "claude") for number in range(12)), *theirs])
    expected = {f"w{writer}-{number}" for writer in range(12) for number in range(6)}
    expected |= {f"claude-{number}" for number in range(4)} | {"first"}
    assert {row["name"] for row in user.json("list", "-a", "claude")["servers"]} == expected


@pytest.mark.slow
def test_killed_writers_leave_the_old_or_the_new_file(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """After kill -9 at random moments the files are complete, and the next writer continues once the lock is stale."""
    monkeypatch.setattr("counsel.configfiles.write.locks.STALE", 0.2)
    pad = {
        f"key-{number}": "x" * 100 for number in range(20_000)
    }  # 2 MB, so that a writer can be killed in the middle
    user.write("claude", json.dumps({**pad, "mcpServers": {}}, indent=2))
    chance = random.Random(4)
    finished_names: set[str] = set()
    with Watcher({"claude": user.file("claude"), "codex": user.file("codex")}):
        for number in range(8):
            writer = start(user, f"k{number}", 1000, "claude,codex")
            assert writer.stdout is not None
            for line in writer.stdout:
                finished_names.add(f"k{number}-{line.strip()}")
                if chance.random() < 0.4:
                    threading.Event().wait(chance.random() * 0.05)
                    break
            writer.kill()
            finished_names |= {f"k{number}-{line.strip()}" for line in writer.stdout}
            writer.communicate()
            _free_stale_lock(user.home / ".claude.json.lock")
    names = {row["name"] for row in user.json("list", "-a", "claude")["servers"]}
    assert finished_names <= names, "an add that was reported as done is lost"
    assert len(names - finished_names) <= 8, "at most one add of each killed writer, the one in progress"
    assert json.loads(user.file("claude").read_text())["key-0"] == "x" * 100
    user.counsel("add", "after", "-a", "claude,codex", "--", "echo")


def _free_stale_lock(folder: Path) -> None:
    """A killed writer's lock is valid for 20 s; the test makes it older instead of waiting."""
    if folder.exists():
        os.utime(folder, (1, 1))

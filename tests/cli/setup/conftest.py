"""A home of its own with agents that are only names on PATH, and `counsel setup` run in it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from counsel import cli
from counsel.agents.definitions import WITH_SETUP

COMMANDS = {name: row.command for name, row in WITH_SETUP.items()}


@dataclass
class World:
    home: Path
    project: Path
    programs: Path
    capsys: pytest.CaptureFixture[str]
    err: str = ""

    def setup(self, *args: str, code: int = 0) -> str:
        got = cli.run(["setup", *args])
        shown = self.capsys.readouterr()
        assert got == code, f"exit {got}: {shown.out}{shown.err}"
        self.err = shown.err
        return shown.out

    def json(self, *args: str, code: int = 0) -> dict[str, Any]:
        rows = json.loads(self.setup("--json", *args, code=code))["agents"]
        return {row["agent"]: row for row in rows}

    def actions(self, *args: str, code: int = 0) -> dict[str, str]:
        return {name: row["action"] for name, row in self.json(*args, code=code).items()}

    def install(self, *agents: str) -> None:
        for agent in agents:
            program = self.programs / COMMANDS[agent]
            program.write_text("#!/bin/sh\nexit 9\n")
            program.chmod(0o755)

    def file(self, agent: str) -> Path:
        return (
            self.home
            / {
                "claude": ".claude.json",
                "codex": ".codex/config.toml",
                "gemini": ".gemini/settings.json",
                "cursor": ".cursor/mcp.json",
                "opencode": ".config/opencode/opencode.json",
                "vscode": ".config/Code/User/mcp.json",
            }[agent]
        )

    def write(self, agent: str, text: str) -> None:
        self.file(agent).parent.mkdir(parents=True, exist_ok=True)
        self.file(agent).write_bytes(text.encode())

    def files(self) -> dict[str, bytes]:
        """Everything under the home that is not counsel's own."""
        found = (path for path in self.home.rglob("*") if path.is_file())
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in found
            if "share/counsel" not in str(path)
        }


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    home, project, programs = (tmp_path / name for name in ("home", "project", "bin"))
    for folder in (home, project, programs):
        folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin:/bin")
    moved = (
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "GEMINI_CLI_HOME",
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
        "COUNSEL_HOME",
        "CLIENT_CWD",
    )
    for name in moved:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(project)
    return World(home, project, programs, capsys)

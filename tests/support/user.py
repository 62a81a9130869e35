"""A user with their own home and project, who runs `counsel COMMAND`."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from counsel import cli
from counsel.agents import definitions
from counsel.agents.definitions import AGENTS, Workspace
from counsel.servers import Servers

FILES = {
    "claude": ".claude.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/mcp.json",
    "opencode": ".config/opencode/opencode.json",
    "vscode": ".config/Code/User/mcp.json",
}
PROJECT_FILES = {
    "claude": ".mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/mcp.json",
    "opencode": "opencode.json",
    "vscode": ".vscode/mcp.json",
}
# Variables by which this machine's agents and its counsel would be found.
VARIABLES = ("CLAUDE", "CODEX", "GEMINI", "OPENCODE", "COUNSEL", "XDG", "CLIENT_CWD")


@dataclass(frozen=True)
class Output:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class User:
    home: Path
    project: Path
    machine: Path  # its `etc` is where the agents look for what all users share
    counsel_home: Path
    capsys: pytest.CaptureFixture[str]
    command: str = ""  # the command that `run`, `counsel` and `json` run
    err: str = ""  # what the last command wrote to stderr

    def run(self, *arguments: str) -> Output:
        """Run `counsel COMMAND ARGUMENTS` in this process."""
        code = cli.run([self.command, *arguments])
        streams = self.capsys.readouterr()
        self.err = streams.err
        return Output(code, streams.out, streams.err)

    def counsel(self, *arguments: str, code: int = 0) -> str:
        """Run the command, expect this exit code, and return stdout."""
        output = self.run(*arguments)
        assert output.code == code, f"exit {output.code}: {output.out}{output.err}"
        return output.out

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.counsel(*arguments[:1], "--json", *arguments[1:], code=code))

    def servers(self, project: str | Path | None = None) -> Servers:
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
        return Servers(Workspace(self.home, env, Path(project or self.project)), self.counsel_home)

    def file(self, name: str) -> Path:
        """`codex` or `codex project`: that agent's file of the user, or of the project."""
        agent, _, scope = name.partition(" ")
        return self.project / PROJECT_FILES[agent] if scope else self.home / FILES[agent]

    def write(self, name: str, text: str) -> Path:
        path = self.file(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        os.utime(path, (1e9, 1e9))  # long ago, so that no reader waits for a write in progress
        return path

    def files(self) -> dict[str, bytes]:
        """Everything under the home that is not counsel's own."""
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in self.home.rglob("*")
            if path.is_file() and "share/counsel" not in str(path)
        }

    @property
    def programs(self) -> Path:
        """The first folder of PATH."""
        return self.machine / "programs"

    def install(self, *agents: str) -> None:
        """Put the programs of these agents on PATH, and of no others."""
        shutil.rmtree(self.programs, ignore_errors=True)
        self.programs.mkdir(parents=True)
        for agent in agents:
            program = self.programs / AGENTS[agent].command
            program.write_text("#!/bin/sh\nexit 9\n")
            program.chmod(0o755)


def make_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    """The environment and the working directory are the user's until the test ends."""
    home, project, machine = tmp_path / "home", tmp_path / "project", tmp_path / "machine"
    for folder in (home, project, machine):
        folder.mkdir()
    for name in list(os.environ):
        if name.startswith(VARIABLES) and not name.startswith("COUNSEL_TEST"):
            monkeypatch.delenv(name)
    user = User(home, project, machine, home / "counsel", capsys)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COUNSEL_HOME", str(user.counsel_home))
    monkeypatch.setenv("PATH", f"{user.programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(definitions, "ROOT", machine)
    monkeypatch.chdir(project)
    return user

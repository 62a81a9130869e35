"""A home and a project of their own, and `counsel` run in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from counsel import cli
from counsel.agents import definitions
from counsel.agents.definitions import AGENTS, Workspace
from counsel.servers import Servers

GOLDEN = Path(__file__).parent.parent / "golden"
TINY = Path(__file__).parent / "mcp_server.py"
QUICK = Path(__file__).parent / "quick_mcp_server.py"
AGENT_VARIABLES: tuple[str, ...] = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "CLIENT_CWD",
    "CLAUDE_PROJECT_DIR",
)
AGENT_VARIABLES += ("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH")
AGENT_VARIABLES += ("XDG_CONFIG_HOME", "OPENCODE_CONFIG")
INSTALLED = ("claude", "codex", "gemini", "cursor")  # of the clients, in a world that says nothing else


@dataclass
class World:
    home: Path
    project: Path
    machine: Path  # its `etc` is where the agents look for what all users share
    capsys: pytest.CaptureFixture[str]

    def counsel(self, *args: str, code: int = 0) -> str:
        """Run `counsel servers …`; its stdout."""
        got = cli.run(["servers", *args])
        shown = self.capsys.readouterr()
        assert got == code, f"exit {got}: {shown.out}{shown.err}"
        self.err = shown.err
        return shown.out

    def json(self, *args: str, code: int = 0) -> Any:
        return json.loads(self.counsel(args[0], "--json", *args[1:], code=code))

    def servers(self, project: str | Path | None = None) -> Servers:
        env = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
        workspace = Workspace(self.home, env, Path(project or self.project))
        return Servers(workspace, self.home / "counsel")

    def file(self, name: str) -> Path:
        return {
            "claude": self.home / ".claude.json",
            "codex": self.home / ".codex" / "config.toml",
            "gemini": self.home / ".gemini" / "settings.json",
            "cursor": self.home / ".cursor" / "mcp.json",
            "claude project": self.project / ".mcp.json",
            "codex project": self.project / ".codex" / "config.toml",
            "gemini project": self.project / ".gemini" / "settings.json",
            "cursor project": self.project / ".cursor" / "mcp.json",
            "opencode": self.home / ".config" / "opencode" / "opencode.json",
            "opencode project": self.project / "opencode.json",
            "vscode": self.home / ".config" / "Code" / "User" / "mcp.json",
            "vscode project": self.project / ".vscode" / "mcp.json",
        }[name]

    def install(self, *names: str) -> None:
        """Programs of these names on PATH, and of no other client's."""
        programs = self.machine / "programs"
        shutil.rmtree(programs, ignore_errors=True)
        programs.mkdir(parents=True)
        for name in names:
            path = programs / AGENTS[name].command
            path.write_text("#!/bin/sh\nexit 1\n")
            path.chmod(0o755)

    def write(self, name: str, text: str) -> Path:
        path = self.file(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, newline="")
        return path


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    monkeypatch.setattr(definitions, "ROOT", tmp_path / "machine")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COUNSEL_HOME", str(home / "counsel"))
    for name in AGENT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", f"{tmp_path / 'machine' / 'programs'}{os.pathsep}{os.environ['PATH']}")
    world = World(home, project, tmp_path / "machine", capsys)
    world.install(*INSTALLED)
    return world


def golden(client: str, case: str, *parts: str) -> str:
    with GOLDEN.joinpath(client, case, *parts).open(newline="") as file:
        return file.read()


@pytest.fixture(scope="session")
def tiny_port() -> Iterator[int]:
    """A real MCP server on loopback: /mcp is streamable HTTP, /events/sse is SSE."""
    with subprocess.Popen(
        [sys.executable, str(TINY), "http"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()

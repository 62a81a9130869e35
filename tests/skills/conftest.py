"""A home of one's own: nothing of this machine's skills, settings or counsel is seen."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from counsel import cli
from counsel.agents.claude import skills as claude
from counsel.agents.codex import skills as codex
from skills.sample_skills import plain, write


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class House:
    home: Path
    project: Path
    counsel: Path
    run: Callable[..., Said]

    def skill(self, where: str, name: str, text: str | None = None) -> Path:
        """`~/.claude` or `.agents`: a skill in that folder of the home or the project; its folder."""
        base = self.home / where[2:] if where.startswith("~/") else self.project / where
        return write(base / "skills" / name / "SKILL.md", text if text is not None else plain(name)).parent


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> House:
    for name in list(os.environ):
        if name.startswith(("CLAUDE", "CODEX", "GEMINI", "COUNSEL", "XDG")):
            monkeypatch.delenv(name)
    home, project, kept = tmp_path / "home", tmp_path / "project", tmp_path / "counsel"
    for folder in (home, project / ".git"):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COUNSEL_HOME", str(kept))
    monkeypatch.setenv("GEMINI_CLI_TRUST_WORKSPACE", "true")
    monkeypatch.setattr(claude, "MANAGED", tmp_path / "etc" / "claude")
    monkeypatch.setattr(codex, "ADMIN", tmp_path / "etc" / "codex")
    monkeypatch.chdir(project)

    def run(*arguments: str) -> Said:
        code = cli.run(["skills", *arguments])
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return House(home, project, kept, run)

"""A user for whom `counsel skills` runs, isolated from this machine's skills, settings and counsel."""

from __future__ import annotations

from pathlib import Path

import pytest

from counsel.agents.claude import skills as claude
from counsel.agents.codex import skills as codex
from support.user import User


@pytest.fixture
def user(user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    user.command = "skills"
    user.counsel_home = tmp_path / "counsel"
    (user.project / ".git").mkdir()
    monkeypatch.setenv("COUNSEL_HOME", str(user.counsel_home))
    monkeypatch.setenv("GEMINI_CLI_TRUST_WORKSPACE", "true")
    monkeypatch.setattr(claude, "MANAGED", tmp_path / "etc" / "claude")
    monkeypatch.setattr(codex, "ADMIN", tmp_path / "etc" / "codex")
    return user

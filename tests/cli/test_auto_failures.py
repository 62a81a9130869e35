"""`auto` when nobody answers: one table for people, a compact list for agents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from counsel.errors import ProviderUnavailable
from counsel.mcp import render
from fake import FakeProcess
from support.pty_screen import in_terminal

KEYS = {"OPENAI_API_KEY": "sk-x", "ANTHROPIC_API_KEY": "sk-ant-x", "GOOGLE_API_KEY": "g"}
ORDER = [
    "openai",
    "gpt-6.1-sol",
    "anthropic",
    "claude-opus-5-5",
    "google",
    "gemini-4-argon",
]


@pytest.mark.parametrize("columns", [80, 140])
def test_a_person_sees_each_provider_with_what_to_do(
    tmp_path: Path, fake_process: FakeProcess, columns: int
) -> None:
    fake_process.script(status=401, times=None)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "COUNSEL_HOME": str(tmp_path / "home"),
        "OPENAI_BASE_URL": fake_process.v1,
        "ANTHROPIC_BASE_URL": fake_process.url,
        "GOOGLE_GEMINI_BASE_URL": fake_process.url,
        **KEYS,
    }
    screen = in_terminal("ask", "hello", "--standalone", env=env, cwd=tmp_path, columns=columns)
    assert screen.code == 1
    start = next(n for n, line in enumerate(screen.lines) if line.startswith("error: No model answered"))
    table = screen.lines[start + 1 :]
    assert max(map(len, table)) <= columns
    names = [word for line in table for word in line.split() if word in ORDER]  # beside or below each other
    assert names == ORDER
    text = " ".join(table)
    for name in KEYS:
        assert name in text.replace(" ", "")
    assert "counsel doctor --online" in text
    assert len(fake_process.calls) == 3


def test_an_agent_gets_a_line_for_each_provider() -> None:
    entry = {"provider": "openai", "models": ["a", "b"], "code": "TIMEOUT", "error": "Late.", "hint": "Wait."}
    error = ProviderUnavailable("No model answered.", hint="Look.", tried=[entry, {**entry, "hint": ""}])
    assert render.failure(error).splitlines() == [
        "PROVIDER_UNAVAILABLE: No model answered. Look.",
        "- openai (a, b): Late. Wait.",
        "- openai (a, b): Late.",
    ]

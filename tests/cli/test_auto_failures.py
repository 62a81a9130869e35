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
    words = table[0].split()
    assert (words[0], words[1]) == ("PROVIDER", "MODEL")
    assert [line.split()[:2] for line in table if line.split()[:1] and line.split()[0] in PROVIDERS] == [
        ["openai", "gpt-6.1-sol"],
        ["anthropic", "claude-opus-5-5"],
        ["google", "gemini-4-argon"],
    ]
    text = " ".join(table)
    for name in KEYS:
        assert name in text.replace(" ", "")
    assert "counsel doctor --online" in text
    assert len(fake_process.calls) == 3


PROVIDERS = ("openai", "anthropic", "google")


def test_an_agent_gets_a_line_for_each_provider() -> None:
    entry = {"provider": "openai", "models": ["a", "b"], "code": "TIMEOUT", "error": "Late.", "hint": "Wait."}
    error = ProviderUnavailable("No model answered.", hint="Look.", tried=[entry, {**entry, "hint": ""}])
    assert render.failure(error).splitlines() == [
        "PROVIDER_UNAVAILABLE: No model answered. Look.",
        "- openai (a, b): Late. Wait.",
        "- openai (a, b): Late.",
    ]

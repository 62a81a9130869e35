"""Every list of every command fits the terminal, also with long names, and breaks no word."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake import FakeProcess
from support.stdio_client import daemon_pid, kill_daemon
from support.terminal import Terminal, user_env

pytestmark = pytest.mark.thorough  # left out of `make check`

SERVER = "internal-company-knowledge-base-search"
SKILL = "prepare-the-quarterly-architecture-review"
QUESTION = "Should the authentication middleware be rewritten before the October release of the platform?"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

LISTS = (
    "jobs",
    "conversations",
    "usage",
    "usage --by day",
    "models",
    "models --all",
    "agents",
    "servers",
    "skills",
    "skills matrix",
    "config list",
    "keys list",
    "doctor",
    "daemon status",
)


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A home with long names in everything that is listed."""
    home = tmp_path_factory.mktemp("width")
    entry = {"command": f"/opt/company/tools/{SERVER}/bin/start", "args": ["--index", "everything"]}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {SERVER: entry, "short": entry}}))
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps({"mcpServers": {SERVER: entry}}))
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(f'[mcp_servers.{SERVER}]\ncommand = "{entry["command"]}"\n')
    skill = home / ".claude" / "skills" / SKILL
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        f"---\nname: {SKILL}\ndescription: {'Collect every decision. ' * 8}\n---\nDo it.\n"
    )
    (home / "project").mkdir()
    with FakeProcess() as fake:
        env = user_env(home, home / "counsel", fake)
        for arguments in (
            ("ask", QUESTION, "-m", "gpt-5"),
            ("consensus", QUESTION, "-m", "gpt-5", "-m", "opus", "-m", "claude-sonnet-4-5"),
        ):
            subprocess.run(
                [sys.executable, "-m", "counsel", *arguments],
                env=env, cwd=home / "project", check=True, capture_output=True, timeout=120,
            )  # fmt: skip
        yield env
        if daemon_pid(home / "counsel") is not None:
            kill_daemon(home / "counsel")


def output_lines(command: str, env: dict[str, str], columns: int) -> list[str]:
    """The lines as the command wrote them, before the terminal wraps them."""
    project = Path(env["HOME"], "project")
    with Terminal(*command.split(), env=env, cwd=project, columns=columns, rows=60) as terminal:
        assert terminal.wait() in {0, 1}, terminal.text
        return ESCAPES.sub("", terminal.data.decode()).replace("\r", "").split("\n")


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize("command", LISTS)
def test_lists_fit_the_terminal_and_break_no_word(command: str, columns: int, env: dict[str, str]) -> None:
    lines = output_lines(command, env, columns)
    assert any(line.strip() for line in lines)
    wide = [line for line in lines if len(line) > columns and len(max(line.split(), key=len)) < columns - 8]
    assert wide == []
    name = {"servers": SERVER, "skills": SKILL}.get(command.partition(" ")[0])
    if name:
        assert any(name in line for line in lines), "\n".join(lines)

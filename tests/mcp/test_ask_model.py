"""askModel over MCP: tags, the calling agent, chains and permission levels reach the engine and the agents."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fake import FakeProcess
from support.stdio_client import StdioClient

COUNSEL = [sys.executable, "-P", "-m", "counsel", "stdio"]


def client(home: Path, fake: FakeProcess, *args: str, **env: str) -> StdioClient:
    keys = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": fake.v1}
    return StdioClient(home, command=[*COUNSEL, *args], env={**keys, **env})


async def test_two_agents_clients_share_a_thread_by_its_tag(home: Path, fake_process: FakeProcess) -> None:
    async with client(home, fake_process, "--as", "claude") as claude:
        await claude.initialize(name="claude-code")
        first = await claude.call("askModel", model="gpt-5", prompt="one", sessionTag="design")
    async with client(home, fake_process, SESSION_ID="design") as codex:
        await codex.initialize(name="codex-mcp-client")
        second = await codex.call("askModel", model="gpt-5", prompt="two")
    thread, continued_thread = (answer["structuredContent"]["continuation"] for answer in (first, second))
    assert (continued_thread["id"], continued_thread["tag"], continued_thread["messageCount"]) == (
        thread["id"],
        "design",
        4,
    )


@pytest.mark.parametrize(
    ("args", "name", "env", "model", "words"),
    [
        (("--as", "claude"), "test", {}, "claude", "Claude Code cannot consult itself"),
        ((), "claude-code", {}, "claude:opus", "Claude Code cannot consult itself"),
        ((), "gemini-cli-mcp-client-counsel", {}, "gemini", "Gemini CLI cannot consult itself"),
        ((), "codex-mcp-client", {"COUNSEL_CHAIN": "claude,codex"}, "claude", "Claude Code → Codex → Claude"),
        (("--as", "cursor"), "test", {"COUNSEL_CHAIN": "claude,codex,cursor"}, "gpt-5", "already 2 deep"),
    ],
)
async def test_the_calling_agent_is_known(
    home: Path,
    fake_process: FakeProcess,
    args: tuple[str, ...],
    name: str,
    env: dict[str, str],
    model: str,
    words: str,
) -> None:
    async with client(home, fake_process, *args, **env) as agent:
        await agent.initialize(name=name)
        for tool in ("askModel", "chat"):
            result = await agent.call(tool, model=model, prompt="hello")
            assert result["isError"]
            assert result["structuredContent"]["code"] == "SELF_CONSULTATION"
            assert words in result["content"][0]["text"]
    assert fake_process.calls == []


@pytest.mark.parametrize(
    ("mode", "level"), [("", "dontAsk"), ("acceptEdits", "acceptEdits"), ("odd", "dontAsk")]
)
async def test_permission_mode_is_the_asked_agents_level(
    home: Path, fake_process: FakeProcess, tmp_path: Path, mode: str, level: str
) -> None:
    record = tmp_path / "seen"
    program = tmp_path / "claude"
    program.write_text(f'#!/bin/sh\necho "$COUNSEL_CHAIN $*" > "{record}"\nexit 3\n')
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ANTHROPIC_API_KEY": "k", "PERMISSION_MODE": mode}
    async with client(home, fake_process, "--as", "codex", **env) as codex:
        await codex.initialize()
        result = await codex.call("askModel", model="claude", prompt="hello")
    assert result["structuredContent"]["code"] == "UPSTREAM_ERROR"
    chain, *argv = record.read_text().split()
    assert chain == "codex,claude"
    assert argv[argv.index("--permission-mode") + 1] == level

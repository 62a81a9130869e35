"""Claude Code and Codex ask through counsel: whole turns with their own tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agents import rigs
from fake import FakeAPI
from support.api_client import TOKEN
from support.client_programs import environment, program
from support.v1 import V1, served

pytestmark = pytest.mark.client
SECRET = "the cat is called Mirabelle"


@pytest.fixture
async def v1(tmp_path: Path, fake_api: FakeAPI) -> AsyncIterator[V1]:
    async with served(tmp_path / "counsel", fake_api) as client:
        yield client


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text(SECRET)
    (tmp_path / "home").mkdir()
    return folder


async def _run(*command: str, cwd: Path, env: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=env,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 600)  # against a hang
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output.decode(errors="replace")


@pytest.mark.parametrize("model", ["gpt-5", "claude-sonnet-4-6", "gemini-2.5-pro"])
async def test_claude_code_reads_a_file_with_any_model(
    v1: V1, fake_api: FakeAPI, project: Path, model: str
) -> None:
    tool_call = {"name": "Read", "arguments": {"file_path": str(project / "notes.txt")}}
    fake_api.script(thinking="I read.", tool_calls=[tool_call], text="Mirabelle!", times=None)
    env = environment(
        project.parent / "home",
        ANTHROPIC_BASE_URL=v1.url,
        ANTHROPIC_AUTH_TOKEN=TOKEN,
        ANTHROPIC_MODEL=model,
        ANTHROPIC_SMALL_FAST_MODEL=model,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
    )
    output = await _run(program("claude"), "-p", "What is in notes.txt?", cwd=project, env=env)
    assert "Mirabelle!" in output
    assert any(SECRET in str(call.body) for call in fake_api.calls), "the tool's result reached the model"


async def test_claude_code_knows_a_conversation_that_is_too_long(
    v1: V1, fake_api: FakeAPI, project: Path
) -> None:
    """Whatever the vendor says. Claude Code then compacts a long conversation; a single question it cannot."""
    fake_api.script(error="context", message="Too much.", times=None)
    env = environment(
        project.parent / "home",
        ANTHROPIC_BASE_URL=v1.url,
        ANTHROPIC_AUTH_TOKEN=TOKEN,
        ANTHROPIC_MODEL="gpt-5",
        ANTHROPIC_SMALL_FAST_MODEL="gpt-5",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
    )
    output = await _run(program("claude"), "-p", "hello", cwd=project, env=env)
    assert "Prompt is too long" in output


@pytest.mark.parametrize(("agent", "model"), [("codex", "codex"), ("claude", "claude:opus")])
async def test_a_real_agent_answers_as_a_model(
    tmp_path: Path, fake_api: FakeAPI, agent: str, model: str
) -> None:
    rig = {"codex": rigs.codex, "claude": rigs.claude}[agent](fake_api, tmp_path / "agent")
    fake_api.script(text="Mirabelle!", times=None)
    messages: Any = [{"role": "user", "content": "What is the cat called?"}]
    env = {name: value for name, value in rig.env.items() if name != "COUNSEL_HOME"}
    async with served(tmp_path / "counsel", fake_api, CLIENT_CWD=str(rig.project), **env) as v1:
        ask: Any = {"model": model, "messages": messages, "temperature": 0.3, "max_tokens": 99}
        answer: Any = await v1.openai.chat.completions.create(**ask)
        assert answer.choices[0].message.content == "Mirabelle!"
        assert answer.counsel["ignored"] == ["temperature", "max_tokens"]
        raw = await v1.openai.chat.completions.with_raw_response.create(**ask, stream=True)
        assert raw.headers["x-counsel-ignored"] == "temperature, max_tokens"
        chunks = [chunk async for chunk in raw.parse()]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Mirabelle!"


@pytest.mark.parametrize("model", ["gpt-5", "claude-sonnet-4-6", "gemini-2.5-pro", "deepseek-chat"])
async def test_codex_reads_a_file_with_any_model(
    v1: V1, fake_api: FakeAPI, project: Path, model: str
) -> None:
    home = project.parent / "home"
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(
        f'model = "{model}"\nmodel_provider = "counsel"\n\n[model_providers.counsel]\nname = "counsel"\n'
        f'base_url = "{v1.url}/v1"\nenv_key = "COUNSEL_TOKEN"\nwire_api = "responses"\n'
    )
    tool_call = {"name": "exec_command", "arguments": {"cmd": "cat notes.txt"}}
    fake_api.script(thinking="I read.", tool_calls=[tool_call], text="Mirabelle!", times=None)
    env = environment(home, COUNSEL_TOKEN=TOKEN)
    command = ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    output = await _run(program("codex"), *command, "What is in notes.txt?", cwd=project, env=env)
    assert "Mirabelle!" in output
    assert any(SECRET in str(call.body) for call in fake_api.calls), "the tool's result reached the model"

"""Shared tools as agents and people use them: `askModel` over stdio and the daemon, `counsel ask --tool`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.tools.conftest import TOOL_SERVER, alive, until
from fake import FakeProcess
from support.stdio_client import StdioClient, daemon_pid

pytestmark = pytest.mark.thorough  # left out of `make check`


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    entry = {"type": "stdio", "command": sys.executable, "args": [str(TOOL_SERVER), str(tmp_path / "pid")]}
    (tmp_path / ".claude.json").write_text(json.dumps({"mcpServers": {"notes": entry}}))
    yield tmp_path
    if (pid := daemon_pid(tmp_path)) is not None:
        os.kill(pid, signal.SIGKILL)


def env(fake: FakeProcess) -> dict[str, str]:
    keys = {"OPENAI_API_KEY": "sk-test-openai-0000000000000000", "OPENAI_BASE_URL": fake.v1}
    return {**keys, "COUNSEL_SHARED_TOOLS": "notes"}


async def test_an_agent_lends_its_server(home: Path, fake_process: FakeProcess) -> None:
    tool_calls = [{"name": "notes__look_up", "arguments": {"note": "tide"}}]
    fake_process.script(tool_calls=tool_calls, text="At 06:40.", times=None)
    command = [sys.executable, "-m", "counsel", "stdio", "--as", "claude"]
    question = {"model": "gpt-5", "prompt": "When is high water?"}
    async with StdioClient(home, command=command, env=env(fake_process)) as client:
        await client.initialize(name="claude-code")
        answer = await client.call("askModel", **question, tools=["notes"])
        refusal = await client.call("askModel", **question, tools=["other"])
    content = answer["structuredContent"]
    assert content["content"].endswith("At 06:40.")
    assert [(run["tool"], run["ok"]) for run in content["metadata"]["tool_calls"]] == [("look_up", True)]
    assert refusal["structuredContent"]["code"] == "INVALID_ARGUMENT"
    assert "High water is at 06:40." in json.dumps(fake_process.calls[1]["body"])
    assert len(fake_process.calls) == 2


async def test_a_user_shares_a_server_and_ctrl_c_ends_it(home: Path, fake_process: FakeProcess) -> None:
    asleep = home / "asleep"
    tool_calls = [{"name": "notes__doze", "arguments": {"file": str(asleep)}}]
    fake_process.script(tool_calls=tool_calls, times=None)
    asking = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "counsel", "ask", "--standalone", "-m", "gpt-5", "--tool", "notes", "When?"),
        env={"PATH": os.environ["PATH"], "HOME": str(home), "COUNSEL_HOME": str(home), **env(fake_process)},
        cwd=home,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    await until(asleep.exists)
    asking.send_signal(signal.SIGINT)
    await asyncio.wait_for(asking.communicate(), 30)
    assert asking.returncode not in {0, None}
    server = int((home / "pid").read_text())
    await until(lambda: not alive(server))

"""A typed path is consent, a path named over MCP is not, although the same daemon serves both."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from fake import FakeProcess
from support.stdio_client import StdioClient

COUNSEL = [sys.executable, "-m", "counsel", "stdio"]


async def test_an_agent_sends_nothing_from_outside_its_folder(
    home: Path, tmp_path: Path, fake_process: FakeProcess
) -> None:
    project = tmp_path / "repository"
    (project / ".git").mkdir(parents=True)
    (project / "top.md").write_text("TOP\n")
    (project / "sub").mkdir()
    (project / "sub/link.md").symlink_to("../top.md")
    env = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": fake_process.v1}
    async with StdioClient(home, command=COUNSEL, cwd=project / "sub", env=env) as client:
        await client.initialize()
        command = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "counsel", "ask", "-m", "gpt-5", "Why?", "-f", "../top.md"),
            env=client.env,
            cwd=project / "sub",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        await asyncio.wait_for(command.communicate(), 60)
        assert command.returncode == 0
        assert 'path="top.md"' in fake_process.calls[0]["text"]
        for name in ("../top.md", str(project / "top.md"), "..", "../*.md", "link.md", str(project)):
            result = await client.call("chat", prompt="Why?", model="gpt-5", files=[name])
            assert result["structuredContent"]["code"] == "FILE_NOT_ALLOWED", name
    assert len(fake_process.calls) == 1

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from counsel import settings
from counsel.caller import Caller
from counsel.engine.engine import Engine, open_engine
from counsel.requests import ChatRequest
from counsel.types import Json
from fake import FakeAPI
from support.user import User

TOOL_SERVER = Path(__file__).with_name("tool_server.py")
# One model of each wire, and how to read the tools from its requests.
MODELS = {
    "gpt-5": lambda body: [tool["name"] for tool in body["tools"]],
    "deepseek-chat": lambda body: [tool["function"]["name"] for tool in body["tools"]],
    "claude-sonnet-4-5": lambda body: [tool["name"] for tool in body["tools"]],
    "gemini-2.5-flash": lambda body: [tool["name"] for tool in body["tools"][0]["functionDeclarations"]],
}


@dataclass
class SharedTools:
    """A user with MCP servers in the agents' files, an engine, and a fake of every provider."""

    home: Path
    project: Path
    engine: Engine
    fake: FakeAPI
    url: str = ""  # of a server that is already running: starting one for each test takes a second

    @property
    def pid_file(self) -> Path:
        return self.home / "notes.pid"

    def entry(self, *more: str) -> Json:
        return {"command": sys.executable, "args": [str(TOOL_SERVER), str(self.pid_file), *more]}

    @property
    def remote(self) -> Json:
        return {"type": "http", "url": self.url}

    def claude(self, **servers: Json) -> None:
        entries = {name: {"type": "stdio", **entry} for name, entry in servers.items()}
        (self.home / ".claude.json").write_text(json.dumps({"mcpServers": entries}))

    def gemini(self, **servers: Json) -> None:
        (self.home / ".gemini").mkdir(exist_ok=True)
        (self.home / ".gemini" / "settings.json").write_text(json.dumps({"mcpServers": servers}))

    def caller(self, agent: str | None = None, shared: str = "notes", **env: str) -> Caller:
        url, v1 = self.fake.url, self.fake.v1
        config = settings.load(
            {
                "HOME": str(self.home),
                "PATH": os.environ["PATH"],
                "COUNSEL_HOME": str(self.home / "counsel"),
                "COUNSEL_SHARED_TOOLS": shared,
                "OPENAI_API_KEY": "sk-test-openai-0000000000000000",
                "OPENAI_BASE_URL": v1,
                "ANTHROPIC_API_KEY": "sk-ant-test-0000000000000000",
                "ANTHROPIC_BASE_URL": url,
                "GOOGLE_API_KEY": "AIzaTest00000000000000000000000000000000",
                "GOOGLE_GEMINI_BASE_URL": url,
                "DEEPSEEK_API_KEY": "sk-test-deepseek-000000000000",
                "DEEPSEEK_BASE_URL": f"{url}/deepseek/v1",
                **env,
            }
        )
        return Caller("test", agent=agent, cwd=self.project, settings=config)

    async def submit(self, caller: Caller | None = None, **fields: Any) -> str:
        arguments = {"prompt": "When is high water?", "model": "gpt-5", "tools": ("notes",), **fields}
        return await self.engine.submit(ChatRequest(tool="askModel", **arguments), caller or self.caller())

    async def ask(self, caller: Caller | None = None, **fields: Any) -> Json:
        return (await self.engine.wait(await self.submit(caller, **fields))).to_json()

    async def events(self, job: str, kind: str) -> list[Json]:
        return [event.data async for event in self.engine.follow(job) if event.kind == kind]

    def calls(self, *names: str, **arguments: Any) -> list[Json]:
        return [{"name": name, "arguments": arguments} for name in names]

    def server_is_gone(self) -> bool:
        return not alive(int(self.pid_file.read_text()))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(condition: Callable[[], bool]) -> None:
    """Poll, since nothing announces what another process does."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, TOOL_SERVER, "http"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        process.terminate()


@pytest.fixture
async def shared_tools(user: User, fake_api: FakeAPI) -> AsyncIterator[SharedTools]:
    """A user with a server `notes` that is started for each consultation."""
    engine = await open_engine(user.counsel_home)
    shared_tools = SharedTools(user.home, user.project, engine, fake_api)
    shared_tools.claude(notes=shared_tools.entry())
    yield shared_tools
    await engine.close()


@pytest.fixture
def remote(shared_tools: SharedTools, server_url: str) -> SharedTools:
    """A user with a server `notes` that is called over HTTP."""
    shared_tools.url = server_url
    shared_tools.claude(notes=shared_tools.remote)
    return shared_tools

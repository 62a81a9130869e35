"""`counsel serve` and `counsel daemon`, run as commands."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from fake import FakeProcess
from support.serve_process import serve
from support.stdio_client import StdioClient, daemon_pid

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    (home := tmp_path / "home").mkdir()
    yield home
    if (pid := daemon_pid(home)) is not None:
        os.kill(pid, signal.SIGKILL)


def counsel(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "COUNSEL_HOME": str(home)}
    command = [sys.executable, "-m", "counsel", *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)


async def test_the_daemon_is_shown_and_stopped(home: Path) -> None:
    none = counsel(home, "daemon", "status", "--json")
    assert json.loads(none.stdout) == {"running": False}
    assert "No daemon" in counsel(home, "daemon", "stop").stdout
    async with StdioClient(home, command=[sys.executable, "-m", "counsel", "stdio"]) as client:
        await client.initialize(name="some-agent")
        await client.call("check_status")
        status = json.loads((await asyncio.to_thread(counsel, home, "daemon", "status", "--json")).stdout)
        assert status["pid"] == daemon_pid(home)
        assert [client["client"] for client in status["clients"]] == ["some-agent"]
        assert "some-agent" in (await asyncio.to_thread(counsel, home, "daemon", "status")).stdout
        stop = await asyncio.to_thread(counsel, home, "daemon", "stop", "--json")
        assert json.loads(stop.stdout) == {"stopped": True}


async def test_serve_answers_over_http_and_ends_with_a_signal(home: Path, fake_process: FakeProcess) -> None:
    keys = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": fake_process.v1}
    process, base, messages = await serve(home, **keys)
    token = (home / "token").read_text()
    assert token not in messages
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    async with aiohttp.ClientSession(headers=headers) as session:
        init = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": init}
        async with session.post(f"{base}/mcp", json=opening) as response:
            name = {"Mcp-Session-Id": response.headers["Mcp-Session-Id"]}
        arguments = {"prompt": "hello", "model": "gpt-5-mini"}
        call = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "chat", "arguments": arguments},
        }
        async with session.post(f"{base}/mcp", json=call, headers=name) as response:
            result = (await response.json())["result"]
            assert result["structuredContent"]["content"] == "gpt-5-mini says: hello"
    process.terminate()
    rest = (await process.stderr.read()).decode()
    assert await process.wait() == 0
    assert token not in rest
    assert token not in "".join(file.read_text() for file in (home / "logs").iterdir())


async def test_another_address_is_refused_with_a_weak_token(home: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "COUNSEL_HOME": str(home), "COUNSEL_TOKEN": "weak"}
    command = [sys.executable, "-m", "counsel", "serve", "--host", "0.0.0.0", "--port", "0"]
    result = await asyncio.to_thread(
        subprocess.run, command, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 1
    assert "COUNSEL_TOKEN" in result.stderr


async def test_a_port_in_use_is_named(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        result = await asyncio.to_thread(counsel, home, "serve", "--port", port)
    assert result.returncode == 1
    assert f"127.0.0.1:{port}: Address already in use.\n" in result.stderr
    assert "--port" in result.stderr


async def test_serve_can_speak_stdio(home: Path) -> None:
    command = [sys.executable, "-m", "counsel", "serve", "--transport", "stdio"]
    async with StdioClient(home, command=command) as client:
        await client.initialize()
        assert len((await client.ask("tools/list"))["tools"]) == 5

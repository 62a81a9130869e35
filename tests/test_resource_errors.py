"""On a machine without free files, memory or processes, errors say so instead of blaming a provider."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from counsel import resource_errors
from counsel.agents.process import Command, Process
from counsel.errors import OutOfResources
from counsel.types import Limits
from fake import FakeProcess
from support.stdio_client import StdioClient, daemon_ends, daemon_pid

pytestmark = pytest.mark.slow  # left out of `make check`


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Path]:
    (tmp_path / "home").mkdir()
    yield tmp_path / "home"
    if (pid := daemon_pid(tmp_path / "home")) is not None:
        os.kill(pid, 9)
        await daemon_ends(tmp_path / "home")


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_a_shortage_is_found_wherever_it_hides() -> None:
    inner = OSError(errno.EMFILE, "Too many open files")
    try:
        try:
            raise inner
        except OSError as error:
            raise aiohttp.ClientConnectionError("cannot connect") from error
    except aiohttp.ClientConnectionError as outer:
        result = resource_errors.failure(ExceptionGroup("all", [outer]), "It could not be done")
    assert isinstance(result, OutOfResources)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    message = f"counsel has reached its limit of open files and connections ({limit})"
    assert result.message == f"It could not be done: {message}."
    assert "ulimit -n" in (result.hint or "")
    assert resource_errors.cause(MemoryError())
    assert resource_errors.cause(RuntimeError("can't start new thread"))
    assert resource_errors.cause(OSError(errno.EAGAIN, ""), starting=True)
    for unrelated in (None, OSError(errno.ECONNREFUSED, ""), OSError(errno.EAGAIN, ""), ValueError("x")):
        assert resource_errors.cause(unrelated) is None


async def test_an_agent_that_cannot_be_started_for_lack_of_files_says_so(tmp_path: Path) -> None:
    items: list[int] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    try:
        while True:
            try:
                items.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        with pytest.raises(OutOfResources, match="could not be started"):
            async with Process(Command(("/bin/true",), tmp_path, {}), Limits()):
                pass
    finally:
        for file in items:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux'")
async def test_a_daemon_without_files_says_so_to_calls_and_to_clients(
    home: Path, fake_process: FakeProcess
) -> None:
    keys = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": fake_process.v1}
    command = [sys.executable, "-m", "counsel", "stdio"]
    async with StdioClient(home, command=command, env=keys) as client:
        await client.initialize()
        await client.call("chat", prompt="warm", model="gpt-5")
        pid = daemon_pid(home)
        assert pid is not None
        fake_process.script(gate="go", times=None)
        used = open_files(pid)
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 2, hard))
        calls = [asyncio.ensure_future(client.call("chat", prompt=f"{n}", model="gpt-5")) for n in range(8)]
        finished_calls, _ = await asyncio.wait(calls, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        document = next(iter(finished_calls)).result()["structuredContent"]
        assert document["code"] == "OUT_OF_RESOURCES"
        assert "its limit of open files and connections" in document["error"]
        async with StdioClient(home, command=command, env=keys) as second_client:
            await second_client.initialize()
            reply = await second_client.call("check_status")
            assert "its limit of open files and connections" in reply["structuredContent"]["error"]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        fake_process.open_gate("go")
        await asyncio.wait(calls, timeout=30)
        assert any("content" in call.result()["structuredContent"] for call in calls)

"""Memory of fronts, of which there are many, and of the daemon, which runs all the time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fake import FakeProcess
from support.stdio_client import StdioClient, daemon_pid

pytestmark = pytest.mark.slow
COUNSEL = [sys.executable, "-m", "counsel", "stdio"]
THREE = ("gpt-5", "sonnet", "gemini-2.5-flash")


def resident(pid: int) -> float:
    """Resident memory in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def keys(fake: FakeProcess) -> dict[str, str]:
    return {
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": fake.v1,
        "ANTHROPIC_API_KEY": "sk-ant-test",
        "ANTHROPIC_BASE_URL": fake.url,
        "GOOGLE_API_KEY": "AIza-test",
        "GOOGLE_GEMINI_BASE_URL": fake.url,
    }


async def test_front_and_daemon_are_small_also_with_large_answers(
    home: Path, fake_process: FakeProcess
) -> None:
    async with StdioClient(home, command=COUNSEL, env=keys(fake_process)) as client:
        await client.initialize()
        for model in THREE:
            answer = await client.call("chat", prompt="hello", model=model)
            assert answer["structuredContent"]["metadata"]["model"]
        daemon = daemon_pid(home)
        assert daemon is not None
        assert (used := resident(daemon)) <= 100, used
        fake_process.script(size=2_000_000, delta_size=1000, times=None)
        before = resident(daemon)
        content = await client.call(
            "consensus", prompt="large", models=list(THREE), enable_cross_feedback=False
        )
        assert content["structuredContent"]["successful_initial_responses"] == 3
        assert (growth := resident(daemon) - before) <= 60, growth
        assert (front := resident(client.process.pid)) <= 15, front

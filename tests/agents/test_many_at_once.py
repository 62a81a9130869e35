"""Eight real agents at once through one daemon: each gets its own answer, and the daemon still answers other calls."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.rigs import trust
from counsel import settings
from counsel.caller import Caller
from counsel.daemon.rpc_client import connect
from counsel.requests import ChatRequest
from fake import FakeProcess


@pytest.mark.client
@pytest.mark.slow
async def test_eight_agents_at_once_and_the_daemon_answers_meanwhile(
    real_client: Callable[[str], str], fake_process: FakeProcess, tmp_path: Path
) -> None:
    programs = Path(real_client("claude")).parent
    env = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "COUNSEL_HOME": str(tmp_path / "counsel"),
        "ANTHROPIC_API_KEY": "sk-ant-test-0000000000000000",
        "ANTHROPIC_BASE_URL": fake_process.url,
        "OPENAI_API_KEY": "sk-test-0000000000000000",
        "OPENAI_BASE_URL": fake_process.v1,
    }
    trust(tmp_path, tmp_path)
    fake_process.script(gate="hold", gate_after=1, contains="number", times=None)
    caller = Caller("test", cwd=tmp_path, settings=settings.load(env))
    engine = await connect(caller)
    try:
        jobs = [
            await engine.submit(
                ChatRequest(prompt=f"number {n} of eight", model="claude"), caller, background=True
            )
            for n in range(8)
        ]
        await asyncio.to_thread(fake_process.wait_for, contains="number", deltas=1, count=8, timeout=100)
        quick = await engine.submit(ChatRequest(prompt="hello", model="gpt-5"), caller)
        assert (await engine.wait(quick)).to_json()["content"] == "gpt-5 says: hello"
        fake_process.open_gate("hold")
        answers = await asyncio.gather(*(engine.wait(job) for job in jobs))
        for n, answer in enumerate(answers):
            assert answer.content.strip().endswith(f"says: number {n} of eight")
    finally:
        await engine.daemon_stop()
        await engine.close()

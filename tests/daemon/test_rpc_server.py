"""The RPC server when the program that uses the engine, or the engine itself, fails or disconnects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from counsel.caller import Caller
from counsel.daemon.console import DaemonConsole
from counsel.daemon.rpc_server import RpcServer, caller_to_json, request_to_json
from counsel.requests import ChatRequest
from counsel.results import JobList
from support.fake_engine import FakeEngine


class SlowDisk(FakeEngine):
    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def submit(self, *args: Any, **more: Any) -> str:
        self.asked.set()
        await self.go_on.wait()
        return await super().submit(*args, **more)

    async def recent(self, limit: int = 10) -> JobList:
        raise OSError("the disk is gone")


def submission(prompt: str, **more: Any) -> bytes:
    params = {
        "request": request_to_json(ChatRequest(prompt=prompt)),
        "caller": caller_to_json(Caller("test", cwd=Path("/"))),
        "background": False,
        "key": "k",
    }
    return json.dumps({"id": 1, "method": "submit", "params": {**params, **more}}).encode()


async def leave(background: bool) -> SlowDisk:
    """Submit a job, and disconnect while it is being stored."""
    engine = SlowDisk()
    rpc_server = RpcServer(engine, lambda _: None, dict, lambda _: None)
    rpc_server.line(submission("hang", background=background))
    await engine.asked.wait()
    closing = asyncio.ensure_future(rpc_server.close("gone"))
    await asyncio.sleep(0)
    engine.go_on.set()
    await closing
    return engine


async def test_a_client_that_leaves_while_a_job_is_stored_leaves_nothing_running() -> None:
    engine = await leave(background=False)
    assert [job.status for job in engine.jobs.values()] == ["cancelled"]


async def test_a_background_job_continues_without_its_client() -> None:
    engine = await leave(background=True)
    assert [job.status for job in engine.jobs.values()] == ["processing"]


async def test_an_internal_error_is_answered() -> None:
    messages: list[bytes] = []
    rpc_server = RpcServer(SlowDisk(), messages.append, dict, lambda _: None)
    rpc_server.line(b'{"id": 7, "method": "recent", "params": {"limit": 1}}')
    await asyncio.gather(*rpc_server._tasks.values())
    answer = json.loads(messages[0])
    assert (answer["id"], answer["error"]["code"]) == (7, "INTERNAL")
    assert "OSError" in answer["error"]["error"]


async def test_a_program_that_only_keeps_the_console_open_waits_for_no_answer() -> None:
    """Otherwise a daemon whose home was replaced would not exit while `counsel console` runs."""

    class Console(DaemonConsole):
        async def hold(self, env: Mapping[str, str], project: Path, port: int) -> None:
            holding.set()
            await asyncio.Event().wait()

    holding = asyncio.Event()
    engine = SlowDisk()
    console = Console.__new__(Console)
    rpc_server = RpcServer(engine, lambda _: None, dict, lambda _: None, console=console)
    params = {"caller": caller_to_json(Caller("test", cwd=Path("/"))), "port": 1}
    rpc_server.line(json.dumps({"id": 1, "method": "console_hold", "params": params}).encode())
    await holding.wait()
    assert not rpc_server.busy
    await rpc_server.close("gone")

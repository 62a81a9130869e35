"""A real `counsel stdio` process and the client's end of its pipes."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from counsel import run_paths

FRONT = Path(__file__).parent / "fake_front.py"
# a daemon that a test has left running exits soon
SHORT_LIVED = {"COUNSEL_DAEMON_IDLE_SECONDS": "3"}


class StdioClient:
    def __init__(
        self,
        home: Path,
        *args: str,
        command: list[str] | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        **more: str,
    ) -> None:
        self.home = home
        self.command = command or [sys.executable, str(FRONT), *args]
        self.cwd = cwd or home
        common = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.env = {
            **common,
            "HOME": str(home),
            "COUNSEL_HOME": str(home),
            **SHORT_LIVED,
            **(env or {}),
            **more,
        }
        self.number = 0
        self.waiting: dict[Any, asyncio.Future[Any]] = {}
        self.notes: asyncio.Queue[Any] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            *self.command, stdin=pipe, stdout=pipe, env=self.env, cwd=self.cwd, limit=1 << 26
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.reading = asyncio.ensure_future(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self.stdin.close()
        await self.process.wait()
        await self.reading

    async def _read(self) -> None:
        while line := await self.stdout.readline():
            message = json.loads(line)
            name = None if isinstance(message, list) else message.get("id")
            if name in self.waiting and "method" not in message:
                waiting = self.waiting.pop(name)
                if not waiting.done():
                    waiting.set_result(message)
            else:
                self.notes.put_nowait(message)

    def send(self, message: Any) -> None:
        self.stdin.write(json.dumps(message).encode() + b"\n")

    def start(self, method: str, params: Any = None) -> asyncio.Future[Any]:
        self.number += 1
        waiting = self.waiting[self.number] = asyncio.get_running_loop().create_future()
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params or {}})
        return waiting

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def ask(self, method: str, params: Any = None) -> Any:
        answer = await asyncio.wait_for(self.start(method, params), 30)
        return answer.get("result", answer)

    async def initialize(self, version: str = "2025-11-25", name: str = "test") -> Any:
        info = {"name": name, "version": "1"}
        answer = await self.ask(
            "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
        )
        self.notify("notifications/initialized")
        return answer

    def begin(self, tool: str, **arguments: Any) -> asyncio.Future[Any]:
        return self.start("tools/call", {"name": tool, "arguments": arguments})

    async def call(self, tool: str, **arguments: Any) -> Any:
        return (await asyncio.wait_for(self.begin(tool, **arguments), 30))["result"]

    async def text(self, prompt: str, **arguments: Any) -> str:
        result = await self.call("chat", prompt=prompt, **arguments)
        return str(result["structuredContent"]["content"])


def daemon_pid(home: Path) -> int | None:
    """The pid of the running daemon, which holds the lock."""
    path = Path(run_paths.run_folder(str(home)), "daemon.lock")
    if not path.exists():
        return None
    with path.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            data = file.read()
            return int(json.loads(data)["pid"]) if data else None  # the daemon is just starting
    return None


def kill_daemon(home: Path, how: signal.Signals = signal.SIGKILL) -> int:
    pid = daemon_pid(home)
    assert pid is not None, "no daemon runs"
    os.kill(pid, how)
    return pid


async def daemon_ends(home: Path) -> None:
    """Wait until no daemon runs."""
    async with asyncio.timeout(30):
        while daemon_pid(home) is not None:
            await asyncio.sleep(0.01)


async def process_ends(pid: int) -> None:
    """Wait until this process has ended."""
    async with asyncio.timeout(60):
        while _runs(pid):
            await asyncio.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"

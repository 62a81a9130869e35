"""MCP clients for the measured servers, over stdio and HTTP, and the CPU and memory of the servers' processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TICK = os.sysconf("SC_CLK_TCK")
KEY = "sk-proj-" + "a" * 48


@dataclass
class Peer:
    name: str
    command: list[str]
    env: dict[str, str]
    home: Path

    @property
    def is_counsel(self) -> bool:
        """This version or another one."""
        return self.name != "converse"

    def chat(self, prompt: str, **more: Any) -> dict[str, Any]:
        model = {"model": "gpt-5"} if self.is_counsel else {"models": ["gpt-5"]}
        return {"name": "chat", "arguments": {"prompt": prompt, **model, **more}}

    def consensus(self, models: list[str]) -> dict[str, Any]:
        if self.is_counsel:
            return {"name": "consensus", "arguments": {"prompt": "q", "models": models}}
        return {"name": "chat", "arguments": {"prompt": "q", "models": models, "mode": "consensus"}}


class Client:
    """JSON-RPC lines on the stdio of a process."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        self.number = 0

    async def start(self) -> float:
        """Spawn → tools/list, in seconds."""
        began = time.perf_counter()
        self.process = await asyncio.create_subprocess_exec(
            *self.peer.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=self.peer.env, limit=64 * 1024 * 1024,
        )  # fmt: skip
        self.reader = asyncio.create_task(self._read())
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        await self.ask("initialize", hello)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await self.ask("tools/list", {})
        return time.perf_counter() - began

    async def _read(self) -> None:
        assert self.process.stdout
        while line := await self.process.stdout.readline():
            with contextlib.suppress(ValueError):
                message = json.loads(line)
                if (waiter := self.waiting.pop(message.get("id"), None)) and not waiter.done():
                    waiter.set_result(message)

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        self.number += 1
        self.waiting[self.number] = asyncio.get_running_loop().create_future()
        self._send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        answer = await asyncio.wait_for(self.waiting[self.number], 120)
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"{self.peer.name}: {str(answer)[:300]}")
        return answer["result"]

    async def call(self, tool: dict[str, Any]) -> Any:
        return await self.ask("tools/call", tool)

    async def stop(self) -> None:
        self.process.terminate()
        await self.process.wait()
        self.reader.cancel()

    def pids(self) -> list[int]:
        pids = [self.process.pid]
        if (daemon := daemon_pid(self.peer)) and daemon not in pids:
            pids.append(daemon)
        return pids


def daemon_pid(peer: Peer) -> int | None:
    if not peer.is_counsel:
        return None
    command = [sys.executable, "-m", "counsel", "daemon", "status", "--json"]
    process = subprocess.run(command, env=peer.env, capture_output=True, text=True, check=False)
    with contextlib.suppress(ValueError):
        pid: int | None = json.loads(process.stdout).get("pid")
        return pid
    return None


def stop_daemon(peer: Peer) -> None:
    if peer.is_counsel:
        command = [sys.executable, "-m", "counsel", "daemon", "stop"]
        subprocess.run(command, env=peer.env, capture_output=True, check=False)


def cpu(pids: list[int]) -> float:
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / TICK
    return total


def rss(pid: int) -> float:
    """Resident memory in MiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


class HttpClient:
    """JSON-RPC over POST /mcp, as in the 2025 revisions of the protocol."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.number = 0
        self.headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}

    async def start(self) -> float:
        """Spawn → the first answer of `/health`, in seconds; then a session is opened."""
        import aiohttp

        began = time.perf_counter()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/mcp"
        is_counsel = self.peer.is_counsel
        command = (
            [sys.executable, "-m", "counsel", "serve", "--port", str(port)]
            if is_counsel
            else [*self.peer.command[:2], "--transport=http"]
        )
        env = {
            **self.peer.env,
            "PORT": str(port),
            "HTTP_PORT": str(port),
            "COUNSEL_TOKEN": "bench-token-0123456789",
        }
        devnull = subprocess.DEVNULL
        self.process = await asyncio.create_subprocess_exec(*command, env=env, stdout=devnull, stderr=devnull)
        if is_counsel:
            self.headers["authorization"] = f"Bearer {env['COUNSEL_TOKEN']}"
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        for _ in range(6_000):
            with contextlib.suppress(aiohttp.ClientError):
                async with self.session.get(self.url.removesuffix("mcp") + "health"):
                    took = time.perf_counter() - began
                break
            await asyncio.sleep(0.005)
        await self.ask("initialize", hello)
        self.headers["mcp-protocol-version"] = "2025-06-18"
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        async with self.session.post(self.url, json=note, headers=self.headers) as answer:
            await answer.read()
        return took

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        async with self.session.post(self.url, json=message, headers=self.headers) as answer:
            body = await answer.text()
            if session := answer.headers.get("mcp-session-id"):
                self.headers["mcp-session-id"] = session
        if body.startswith(("event:", "data:", "id:", ":")):
            lines = [line[5:] for line in body.splitlines() if line.startswith("data:") and '"id"' in line]
            body = lines[-1]
        response = json.loads(body)
        if "error" in response or response["result"].get("isError"):
            raise RuntimeError(f"{self.peer.name}: {body[:300]}")
        return response["result"]

    async def call(self, tool: dict[str, Any]) -> Any:
        return await self.ask("tools/call", tool)

    async def stop(self) -> None:
        await self.session.close()
        self.process.terminate()
        await self.process.wait()

    def pids(self) -> list[int]:
        return [self.process.pid]


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

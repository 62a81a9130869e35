"""The whole road against converse-mcp-server: start, one call, load, consensus, jobs, memory; ratios in one run.

`python -m bench.road [--converse FOLDER]`: FOLDER has `node_modules/converse-mcp-server` (default .cache/bench/converse, installed
there by `make bench`). Each number is a median of interleaved rounds; the machine should be quiet.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
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

    def chat(self, prompt: str, **more: Any) -> dict[str, Any]:
        who = {"model": "gpt-5"} if self.name == "counsel" else {"models": ["gpt-5"]}
        return {"name": "chat", "arguments": {"prompt": prompt, **who, **more}}

    def consensus(self, models: list[str]) -> dict[str, Any]:
        if self.name == "counsel":
            return {"name": "consensus", "arguments": {"prompt": "q", "models": models}}
        return {"name": "chat", "arguments": {"prompt": "q", "models": models, "mode": "consensus"}}


class Client:
    """JSON-RPC lines on a process's stdio."""

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
                if (found := self.waiting.pop(message.get("id"), None)) and not found.done():
                    found.set_result(message)

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
        found = [self.process.pid]
        if (daemon := daemon_pid(self.peer)) and daemon not in found:
            found.append(daemon)
        return found


def daemon_pid(peer: Peer) -> int | None:
    if peer.name != "counsel":
        return None
    command = [sys.executable, "-m", "counsel", "daemon", "status", "--json"]
    done = subprocess.run(command, env=peer.env, capture_output=True, text=True, check=False)
    with contextlib.suppress(ValueError):
        pid: int | None = json.loads(done.stdout).get("pid")
        return pid
    return None


def stop_daemon(peer: Peer) -> None:
    if peer.name == "counsel":
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
    """MiB now."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


Measure = Callable[[Peer, str], Awaitable[dict[str, float]]]


async def start_cold(peer: Peer, _: str) -> dict[str, float]:
    stop_daemon(peer)
    client = Client(peer)
    took = await client.start()
    began = time.perf_counter()
    await client.call(peer.chat("first"))
    first = took + time.perf_counter() - began
    await client.stop()
    return {"spawn → tools/list, cold (ms)": took * 1000, "first answer, cold (ms)": first * 1000}


async def start_warm(peer: Peer, _: str) -> dict[str, float]:
    keeper = Client(peer)
    await keeper.start()
    await keeper.call(peer.chat("warm"))
    client = Client(peer)
    took = await client.start()
    await client.stop()
    await keeper.stop()
    return {"spawn → tools/list, warm (ms)": took * 1000}


async def one_call(peer: Peer, _: str) -> dict[str, float]:
    client = Client(peer)
    await client.start()
    times = []
    for number in range(150):
        began = time.perf_counter()
        await client.call(peer.chat(f"q{number}"))
        times.append(time.perf_counter() - began)
    await client.stop()
    return {"one call, upstream 0 ms (ms)": statistics.median(times[30:]) * 1000}


async def load(peer: Peer, _: str) -> dict[str, float]:
    return await under_load(Client(with_delay(peer, "d50")))


async def steady(peer: Peer, _: str) -> dict[str, float]:
    """The same after 5,000 calls: Node compiles what runs often, and then needs half the CPU that it needs in `load`."""
    found = await under_load(Client(with_delay(peer, "d50")), before=5_000)
    return {f"after 5,000 calls: {what}": value for what, value in found.items()}


async def under_load(client: Client | HttpClient, before: int = 200) -> dict[str, float]:
    await client.start()
    await client.call(client.peer.chat("warm"))
    pids = client.pids()
    room = asyncio.Semaphore(64)

    async def one(number: int) -> None:
        async with room:
            await client.call(client.peer.chat(f"q{number}"))

    await asyncio.gather(*(one(n) for n in range(before)))
    so_far, began = cpu(pids), time.perf_counter()
    await asyncio.gather(*(one(n) for n in range(1000)))
    took, used = time.perf_counter() - began, cpu(pids) - so_far
    await client.stop()
    return {"64 at once, upstream 50 ms (calls/s)": 1000 / took, "CPU per call under load (ms)": used}


async def consensus(peer: Peer, _: str) -> dict[str, float]:
    peer = with_delay(peer, "d300")
    client = Client(peer)
    await client.start()
    await client.call(peer.chat("warm"))
    times = []
    for _unused in range(4):
        began = time.perf_counter()
        await client.call(peer.consensus(["gpt-5", "gpt-5-mini", "gpt-5-nano"]))
        times.append(time.perf_counter() - began)
    await client.stop()
    return {"consensus, per round / slowest model": statistics.median(times) / 2 / 0.3}


async def memory(peer: Peer, _: str) -> dict[str, float]:
    stop_daemon(peer)
    client = Client(peer)
    await client.start()
    await client.call(peer.chat("warm"))
    start = rss(daemon_pid(peer) or client.process.pid)
    await client.stop()
    big = Client(with_delay(peer, "d0s2000000"))
    await big.start()
    big_server = daemon_pid(peer) or big.process.pid
    before = rss(big_server)
    await big.call(peer.consensus(["gpt-5", "gpt-5-mini", "gpt-5-nano"]))
    added = rss(big_server) - before
    own = rss(big.process.pid) if peer.name == "counsel" else float("nan")
    await big.stop()
    return {
        "RSS of the server after a call (MiB)": start,
        "RSS added by a consensus of three 2 MB answers (MiB)": added,
        "RSS of one window's front (MiB)": own,
    }


async def jobs(peer: Peer, _: str) -> dict[str, float]:
    """The 10 newest of 10,000 (counsel) and of 1,000 (converse) jobs."""
    count = 10_000 if peer.name == "counsel" else 1_000
    client = Client(peer)
    await client.start()
    room = asyncio.Semaphore(64)

    async def one(number: int) -> None:
        async with room:
            await client.call(peer.chat(f"q{number}", **{"async": True}))

    await asyncio.gather(*(one(n) for n in range(count)))
    times = []
    for _unused in range(20):
        began = time.perf_counter()
        await client.call({"name": "check_status", "arguments": {}})
        times.append(time.perf_counter() - began)
    await client.stop()
    return {"the 10 newest jobs (ms; counsel of 10,000, converse of 1,000)": statistics.median(times) * 1000}


class HttpClient:
    """JSON-RPC posts to /mcp, as clients of the 2025 revisions send them."""

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
        own = self.peer.name == "counsel"
        command = (
            [sys.executable, "-m", "counsel", "serve", "--port", str(port)]
            if own
            else [*self.peer.command[:2], "--transport=http"]
        )
        env = {
            **self.peer.env,
            "PORT": str(port),
            "HTTP_PORT": str(port),
            "COUNSEL_TOKEN": "bench-token-0123456789",
        }
        quiet = subprocess.DEVNULL
        self.process = await asyncio.create_subprocess_exec(*command, env=env, stdout=quiet, stderr=quiet)
        if own:
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
            if given := answer.headers.get("mcp-session-id"):
                self.headers["mcp-session-id"] = given
        if body.startswith(("event:", "data:", "id:", ":")):
            lines = [line[5:] for line in body.splitlines() if line.startswith("data:") and '"id"' in line]
            body = lines[-1]
        found = json.loads(body)
        if "error" in found or found["result"].get("isError"):
            raise RuntimeError(f"{self.peer.name}: {body[:300]}")
        return found["result"]

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


async def load_http(peer: Peer, _: str) -> dict[str, float]:
    if peer.name == "counsel":
        stop_daemon(peer)
    found = await under_load(HttpClient(with_delay(peer, "d50")))
    return {f"HTTP: {what}": value for what, value in found.items()}


async def call_http(peer: Peer, _: str) -> dict[str, float]:
    """From spawn to the first answer of `/health`, then single calls on one connection."""
    if peer.name == "counsel":
        stop_daemon(peer)
    client = HttpClient(peer)
    took = await client.start()
    times = []
    for number in range(150):
        began = time.perf_counter()
        await client.call(peer.chat(f"q{number}"))
        times.append(time.perf_counter() - began)
    pids = client.pids()
    before = cpu(pids)
    for number in range(300):
        await client.call(peer.chat(f"r{number}"))
    used = cpu(pids) - before
    await client.stop()
    return {
        "HTTP: spawn → /health (ms)": took * 1000,
        "HTTP: one call, upstream 0 ms (ms)": statistics.median(times[30:]) * 1000,
        "HTTP: CPU of one call after another (ms)": used / 300 * 1000,
    }


def with_delay(peer: Peer, path: str) -> Peer:
    env = {**peer.env, "OPENAI_BASE_URL": peer.env["OPENAI_BASE_URL"].replace("/d0/", f"/{path}/")}
    return Peer(peer.name, peer.command, env, peer.home)


# name → at most this share of converse's number (None: told, not bounded); for rates, at least
TARGETS = {
    "spawn → tools/list, cold (ms)": 0.15,
    "spawn → tools/list, warm (ms)": 0.15,
    "first answer, cold (ms)": 1.0,
    "one call, upstream 0 ms (ms)": 1.0,
    "64 at once, upstream 50 ms (calls/s)": 1.0,
    "CPU per call under load (ms)": 0.7,
    "after 5,000 calls: CPU per call under load (ms)": 0.8,
    "HTTP: spawn → /health (ms)": 0.5,
    "HTTP: one call, upstream 0 ms (ms)": 1.0,
    "HTTP: CPU of one call after another (ms)": 1.0,
    "HTTP: 64 at once, upstream 50 ms (calls/s)": 1.0,
    "HTTP: CPU per call under load (ms)": 0.7,
    "the 10 newest jobs (ms; counsel of 10,000, converse of 1,000)": 0.1,
}
MEASURES: dict[str, tuple[Measure, int]] = {
    "start": (start_cold, 5),
    "warm": (start_warm, 5),
    "call": (one_call, 3),
    "load": (load, 3),
    "steady": (steady, 3),
    "http": (load_http, 3),
    "http-call": (call_http, 3),
    "consensus": (consensus, 1),
    "memory": (memory, 1),
    "jobs": (jobs, 1),
}


async def main(converse: Path, wanted: list[str]) -> None:
    upstream = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs yet
        [sys.executable, str(ROOT / "bench" / "upstream.py")], stdout=subprocess.PIPE, text=True
    )
    assert upstream.stdout
    base = f"http://127.0.0.1:{upstream.stdout.readline().strip()}/d0/v1"
    scratch = Path(tempfile.mkdtemp(prefix="counsel-bench-"))
    common = {
        "PATH": os.environ["PATH"],
        "HOME": str(scratch),
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": base,
        "LOG_LEVEL": "error",  # both are as quiet as they can be
    }
    own = {**common, "COUNSEL_HOME": str(scratch / "counsel")}
    script = converse / "node_modules" / "converse-mcp-server"
    peers = [Peer("counsel", [sys.executable, "-m", "counsel", "stdio"], own, scratch)]
    if script.exists():
        entry = converse / "node_modules" / ".bin" / "converse-mcp-server"
        peers.append(Peer("converse", ["node", str(entry), "--transport=stdio"], common, scratch))
    found: dict[str, dict[str, list[float]]] = {}
    try:
        for name in wanted:
            measure, rounds = MEASURES[name]
            for _ in range(rounds):
                for peer in peers:
                    for what, value in (await measure(peer, name)).items():
                        found.setdefault(what, {}).setdefault(peer.name, []).append(value)
    finally:
        stop_daemon(peers[0])
        upstream.terminate()
        upstream.wait()
        shutil.rmtree(scratch, ignore_errors=True)
    show(found)


def show(found: dict[str, dict[str, list[float]]]) -> None:
    print(f"{'':66}{'counsel':>10}{'converse':>10}{'ratio':>8}  target")
    for what, by_peer in found.items():
        mine = statistics.median(by_peer["counsel"])
        theirs = statistics.median(by_peer["converse"]) if "converse" in by_peer else float("nan")
        target = TARGETS.get(what)
        sign = "≥" if "calls/s" in what else "≤"
        print(
            f"{what:66}{mine:10.2f}{theirs:10.2f}{mine / theirs:8.2f}  {f'{sign} {target}' if target else ''}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--converse", type=Path, default=ROOT / ".cache" / "bench" / "converse")
    parser.add_argument("measures", nargs="*", default=list(MEASURES), help=f"of {', '.join(MEASURES)}")
    given = parser.parse_args()
    asyncio.run(main(given.converse, given.measures))

"""`/v1/chat/completions` against LiteLLM's proxy and against the upstream itself, in one interleaved run.

`python -m bench.v1 [counsel litellm | NAME=FOLDER …]`: NAME=FOLDER is a folder with the package `counsel`, to compare
versions. All servers run at the same time on the same cores, in front of an upstream that answers after 50 ms. They get
batches of calls in turn: 1, 16 and 64 at once, plain and streamed. Numbers are medians of the batches. This process
sends the calls; its CPU is not counted. LiteLLM is installed from PyPI into .cache/litellm at the first run.
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
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.alternate import cpu_ms
from bench.clients import KEY, ROOT, free_port, rss

LITELLM = ROOT / ".cache" / "litellm"
TOKEN = "sk-bench-0123456789abcdef"
DELAY = 0.05  # seconds, of the upstream
AT_ONCE = (1, 16, 64)
BATCH = {1: 20, 16: 160, 64: 320}  # calls


@dataclass
class Server:
    name: str
    command: list[str]
    env: dict[str, str]
    port: int
    prefix: str = ""  # of the path
    health: str = "/health"
    process: subprocess.Popen[bytes] | None = None
    start: list[float] = field(default_factory=list)  # seconds to the first answer: of `health`, of a call

    def request(self, *, stream: bool, text: str = "q") -> bytes:
        body = {"model": "gpt-5", "messages": [{"role": "user", "content": text}], "stream": stream}
        data = json.dumps(body).encode()
        head = (
            f"POST {self.prefix}/v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\n"
            f"authorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        return head.encode() + data


class Caller(asyncio.Protocol):
    """One kept-alive connection with one call at a time."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.done: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    async def call(self, request: bytes) -> bytes:
        self.received.clear()
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.done

    def data_received(self, data: bytes) -> None:
        self.received += data
        head = self.received.find(b"\r\n\r\n")
        if head < 0 or self.done is None or self.done.done():
            return
        at = self.received.lower().find(b"content-length:", 0, head)
        if at >= 0:
            length = int(self.received[at + 15 : self.received.index(b"\r\n", at)])
            is_complete = len(self.received) >= head + 4 + length
        else:
            is_complete = self.received.endswith(b"0\r\n\r\n")
        if is_complete:
            self.done.set_result(bytes(self.received))

    def connection_lost(self, exc: Exception | None) -> None:
        if self.done and not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server closed the connection"))


async def connected(server: Server) -> Caller:
    return (await asyncio.get_running_loop().create_connection(Caller, "127.0.0.1", server.port))[1]


async def checked(server: Server, caller: Caller, request: bytes) -> None:
    answer = await caller.call(request)
    if not answer.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"{server.name}: {answer[:500]!r}")


# ── the servers ──────────────────────────────────────────────────────────────────────────────────────


def install() -> bool:
    if not (LITELLM / "bin" / "litellm").exists():
        print("installing litellm[proxy] into .cache/litellm …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(LITELLM)], check=True)
        pip = [str(LITELLM / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
        if subprocess.run([*pip, "litellm[proxy]"], check=False, stderr=subprocess.DEVNULL).returncode:
            shutil.rmtree(LITELLM)
            print("litellm cannot be installed: only counsel is measured")
            return False
    return True


def make_server(argument: str, upstream: str, scratch: Path) -> Server:
    name, _, source = argument.partition("=")
    home = scratch / name
    home.mkdir()
    port = free_port()
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "OPENAI_API_KEY": KEY}
    if name == "litellm":
        config = home / "config.yaml"
        params = {"model": "openai/gpt-5", "api_base": upstream, "api_key": KEY}
        models = {"model_list": [{"model_name": "gpt-5", "litellm_params": params}]}
        config.write_text(json.dumps(models))
        env |= {"LITELLM_MASTER_KEY": TOKEN, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
        command = [str(LITELLM / "bin" / "litellm"), "--config", str(config), "--port", str(port)]
        command += ["--host", "127.0.0.1", "--telemetry", "False"]
        return Server(name, command, env, port, health="/health/liveliness")
    env |= {"COUNSEL_HOME": str(home / "counsel"), "COUNSEL_TOKEN": TOKEN, "OPENAI_BASE_URL": upstream}
    env |= {"LOG_LEVEL": "error", "PYTHONPATH": str(Path(source or ROOT / "src").absolute())}
    env |= dict.fromkeys(("COUNSEL_MAX_CONCURRENT", "COUNSEL_MAX_CONCURRENT_PER_PROVIDER"), "1000")
    env |= {"COUNSEL_MAX_CONNECTIONS": "4000"}
    return Server(name, [sys.executable, "-m", "counsel", "serve", "--port", str(port)], env, port)


@contextlib.asynccontextmanager
async def running(names: list[str], path: str, prefix: tuple[str, ...] = ()) -> AsyncIterator[list[Server]]:
    """The upstream and the servers in front of it. `prefix` is put before the servers' commands."""
    upstream = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs yet
        [sys.executable, str(ROOT / "bench" / "upstream.py")], stdout=subprocess.PIPE
    )
    assert upstream.stdout
    port = int(upstream.stdout.readline())
    scratch = Path(tempfile.mkdtemp(prefix="counsel-bench-"))
    servers = [Server("upstream", [], {}, port, prefix=f"/{path}", process=upstream)]
    try:
        for name in names:
            server = make_server(name, f"http://127.0.0.1:{port}/{path}/v1", scratch)
            servers.append(server)
            await start(server, prefix, is_called=path.startswith("d"))
        yield servers
    finally:
        for server in servers:
            if server.process is not None:
                server.process.terminate()
                server.process.wait()
        shutil.rmtree(scratch, ignore_errors=True)


async def start(server: Server, prefix: tuple[str, ...], *, is_called: bool) -> None:
    devnull = subprocess.DEVNULL
    began = time.perf_counter()
    server.process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs yet
        [*prefix, *server.command], env=server.env, stdin=devnull, stdout=devnull, stderr=devnull
    )
    probe = f"GET {server.health} HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\n\r\n".encode()
    for request in (probe, server.request(stream=False)) if is_called else (probe,):
        for _ in range(30_000):
            with contextlib.suppress(OSError):
                answer = await (await connected(server)).call(request)
                if answer.startswith(b"HTTP/1.1 200"):
                    server.start.append(time.perf_counter() - began)
                    break
            await asyncio.sleep(0.002)


# ── measuring ────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Batch:
    latencies: list[float]  # seconds
    rate: float  # calls per second
    cpu: float  # ms per call


async def batch(server: Server, at_once: int, count: int, *, stream: bool) -> Batch:
    assert server.process
    callers = [await connected(server) for _ in range(at_once)]
    request, latencies, remaining = server.request(stream=stream), list[float](), count

    async def work(caller: Caller) -> None:
        nonlocal remaining
        while remaining > 0:
            remaining -= 1
            began = time.perf_counter()
            await checked(server, caller, request)
            latencies.append(time.perf_counter() - began)

    before, began = cpu_ms(server.process.pid), time.perf_counter()
    await asyncio.gather(*(work(caller) for caller in callers))
    took, used = time.perf_counter() - began, cpu_ms(server.process.pid) - before
    for caller in callers:
        caller.transport.close()
    return Batch(latencies, count / took, used / count)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(len(values) * share)]


async def main(options: argparse.Namespace) -> None:
    names = options.servers
    if "litellm" in names and not install():
        names.remove("litellm")
    batches: dict[tuple[str, bool, int], list[Batch]] = defaultdict(list)
    async with running(names, f"d{DELAY * 1000:.0f}") as servers:
        for server in servers[1:]:
            await batch(server, 16, options.warm, stream=False)
            await batch(server, 16, options.warm, stream=True)
        for _ in range(options.rounds):
            for stream in (False, True):
                for at_once in options.at_once:
                    for server in servers:
                        result = await batch(server, at_once, BATCH[at_once], stream=stream)
                        batches[server.name, stream, at_once].append(result)
        memory = {server.name: rss(server.process.pid) for server in servers if server.process}
        starts = {server.name: server.start for server in servers[1:]}
    report(batches)
    for name, (health, first) in starts.items():
        print(
            f"{name:10} start: {health * 1000:.0f} ms to its health, {first * 1000:.0f} ms to its first answer;",
            end=" ",
        )
        print(f"{memory[name]:.0f} MiB after all calls")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


def report(batches: dict[tuple[str, bool, int], list[Batch]]) -> None:
    print("                               added p50   p95     calls/s  of upstream's   CPU per call (least)")
    for (name, stream, at_once), samples in batches.items():
        baseline = batches["upstream", stream, at_once]
        # each batch is compared with the upstream's in the same round: the machine was equally busy
        delays = [
            statistics.median(
                percentile(sample.latencies, share) - percentile(base.latencies, 0.5)
                for sample, base in zip(samples, baseline, strict=True)
            )
            for share in (0.5, 0.95)
        ]
        rate = statistics.median(sample.rate for sample in samples)
        share = statistics.median(run.rate / base.rate for run, base in zip(samples, baseline, strict=True))
        cpu = [sample.cpu for sample in samples]
        kind = "streamed" if stream else "plain"
        print(
            f"{name:10} {kind:9} {at_once:3} at once: {delays[0] * 1000:7.1f} ms {delays[1] * 1000:6.1f} ms"
            f" {rate:8.0f} {share:8.2f}      {statistics.median(cpu):8.2f} ms ({min(cpu):.2f})"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers", nargs="*", default=["counsel", "litellm"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=300)
    parser.add_argument("--at-once", type=int, nargs="+", default=AT_ONCE)
    asyncio.run(main(parser.parse_args()))

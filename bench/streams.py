"""Live streams: N answers with 20 deltas a second each, all followed over HTTP: CPU per second, and the delay of deltas.

`python -m bench.streams [--streams 200] [--seconds 5]`. The upstream writes the time into every delta; a follower of
`/api/jobs/ID/events` compares. Upstream and followers are separate processes; only the server's CPU is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.clients import KEY, ROOT, HttpClient, Peer, cpu

RATE = 20  # deltas a second, of each stream
MARK = re.compile(rb"<(\d+\.\d{6})>")


class Follower(asyncio.Protocol):
    """A client that follows a job's events."""

    def __init__(self, request: bytes, delays: list[float]) -> None:
        self.request, self.delays = request, delays
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        data = self.rest + data
        end = data.rfind(b"\n\n") + 1
        whole, self.rest = data[:end], data[end:]
        self.delays += [now - float(at) for at in MARK.findall(whole)]


async def measured(streams: int, seconds: float) -> None:
    descriptors = min(16_384, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    upstream = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs yet
        [sys.executable, str(ROOT / "bench" / "upstream.py")], stdout=subprocess.PIPE, text=True
    )
    assert upstream.stdout
    scratch = Path(tempfile.mkdtemp(prefix="counsel-bench-"))
    base = f"http://127.0.0.1:{upstream.stdout.readline().strip()}/live{RATE}n{RATE * 600}/v1"
    limit = str(10 * streams)
    env = {
        "PATH": os.environ["PATH"], "HOME": str(scratch), "COUNSEL_HOME": str(scratch / "counsel"), "LOG_LEVEL": "error",
        "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": base, "COUNSEL_MAX_CONNECTIONS": limit,
        "COUNSEL_MAX_CONCURRENT": limit, "COUNSEL_MAX_CONCURRENT_PER_PROVIDER": limit,
    }  # fmt: skip
    client = HttpClient(Peer("counsel", [sys.executable, "-m", "counsel", "stdio"], env, scratch))
    try:
        await client.start()
        await followed(client, streams, seconds, upstream.pid)
    finally:
        await client.stop()
        upstream.terminate()
        upstream.wait()
        shutil.rmtree(scratch, ignore_errors=True)


async def followed(client: HttpClient, streams: int, seconds: float, upstream: int) -> None:
    loop, limit = asyncio.get_running_loop(), asyncio.Semaphore(16)
    delays: list[float] = []
    host, port = client.url.removeprefix("http://").removesuffix("/mcp").split(":")

    async def follow(number: int) -> None:
        async with limit:
            call = client.peer.chat(f"stream {number}", **{"async": True})
            job = (await client.call(call))["structuredContent"]["job_id"]
            head = (
                f"GET /api/jobs/{job}/events HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nauthorization: "
            )
            request = f"{head}{client.headers['authorization']}\r\n\r\n".encode()
            await loop.create_connection(lambda: Follower(request, delays), host, int(port))

    await asyncio.gather(*(follow(number) for number in range(streams)))
    await asyncio.sleep(2)  # the start is over
    before, upstream_before, began, received = (
        cpu(client.pids()),
        cpu([upstream]),
        time.monotonic(),
        len(delays),
    )
    await asyncio.sleep(seconds)
    used, took, seen = cpu(client.pids()) - before, time.monotonic() - began, sorted(delays[received:])
    print(f"{streams} streams, {len(seen) / took:.0f} deltas/s seen of {streams * RATE} sent")
    print(
        f"CPU seconds per second of stream: {used / took:.2f} (upstream {(cpu([upstream]) - upstream_before) / took:.2f})"
    )
    per_delta = used / max(1, len(seen))
    print(
        f"CPU per delta: {per_delta * 1e6:.0f} µs; streams per core at {RATE} deltas/s: {1 / per_delta / RATE:.0f}"
    )
    p95 = seen[int(len(seen) * 0.95)]
    print(f"delay of deltas: median {statistics.median(seen) * 1000:.1f} ms, p95 {p95 * 1000:.1f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    asyncio.run(measured(arguments.streams, arguments.seconds))

"""Live streams: N answers of 20 deltas a second each, all followed over HTTP. CPU per second of stream, and the deltas' delay.

`python -m bench.streams [--streams 200] [--seconds 5]`. The upstream writes the time into every delta; a follower of
`/api/jobs/ID/events` compares. Upstream and followers are processes of their own; only the server's CPU is counted.
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

from bench.road import KEY, ROOT, HttpClient, Peer, cpu

RATE = 20  # deltas a second, of each stream
MARK = re.compile(rb"<(\d+\.\d{6})>")


class Follower(asyncio.Protocol):
    """One reader of a job's events."""

    def __init__(self, request: bytes, delays: list[float], ended: asyncio.Future[None]) -> None:
        self.request, self.delays, self.ended = request, delays, ended
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

    def connection_lost(self, _: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def measured(streams: int, seconds: float) -> None:
    room = min(16_384, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (room, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    upstream = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs yet
        [sys.executable, str(ROOT / "bench" / "upstream.py")], stdout=subprocess.PIPE, text=True
    )
    assert upstream.stdout
    scratch = Path(tempfile.mkdtemp(prefix="counsel-bench-"))
    base = f"http://127.0.0.1:{upstream.stdout.readline().strip()}/live{RATE}n{int(RATE * seconds)}/v1"
    many = str(10 * streams)
    env = {
        "PATH": os.environ["PATH"], "HOME": str(scratch), "COUNSEL_HOME": str(scratch / "counsel"), "LOG_LEVEL": "error",
        "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": base, "COUNSEL_MAX_CONNECTIONS": many,
        "COUNSEL_MAX_CONCURRENT": many, "COUNSEL_MAX_CONCURRENT_PER_PROVIDER": many,
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
    loop, delays, ends = asyncio.get_running_loop(), [], []
    host, port = client.url.removeprefix("http://").removesuffix("/mcp").split(":")
    for number in range(streams):
        call = client.peer.chat(f"stream {number}", **{"async": True})
        job = (await client.call(call))["structuredContent"]["job_id"]
        head = f"GET /api/jobs/{job}/events HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nauthorization: "
        request = f"{head}{client.headers['authorization']}\r\n\r\n".encode()
        ends.append(loop.create_future())
        await loop.create_connection(lambda r=request, e=ends[-1]: Follower(r, delays, e), host, int(port))
    await asyncio.sleep(seconds / 10)  # what starting took is over
    before, began, heard = cpu(client.pids()), time.monotonic(), len(delays)
    theirs = cpu([upstream])
    await asyncio.sleep(seconds / 2)
    used, took, seen = cpu(client.pids()) - before, time.monotonic() - began, sorted(delays[heard:])
    rate = len(seen) / took
    print(f"{streams} streams, {rate:.0f} deltas/s seen of {streams * RATE} sent")
    print(
        f"CPU seconds per second of stream: {used / took:.2f} (upstream {(cpu([upstream]) - theirs) / took:.2f})"
    )
    print(
        f"CPU per delta: {used / max(1, len(seen)) * 1e6:.0f} µs; streams per core at this rate: {streams * took / used:.0f}"
    )
    p95 = seen[int(len(seen) * 0.95)] if seen else float("nan")
    print(f"delay of deltas: median {statistics.median(seen) * 1000:.1f} ms, p95 {p95 * 1000:.1f} ms")
    await asyncio.wait_for(asyncio.gather(*ends), 120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    asyncio.run(measured(given.streams, given.seconds))

"""CPU per delta and the delay of deltas, in N live answers of 20 deltas a second, read over HTTP.

`python -m bench.streams [--interface v1|api|litellm|NAME=FOLDER] [--streams 200] [--seconds 10]`. `v1` streams
`/v1/chat/completions`, `api` follows background jobs at `/api/jobs/ID/events`, `litellm` is LiteLLM's proxy. The
upstream writes the time into every delta; the reader subtracts it from its own. The server runs on one core, upstream
and readers on the other; only the server's CPU is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import statistics
import time
from collections.abc import Callable

from bench.alternate import cpu_ms
from bench.v1 import TOKEN, Caller, Server, connected, install, running

RATE = 20  # deltas a second, of each stream
MARK = re.compile(rb"<(\d+\.\d{6})>")
LENGTH = 600  # seconds of a stream: longer than a run


class Reader(asyncio.Protocol):
    """A client that reads one stream."""

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
        events, self.rest = data[:end], data[end:]
        self.delays += [now - float(at) for at in MARK.findall(events)]


async def background_job(server: Server, number: int) -> bytes:
    """The request for the events of a new job."""
    body = json.dumps({"prompt": f"stream {number}", "model": "gpt-5", "mode": "background"}).encode()
    head = f"host: 127.0.0.1\r\nauthorization: Bearer {TOKEN}\r\n"
    caller: Caller = await connected(server)
    request = f"POST /api/jobs HTTP/1.1\r\n{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    answer = await caller.call(request.encode() + body)
    caller.transport.close()
    job = json.loads(answer.partition(b"\r\n\r\n")[2])["job_id"]
    return f"GET /api/jobs/{job}/events HTTP/1.1\r\n{head}\r\n".encode()


async def read(server: Server, options: argparse.Namespace) -> None:
    assert server.process
    loop, limit = asyncio.get_running_loop(), asyncio.Semaphore(16)
    delays: list[float] = []

    async def follow(number: int) -> None:
        async with limit:
            if options.interface == "api":
                request = await background_job(server, number)
            else:
                request = server.request(stream=True, text=f"stream {number}")
            make: Callable[[], Reader] = lambda: Reader(request, delays)  # noqa: E731 - for the type
            await loop.create_connection(make, "127.0.0.1", server.port)

    await asyncio.gather(*(follow(number) for number in range(options.streams)))
    await asyncio.sleep(3)  # the start is over
    before, readers_cpu, began, count = (
        cpu_ms(server.process.pid),
        time.process_time(),
        time.monotonic(),
        len(delays),
    )
    await asyncio.sleep(options.seconds)
    used, took = cpu_ms(server.process.pid) - before, time.monotonic() - began
    measurements = sorted(delays[count:])
    print(
        f"{options.interface}: {options.streams} streams, {len(measurements) / took:.0f} deltas/s of {options.streams * RATE} sent"
    )
    per_delta = used / max(1, len(measurements)) / 1000
    print(
        f"CPU: {used / took / 10:.0f} % of a core (readers {(time.process_time() - readers_cpu) / took * 100:.0f} %),",
        end=" ",
    )
    print(f"{per_delta * 1e6:.0f} µs per delta: {1 / per_delta / RATE:.0f} streams per core")
    p95 = measurements[int(len(measurements) * 0.95)]
    print(
        f"delay of deltas: median {statistics.median(measurements) * 1000:.1f} ms, p95 {p95 * 1000:.1f} ms;",
        end=" ",
    )
    print(f"load of the machine {os.getloadavg()[0]:.1f}")


async def main(options: argparse.Namespace) -> None:
    descriptors = min(16_384, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    name = "counsel" if options.interface in {"v1", "api"} else options.interface
    if name == "litellm" and not install():
        return
    server_core, *reader_cores = sorted(os.sched_getaffinity(0))
    if reader_cores:
        os.sched_setaffinity(0, reader_cores)
    prefix = ("taskset", "-c", str(server_core))
    async with running([name], f"live{RATE}n{RATE * LENGTH}", prefix) as (_, server):
        await read(server, options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interface", default="v1")
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    asyncio.run(main(parser.parse_args()))

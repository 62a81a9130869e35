"""counsel against converse-mcp-server: start, one call, load, consensus, jobs and memory, as ratios in one run.

`python -m bench.converse [--converse FOLDER] [--before SOURCE] [MEASURE …]`: FOLDER has
`node_modules/converse-mcp-server` (default .cache/bench/converse, where `make bench` installs it), SOURCE the package
`counsel` of another commit, which is measured in the same run. Each number is the median of interleaved rounds. The
machine should be idle.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bench.clients import KEY, ROOT, Client, HttpClient, Peer, cpu, daemon_pid, rss, stop_daemon

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
    """`load` after 5,000 calls: Node has then compiled the hot code and needs half the CPU."""
    results = await under_load(Client(with_delay(peer, "d50")), before=5_000, count=4_000)
    return {f"after 5,000 calls: {name}": value for name, value in results.items()}


async def under_load(client: Client | HttpClient, before: int = 200, count: int = 1_000) -> dict[str, float]:
    await client.start()
    await client.call(client.peer.chat("warm"))
    pids = client.pids()
    limit = asyncio.Semaphore(64)

    async def call(number: int) -> None:
        async with limit:
            await client.call(client.peer.chat(f"q{number}"))

    await asyncio.gather(*(call(n) for n in range(before)))
    cpu_before, began = cpu(pids), time.perf_counter()
    await asyncio.gather(*(call(n) for n in range(count)))
    took, used = time.perf_counter() - began, cpu(pids) - cpu_before
    await client.stop()
    return {
        "64 at once, upstream 50 ms (calls/s)": count / took,
        "CPU per call under load (ms)": used * 1000 / count,
    }


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
    growth = rss(big_server) - before
    front = rss(big.process.pid) if peer.is_counsel else float("nan")
    await big.stop()
    return {
        "RSS of the server after a call (MiB)": start,
        "RSS added by a consensus of three 2 MB answers (MiB)": growth,
        "RSS of one client's front (MiB)": front,
    }


async def jobs(peer: Peer, _: str) -> dict[str, float]:
    """Time to list the 10 newest of 10,000 (counsel) or 1,000 (converse) jobs."""
    count = 10_000 if peer.is_counsel else 1_000
    client = Client(peer)
    await client.start()
    limit = asyncio.Semaphore(64)

    async def submit(number: int) -> None:
        async with limit:
            await client.call(peer.chat(f"q{number}", **{"async": True}))

    await asyncio.gather(*(submit(n) for n in range(count)))
    times = []
    for _unused in range(20):
        began = time.perf_counter()
        await client.call({"name": "check_status", "arguments": {}})
        times.append(time.perf_counter() - began)
    await client.stop()
    return {"the 10 newest jobs (ms; counsel of 10,000, converse of 1,000)": statistics.median(times) * 1000}


async def load_http(peer: Peer, _: str) -> dict[str, float]:
    if peer.is_counsel:
        stop_daemon(peer)
    results = await under_load(HttpClient(with_delay(peer, "d50")))
    return {f"HTTP: {name}": value for name, value in results.items()}


async def call_http(peer: Peer, _: str) -> dict[str, float]:
    """From spawn to the first answer of `/health`, then single calls on one connection."""
    if peer.is_counsel:
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


def measured(converse: Path, before: Path | None, env: dict[str, str], scratch: Path) -> Iterator[Peer]:
    command = [sys.executable, "-m", "counsel", "stdio"]
    yield Peer("counsel", command, {**env, "COUNSEL_HOME": str(scratch / "counsel")}, scratch)
    if before is not None:
        source = {"PYTHONPATH": str(before.absolute()), "COUNSEL_HOME": str(scratch / "before")}
        yield Peer("before", command, env | source, scratch)
    folder = converse / "node_modules"
    if (folder / "converse-mcp-server").exists():
        entry = folder / ".bin" / "converse-mcp-server"
        yield Peer("converse", ["node", str(entry), "--transport=stdio"], env, scratch)


def with_delay(peer: Peer, path: str) -> Peer:
    env = {**peer.env, "OPENAI_BASE_URL": peer.env["OPENAI_BASE_URL"].replace("/d0/", f"/{path}/")}
    return Peer(peer.name, peer.command, env, peer.home)


# name → the largest ratio to converse's number; for rates, the smallest
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


async def main(converse: Path, before: Path | None, measures: list[str]) -> None:
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
        "LOG_LEVEL": "error",  # both log as little as possible
    }
    peers = list(measured(converse, before, common, scratch))
    results: dict[str, dict[str, list[float]]] = {}
    try:
        for name in measures:
            measure, rounds = MEASURES[name]
            for _ in range(rounds):
                for peer in peers:
                    for label, value in (await measure(peer, name)).items():
                        results.setdefault(label, {}).setdefault(peer.name, []).append(value)
    finally:
        for peer in peers:
            stop_daemon(peer)
        upstream.terminate()
        upstream.wait()
        shutil.rmtree(scratch, ignore_errors=True)
    show(results)


def show(results: dict[str, dict[str, list[float]]]) -> None:
    others = [name for name in ("converse", "before") if any(name in by_peer for by_peer in results.values())]
    heads = "".join(f"{name:>10}   ratio" for name in others)
    print(f"{'':66}{'counsel':>10}{heads}  target")
    for label, by_peer in results.items():
        medians = {name: statistics.median(values) for name, values in by_peer.items()}
        columns = "".join(
            f"{medians[name]:10.2f}{medians['counsel'] / medians[name]:8.2f}" for name in others
        )
        target = TARGETS.get(label)
        sign = "≥" if "calls/s" in label else "≤"
        print(f"{label:66}{medians['counsel']:10.2f}{columns}  {f'{sign} {target}' if target else ''}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--converse", type=Path, default=ROOT / ".cache" / "bench" / "converse")
    parser.add_argument("--before", type=Path)
    parser.add_argument("measures", nargs="*", default=list(MEASURES), help=f"one of {', '.join(MEASURES)}")
    arguments = parser.parse_args()
    asyncio.run(main(arguments.converse, arguments.before, arguments.measures))

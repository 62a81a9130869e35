"""CPU per call over stdio of several versions, in alternating batches: the only fair comparison on a busy machine.

`python -m bench.alternate now=src before=/other/checkout/src converse`: each NAME=FOLDER is a folder with the package
`counsel` (NAME=FOLDER@PYTHON runs it with another interpreter), `converse` is the peer that `make bench` installs. All
run at the same time and are warmed up; then they get batches of calls in turn. The cheapest batch is the cost of the
work without disturbance.
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
from pathlib import Path

from bench.clients import KEY, ROOT, Client, Peer, daemon_pid, stop_daemon

CONVERSE = ROOT / ".cache" / "bench" / "converse" / "node_modules" / ".bin" / "converse-mcp-server"
SETTLE = 0.5  # seconds that count, too: a batch's last writes and garbage come after its last answer


def cpu_ms(pid: int | None) -> float:
    """The process's CPU time from its own clock, with the kernel's precision, including threads that have ended."""
    return time.clock_gettime((~pid << 3) | 2) * 1000 if pid else 0.0


def peer(name: str, source: str, base: str, home: Path) -> Peer:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": base}
    env["LOG_LEVEL"] = "error"
    if name == "converse":
        return Peer(name, ["node", str(CONVERSE), "--transport=stdio"], env, home)
    folder, _, python = source.partition("@")
    env |= {"PYTHONPATH": str(Path(folder).absolute()), "COUNSEL_HOME": str(home / "counsel")}
    return Peer(name, [python or sys.executable, "-m", "counsel", "stdio"], env, home)


async def calls(client: Client, count: int, at_once: int) -> None:
    slots = asyncio.Semaphore(at_once)

    async def call(number: int) -> None:
        async with slots:
            await client.call(client.peer.chat(f"q{number}"))

    await asyncio.gather(*(call(number) for number in range(count)))


async def main(options: argparse.Namespace) -> None:
    upstream = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs yet
        [sys.executable, str(ROOT / "bench" / "upstream.py")], stdout=subprocess.PIPE, text=True
    )
    assert upstream.stdout
    base = f"http://127.0.0.1:{upstream.stdout.readline().strip()}/d50/v1"
    scratch = Path(tempfile.mkdtemp(prefix="counsel-bench-"))
    clients: dict[str, Client] = {}
    costs: dict[str, list[float]] = {}
    try:
        for argument in options.peers:
            name, _, source = argument.partition("=")
            home = scratch / name
            home.mkdir()
            client = clients[name] = Client(peer(name, source, base, home))
            await client.start()
            await calls(client, options.warm, options.at_once)
        pids = {name: [client.process.pid, daemon_pid(client.peer)] for name, client in clients.items()}
        for _ in range(options.rounds):
            for name, client in clients.items():
                before = sum(map(cpu_ms, pids[name]))
                await calls(client, options.batch, options.at_once)
                await asyncio.sleep(SETTLE)
                costs.setdefault(name, []).append((sum(map(cpu_ms, pids[name])) - before) / options.batch)
    finally:
        for client in clients.values():
            await client.stop()
            stop_daemon(client.peer)
        upstream.terminate()
        upstream.wait()
        shutil.rmtree(scratch, ignore_errors=True)
    last = list(costs.values())[-1]
    for name, samples in costs.items():
        rows = (
            ("median", statistics.median(samples), statistics.median(last)),
            ("mean", statistics.fmean(samples), statistics.fmean(last)),
            ("least", min(samples), min(last)),
        )
        texts = (f"{label} {own:.3f} ms ({own / other:.2f} of the last)" for label, own, other in rows)
        print(f"{name:12} CPU per call: {', '.join(texts)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers", nargs="+")
    parser.add_argument("--warm", type=int, default=5_000)
    parser.add_argument("--batch", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--at-once", type=int, default=64)
    asyncio.run(main(parser.parse_args()))

"""Spawn → `tools/list` of `counsel stdio`, without and with a running daemon, and the memory of both processes.

Runs by itself (`python bench/start.py`) or in `python -m bench`.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 15
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
CALL = {
    "jsonrpc": "2.0",
    "id": 3,
    "method": "tools/call",
    "params": {"name": "check_status", "arguments": {}},
}


class Server:
    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=env)

    def ask(self, message: object) -> object:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def listed(command: list[str], env: dict[str, str]) -> tuple[float, Server]:
    began = time.perf_counter()
    server = Server(command, env)
    server.ask(HELLO)
    server.ask(LIST)
    return (time.perf_counter() - began) * 1000, server


def rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def daemon_pid(home: str) -> int:
    return int(json.loads(Path(home, "run", "daemon.lock").read_text())["pid"])


def measure(command: list[str] | None = None) -> dict[str, float]:
    command = command or [sys.executable, "-m", "counsel", "stdio"]
    bare = [timed([sys.executable, "-c", ""]) for _ in range(RUNS)]
    cold, first, warm, fronts, daemons = [], [], [], [], []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as home:
            env = {**os.environ, "COUNSEL_HOME": home}
            began = time.perf_counter()
            took, server = listed(command, env)
            cold.append(took)
            server.ask(CALL)
            first.append((time.perf_counter() - began) * 1000)
            fronts.append(rss_mib(server.process.pid))
            daemons.append(rss_mib(daemon_pid(home)))
            took, second = listed(command, env)
            warm.append(took)
            second.end()
            server.end()
            os.kill(daemon_pid(home), signal.SIGKILL)
    return {
        "bare python, ms": statistics.median(bare),
        "cold: spawn to tools/list, ms": statistics.median(cold),
        "warm: spawn to tools/list, ms": statistics.median(warm),
        "cold: spawn to the first answer of the daemon, ms": statistics.median(first),
        "front, MiB": statistics.median(fronts),
        "daemon, MiB": statistics.median(daemons),
    }


def timed(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:55} {value:8.1f}")

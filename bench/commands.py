"""CPU of commands that start nothing, in ms and as a multiple of Python's bare start; at most 150 ms (10 starts) each.

Run it with `python -m bench.commands`; it uses your own home. The machine should be idle.
"""

from __future__ import annotations

import os
import subprocess
import sys

RUNS = 12
COMMANDS = (
    "--version",
    "--help",
    "agents",
    "completion bash",
    "config list",
    "conversations",
    "doctor",
    "keys list",
    "models",
    "servers",
    "skills",
    "usage",
)


def cpu(*command: str) -> float:
    """CPU in milliseconds, including that of processes that the command waited for."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (used.ru_utime + used.ru_stime) * 1000


def main() -> None:
    bare = min(cpu(sys.executable, "-P", "-c", "") for _ in range(RUNS))
    print(f"{'bare start of Python':30} {bare:6.0f} ms")
    for arguments in COMMANDS:
        command = (sys.executable, "-P", "-m", "counsel", *arguments.split())
        lowest = min(cpu(*command) for _ in range(RUNS))
        print(f"{'counsel ' + arguments:30} {lowest:6.0f} ms {lowest / bare:6.1f}")


if __name__ == "__main__":
    main()

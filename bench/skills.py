"""The time of `counsel skills list` with 1,000 skills, start-up included, compared with an empty Python program.

python -m bench.skills [COUNT]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 7
TEXT = """---
name: skill-{number}
description: Number {number} of many. Use when a list must be long: it is.
allowed-tools: Bash(git:*), Read
metadata:
  version: "1.0"
---
# Skill {number}

{body}
"""


def build(home: Path, count: int) -> None:
    """Write half of the skills to Claude's folder (which Cursor reads, too), half to the folder that the others
    share."""
    for number in range(count):
        folder = home / (".claude" if number % 2 else ".agents") / "skills" / f"skill-{number}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(TEXT.format(number=number, body="Some advice.\n" * 100))


def median(command: list[str], home: Path) -> float:
    env = {**os.environ, "HOME": str(home), "COUNSEL_HOME": str(home / "counsel")}
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run(command, env=env, cwd=home / "work", stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main(count: int = 1_000) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "work" / ".git").mkdir(parents=True)
        build(home, count)
        floor = median([sys.executable, "-c", "pass"], home)
        bare = median([sys.executable, "-m", "counsel", "--version"], home)
        listing = median([sys.executable, "-m", "counsel", "skills", "list", "--json"], home)
    print(f"python {floor:.3f} s, counsel --version {bare:.3f} s, {count:,} skills listed {listing:.3f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))

"""The whole test suite, as `make test` runs it: in two workers, then a few failed tests once more, alone.

Hundreds of tests drive real daemons, agents and browsers at the same time on two cores, where a vendor's program may
take longer than a test waits. A few failed tests therefore get a second run without others beside them. They are named
at the end, so that they can be fixed. A test that fails twice fails the suite, and so do many failures.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST = 5  # failures; with more, something is broken: no second run
COVERAGE = ["--cov", "--cov-report="]


def pytest(*options: str, folder: Path) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *options], cwd=folder, check=False).returncode


def failures(cache: Path) -> list[str]:
    """Return the tests that failed in the last run, by pytest's own record."""
    try:
        return list(json.loads(cache.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return []


def run(parallel: list[str], extra: list[str], folder: Path = ROOT) -> int:
    cache = folder / ".pytest_cache/v/cache/lastfailed"
    cache.unlink(missing_ok=True)
    code = pytest(*parallel, *extra, folder=folder)
    names = failures(cache)
    if code != 1 or not 0 < len(names) <= MOST:
        return code
    print(f"\nFailed beside other tests, run again alone: {', '.join(names)}\n", flush=True)
    append = ["--cov-append"] if "--cov" in extra else []
    code = pytest("--last-failed", "--last-failed-no-failures=none", *extra, *append, folder=folder)
    if code == 0:
        print(f"\nUnstable: {', '.join(names)} failed beside other tests and passed alone.", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(run(["-n", "2", "--dist", "loadgroup"], COVERAGE))

"""The whole test suite, as `make test` runs it: in two workers, then a few failed tests once more, alone.

Hundreds of tests drive real daemons, agents and browsers at the same time on two cores, where a vendor's program may
take longer than a test waits. A few failed tests therefore get a second run without others beside them. They are named
at the end, so that they can be fixed. A test that fails twice fails the suite, and so do many failures.

Where a program that tests drive is missing, they are skipped (in CI they fail), and the coverage has no floor.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST = 5  # failures; with more, something is broken: no second run
COVERAGE = ["--cov", "--cov-report="]
# what tests drive → names of its program, and where else it may be
PROGRAMS = {
    "Node.js and npm": (("npm",), ()),
    "PostgreSQL": (("initdb",), tuple(Path("/usr/lib/postgresql").glob("*/bin/initdb"))),
    "Chromium": (("chromium", "google-chrome"), ()),
}


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


def absent() -> list[str]:
    """Name what is not on this machine."""
    return [
        name
        for name, (programs, files) in PROGRAMS.items()
        if not (any(map(shutil.which, programs)) or any(files))
    ]


def main() -> int:
    names = absent()
    without_floor = bool(names) and not os.environ.get("CI")
    code = run(
        ["-n", "2", "--dist", "loadgroup"], [*COVERAGE, *(["--cov-fail-under=0"] if without_floor else [])]
    )
    if names:
        print(f"\nNot installed, so their tests were skipped: {', '.join(names)}.", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())

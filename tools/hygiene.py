"""Checks files before a commit: `python -m tools.hygiene FILE …`.

Prints problems; the exit code is 1 if there are any.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

LARGE = 500_000  # bytes
MARKER = re.compile(rb"^(<{7}|>{7}) ", re.MULTILINE)
PRIVATE_KEY = re.compile(rb"^-----BEGIN [A-Z ]*PRIVATE KEY-----\s*$", re.MULTILINE)
TRAILING = re.compile(rb"[ \t]+$", re.MULTILINE)


def problems(data: bytes) -> Iterator[str]:
    if len(data) > LARGE:
        yield f"has {len(data):,} bytes; the repository takes at most {LARGE:,}"
    if b"\0" in data:
        return  # not text
    if MARKER.search(data):
        yield "has conflict markers"
    if PRIVATE_KEY.search(data):
        yield "has a private key"
    if b"\r\n" in data:
        yield "has Windows line ends"
    if TRAILING.search(data):
        yield "has a line that ends with spaces"
    if data and not data.endswith(b"\n"):
        yield "does not end with a newline"


def main() -> int:
    findings = [(name, problem) for name in sys.argv[1:] for problem in problems(Path(name).read_bytes())]
    for name, problem in findings:
        print(f"{name} {problem}.")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

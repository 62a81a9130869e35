"""Full texts that were written to files for clients with small limits go when their jobs go."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection
from pathlib import Path

_FRESH = 3600.0  # seconds: a text whose job could not be kept is still there to be read


def sweep(folder: Path, jobs: Collection[str]) -> None:
    for path in folder.glob("*.txt"):
        with contextlib.suppress(OSError):
            if path.stem not in jobs and time.time() - path.stat().st_mtime > _FRESH:
                path.unlink()

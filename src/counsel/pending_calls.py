"""Notes of fronts that cannot reach a daemon, while their clients wait or have been told that the job continues.

A note is an empty file `run/kept/JOB`. It makes the engine that finds the interrupted job continue it like a background
job, instead of giving it up because its client did not return. Standard library only: the stdio front imports this.
"""

from __future__ import annotations

import os
import re

from counsel.random_ids import CLOCK

# Keys from `random_ids.key` begin with a clock and a dot; earlier releases' keys have no dot.
_has_clock = re.compile(r"[0-9a-f]{4}\.").match
STALE = 7 * 86_400  # seconds; nothing else removes the note of a job that was never stored


def job_id(key: str) -> str:
    """The id of the job for a call's key. It starts with the key's clock if `random_ids` made the key."""
    from hashlib import sha256

    digits = sha256(key.encode()).hexdigest()
    version, clock = ("8", key[:CLOCK]) if _has_clock(key) else ("4", digits[:CLOCK])
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"job_{clock}{digits[4:8]}-{digits[8:12]}-{version}{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def note(home: str, job: str) -> bool:
    """Write a note about this job; False if that is impossible."""
    from counsel import paths

    try:
        paths.private_folder(f"{home}/run/kept")
        os.close(os.open(f"{home}/run/kept/{job}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True


def take(home: str | os.PathLike[str], job: str) -> bool:
    """Remove the note about this job; False if there is none."""
    try:
        os.unlink(f"{os.fspath(home)}/run/kept/{job}")
    except OSError:
        return False
    return True


def sweep(home: str | os.PathLike[str]) -> None:
    import time

    folder = f"{os.fspath(home)}/run/kept"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        try:
            if time.time() - os.stat(f"{folder}/{name}").st_mtime > STALE:
                os.unlink(f"{folder}/{name}")
        except OSError:
            continue

"""Notes of fronts that cannot reach a daemon: their clients wait, or were promised that the job continues.

A note is an empty file `run/kept/JOB`. The engine that finds the interrupted job then continues it like a background
job, instead of giving it up because its client did not return. Standard library only: the stdio front imports this.
"""

from __future__ import annotations

import os

STALE = 7 * 86_400  # seconds: the note of a job that was never stored is not removed otherwise


def job_id(key: str) -> str:
    """The job of the call that was sent under this key."""
    from hashlib import sha256

    digest = bytearray(sha256(key.encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x40  # a version 4 UUID
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return f"job_{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def note(home: str, job: str) -> bool:
    """Write a note about this job. False when that is impossible."""
    from counsel import paths

    try:
        paths.private_folder(f"{home}/run/kept")
        os.close(os.open(f"{home}/run/kept/{job}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True


def take(home: str | os.PathLike[str], job: str) -> bool:
    """Remove the note about this job. False when there is none."""
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

"""Notes of fronts that cannot reach a daemon: these calls' clients wait, or were promised that the job goes on.

A note is an empty file `run/kept/JOB`. The engine that finds the interrupted job then goes on with it, as with a
background job, instead of giving it up because its client did not come back. Standard library only: the stdio front uses this.
"""

from __future__ import annotations

import os

STALE = 7 * 86_400  # seconds: a job that was never written down has no other end


def job_id(key: str) -> str:
    """The job of the call that was sent under this key."""
    from hashlib import sha256

    digest = bytearray(sha256(key.encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x40  # a version 4 UUID
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return f"job_{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def note(home: str, job: str) -> bool:
    """False when nothing can be written there."""
    from counsel import paths

    try:
        paths.private_folder(f"{home}/run/kept")
        os.close(os.open(f"{home}/run/kept/{job}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True


def take(home: str | os.PathLike[str], job: str) -> bool:
    """Whether there was a note about this job; it is removed."""
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

"""Proof of life: a process that owns jobs holds a flock on a file of its name.

The kernel lets go of it when the process dies, and only then: a suspended laptop keeps its jobs, which a lease by
time would hand to someone else.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from pathlib import Path

from counsel import private


class Ownership:
    def __init__(self, folder: Path) -> None:
        self.name = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._folder = folder
        self._held: int | None = None
        with contextlib.suppress(OSError):  # a read-only home: nobody can share the database either
            private.folder(folder)
            self._held = os.open(folder / self.name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def alive(self, owner: str) -> bool:
        if owner == self.name:
            return True
        try:
            probe = os.open(self._folder / owner, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            with contextlib.suppress(OSError):
                (self._folder / owner).unlink()
            return False
        finally:
            os.close(probe)

    def release(self) -> None:
        with contextlib.suppress(OSError):
            (self._folder / self.name).unlink()
        if self._held is not None:
            os.close(self._held)
            self._held = None

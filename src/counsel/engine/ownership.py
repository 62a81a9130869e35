"""Proof of life: a process that owns jobs holds a flock on a file of its name.

The kernel lets go of it when the process dies, and only then: a suspended laptop keeps its jobs, which a lease by
time would hand to someone else. An owner is dead when its lock is free, never because it could not be looked at.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from pathlib import Path

from counsel import locks, private

NOBODY = ""  # the owner of a job that its process has handed over
MISSING = 8.0  # seconds that a living process has to make its deleted file again (it looks every two)


class Ownership:
    def __init__(self, folder: Path) -> None:
        self.name = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._folder = folder
        self._held: int | None = None
        self._missing: dict[str, float] = {}  # owners whose file is gone, and since when
        self._hold()

    def _hold(self) -> None:
        with contextlib.suppress(OSError):  # a read-only home: nobody can share the database either
            private.folder(self._folder)
            self._held = locks.take(self._folder / self.name)

    def renew(self) -> None:
        """Make our file again if somebody deleted it."""
        with contextlib.suppress(OSError):
            if self._held is not None and not locks.is_at(self._held, self._folder / self.name):
                os.close(self._held)
                self._held = None
                self._hold()

    def alive(self, owner: str) -> bool:
        if owner in {self.name, NOBODY}:
            return owner == self.name
        try:
            probe = os.open(self._folder / owner, os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return self._may_live(owner)
        except OSError:  # no more open files, no permission: that says nothing about the owner
            return True
        self._missing.pop(owner, None)
        try:
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        else:
            with contextlib.suppress(OSError):
                (self._folder / owner).unlink()
            return False
        finally:
            os.close(probe)

    def _may_live(self, owner: str) -> bool:
        """Its file is gone. A process with that id may have lost the file (`rm -r run`), or be another one by now."""
        pid = owner.partition("-")[0]
        if not pid.isdigit() or not _runs(int(pid)):
            return False
        now = time.monotonic()
        return now - self._missing.setdefault(owner, now) < MISSING

    def release(self) -> None:
        if self._held is not None:
            with contextlib.suppress(OSError):
                if locks.is_at(self._held, self._folder / self.name):
                    (self._folder / self.name).unlink()
            os.close(self._held)
            self._held = None


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True

"""Proof of life: a process that owns jobs holds a flock on a file of its name.

The kernel lets go of it when the process dies, and only then: a suspended laptop keeps its jobs, which a lease by
time would hand to someone else. An owner is dead only when that is proven: its lock could be taken, or its file is
gone and so is its process. Failing to look (no descriptors, no permission, a broken disk) proves nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Literal, TypeAlias

from counsel import locks, paths
from counsel.engine.jobs import process_identity

Life: TypeAlias = Literal["alive", "dead", "unknown"]
NO_OWNER = ""  # owns the jobs that an engine released
_HERE: set[str] = set()  # owners in this process
AGAIN = 5  # looks, a second: a file that is made again in the middle of `rm -r` makes that fail
_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class Ownership:
    def __init__(self, folder: Path) -> None:
        self.name = f"{process_identity.this().name()}-{secrets.token_hex(6)}"
        self._folder = folder
        self._lock: int | None = None
        self._failed_looks = 0  # looks in a row that did not find our file
        _HERE.add(self.name)
        self.hold()

    def hold(self) -> None:
        """Have our file, locked; create it again if it was removed.

        Where it cannot be made (a read-only home, no descriptor left), our process itself is the proof for others.
        """
        if self._lock is not None and self._in_place(self._lock):
            self._failed_looks = 0
            return
        self._failed_looks += 1
        if self._lock is not None and self._failed_looks < AGAIN:
            return
        with contextlib.suppress(OSError):
            fresh = self._make()
            if self._lock is not None:
                os.close(self._lock)
            self._lock = fresh

    def _in_place(self, lock: int) -> bool:
        try:
            return locks.is_at(lock, self._folder / self.name)
        except OSError:  # it cannot be looked at now: nor could it be made
            return True

    def _make(self) -> int:
        """Locked before it has its name, so that it is never seen unlocked while we run."""
        paths.private_folder(self._folder)
        fresh = self._folder / f".{self.name}"
        lock = os.open(fresh, _OPEN | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fresh.replace(self._folder / self.name)
        except BaseException:
            os.close(lock)
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise
        return lock

    # ── others ───────────────────────────────────────────────────────────────────────────────────────

    def state(self, owner: str) -> Life:
        return state(self._folder, owner)

    def dead(self, owner: str) -> bool:
        return self.state(owner) == "dead"

    def tidy(self, needed: Collection[str]) -> None:
        """Remove the files of owners that are dead and own nothing any more."""
        with contextlib.suppress(OSError):
            for entry in list(self._folder.iterdir()):
                owner = entry.name.removeprefix(".")
                if owner not in needed and self.dead(owner):
                    with contextlib.suppress(OSError):
                        entry.unlink()

    def release(self) -> None:
        """We own nothing any more. The file goes, unless it is no longer ours."""
        _HERE.discard(self.name)
        if self._lock is not None:
            if self._in_place(self._lock):
                with contextlib.suppress(OSError):
                    (self._folder / self.name).unlink()
            os.close(self._lock)
            self._lock = None


def state(folder: Path, owner: str) -> Life:
    """Whether an owner's process lives, by its file in this folder."""
    if owner == NO_OWNER:
        return "dead"
    if owner in _HERE:
        return "alive"
    process = process_identity.parse(owner.rpartition("-")[0])
    if process == process_identity.this():
        return "dead"  # an engine in this process that was closed
    runs = process.runs() if process else None
    free = is_free(folder / owner)
    if free is None:
        return "unknown" if runs is None else "alive" if runs else "dead"
    # A free lock beside its living process is not the file that it holds: a copy, or put back from a backup.
    return "dead" if free and not runs else "alive"


def is_free(file: Path) -> bool | None:
    """Whether an owner's lock could be taken; None where that could not be tried."""
    try:
        probe = os.open(file, _OPEN)
    except OSError:
        return None
    try:
        fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    else:
        return True
    finally:
        os.close(probe)

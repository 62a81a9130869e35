"""Shows which processes are alive: one that owns jobs holds a flock on a file of its name.

The kernel releases it when the process dies, and only then: a suspended laptop keeps its jobs, which a lease by
time would give to another process. An owner is dead only when that is proven: its lock could be taken, or its file is
gone and so is its process. A failed check (no descriptors, no permission, a broken disk) proves nothing.
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
_LOCAL_OWNERS: set[str] = set()  # owners in this process
TRIES = 5  # checks, so one second: recreating the file in the middle of an `rm -r` would make that fail
_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class Ownership:
    def __init__(self, folder: Path) -> None:
        self.name = f"{process_identity.current().name()}-{secrets.token_hex(6)}"
        self._folder = folder
        self._lock: int | None = None
        self._failed_checks = 0  # consecutive checks that did not find our file
        _LOCAL_OWNERS.add(self.name)
        self.hold()

    def hold(self) -> None:
        """Keep our file locked; create it again if it was removed.

        If it cannot be created (a read-only home, no descriptor left), our process itself is the proof for others.
        """
        if self._lock is not None and self._is_in_place(self._lock):
            self._failed_checks = 0
            return
        self._failed_checks += 1
        if self._lock is not None and self._failed_checks < TRIES:
            return
        with contextlib.suppress(OSError):
            lock = self._create_locked()
            if self._lock is not None:
                os.close(self._lock)
            self._lock = lock

    def _is_in_place(self, lock: int) -> bool:
        try:
            return locks.is_at(lock, self._folder / self.name)
        except OSError:  # it cannot be checked now, so it could not be created either
            return True

    def _create_locked(self) -> int:
        """Create our file. It is locked before it has its name, so that nobody sees it unlocked while we run."""
        paths.private_folder(self._folder)
        draft = self._folder / f".{self.name}"
        lock = os.open(draft, _OPEN | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.replace(self._folder / self.name)
        except BaseException:
            os.close(lock)
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        return lock

    # ── others ───────────────────────────────────────────────────────────────────────────────────────

    def state(self, owner: str) -> Life:
        return state(self._folder, owner)

    def dead(self, owner: str) -> bool:
        return self.state(owner) == "dead"

    def tidy(self, job_owners: Collection[str]) -> None:
        """Remove the files of dead owners, except `job_owners`, which still own jobs."""
        with contextlib.suppress(OSError):
            for entry in list(self._folder.iterdir()):
                owner = entry.name.removeprefix(".")
                if owner not in job_owners and self.dead(owner):
                    with contextlib.suppress(OSError):
                        entry.unlink()

    def release(self) -> None:
        """We no longer own jobs: remove our file, unless another one is in its place."""
        _LOCAL_OWNERS.discard(self.name)
        if self._lock is not None:
            if self._is_in_place(self._lock):
                with contextlib.suppress(OSError):
                    (self._folder / self.name).unlink()
            os.close(self._lock)
            self._lock = None


def state(folder: Path, owner: str) -> Life:
    """Whether an owner's process is alive, by its file in this folder."""
    if owner == NO_OWNER:
        return "dead"
    if owner in _LOCAL_OWNERS:
        return "alive"
    process = process_identity.parse(owner.rpartition("-")[0])
    if process == process_identity.current():
        return "dead"  # an engine in this process that was closed
    runs = process.runs() if process else None
    free = is_free(folder / owner)
    if free is None:
        return "unknown" if runs is None else "alive" if runs else "dead"
    # A free lock of a live process is not the file that it holds, but a copy, or restored from a backup.
    return "dead" if free and not runs else "alive"


def is_free(file: Path) -> bool | None:
    """Whether an owner's lock could be taken; None if that could not be tried."""
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

"""Locks for writing: Claude Code's lock folder for its file, and counsel's lock files for all files."""

from __future__ import annotations

import binascii
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from counsel import paths
from counsel.errors import Conflict

SECONDS = 30.0  # how long to wait for a lock
# Claude Code takes over a lock folder about 17 s after its last touch (measured, 2.1.325); counsel waits longer.
STALE = 20.0
_POLL_SECONDS = 0.02

T = TypeVar("T")
StillHeld = Callable[[], bool]


@contextmanager
def claude_lock(path: Path, seconds: float = SECONDS) -> Iterator[StillHeld]:
    """Lock with the folder `<path>.lock`. Like Claude Code, do not resolve symbolic links in the path (measured)."""
    folder = path.with_name(f"{path.name}.lock")
    mark = _take_folder(folder, seconds)
    try:
        yield lambda: _mark(folder) == mark
    finally:
        if _mark(folder) == mark:
            with suppress(FileNotFoundError):
                folder.rmdir()


def _take_folder(folder: Path, seconds: float) -> tuple[int, int]:
    folder.parent.mkdir(parents=True, exist_ok=True)

    def attempt() -> tuple[int, int] | None:
        try:
            folder.mkdir()
        except FileExistsError:
            _clear_if_stale(folder)
            return None
        os.utime(folder)
        return _mark(folder)

    return _wait_for(
        attempt,
        seconds,
        Conflict(
            f"{folder} is locked by another program, so nothing was written.",
            hint="Wait for Claude Code to finish, or remove that folder if Claude Code is not running.",
            file=str(folder),
        ),
    )


def _wait_for(attempt: Callable[[], T | None], seconds: float, conflict: Conflict) -> T:
    """Call `attempt` until it returns a lock; raise `conflict` after the time limit."""
    deadline = time.monotonic() + seconds
    while (lock := attempt()) is None:
        if time.monotonic() > deadline:
            raise conflict
        time.sleep(_POLL_SECONDS)
    return lock


def _clear_if_stale(folder: Path) -> None:
    mark = _mark(folder)
    if mark is not None and time.time() - mark[1] / 1e9 > STALE and _mark(folder) == mark:
        with suppress(FileNotFoundError, OSError):
            folder.rmdir()


def _mark(folder: Path) -> tuple[int, int] | None:
    """Identify the lock: after another process takes it over, the folder has another inode or time."""
    try:
        info = folder.stat()
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns


@contextmanager
def own_lock(home: Path, path: Path, seconds: float = SECONDS) -> Iterator[None]:
    """Lock with a file under COUNSEL_HOME, one per edited file; the kernel releases it when a process dies."""
    folder = home / "locks"
    paths.private_folder(folder)
    real = os.path.realpath(path)
    name = f"{binascii.crc32(os.fsencode(real)):08x}-{Path(real).name}"  # a collision only means waiting
    handle = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _wait_for(
            lambda: _try_lock(handle) or None,
            seconds,
            Conflict(
                f"Another counsel process has been writing {path} for {seconds:.0f} s, so nothing was written.",
                hint="Try again when it has finished.",
                file=str(path),
            ),
        )
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    """Try to take the lock without waiting."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

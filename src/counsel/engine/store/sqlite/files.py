"""The database's files, seen from outside SQLite: which file it is, and whether it still looks like a database.

SQLite holds POSIX locks, and closing any descriptor of a file drops all locks that the process has on it. So the file is
opened once per process and inode, and closed after SQLite's own connections (sqlite.org/howtocorrupt.html, 2.2).
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TypeAlias

Identity: TypeAlias = tuple[int, int]  # device and inode

_MAGIC = b"SQLite format 3\0"
_HEADER = 100  # bytes
_handles: dict[Identity, tuple[int, int]] = {}  # → descriptor, users
_guard = threading.Lock()
_sync = getattr(os, "fdatasync", os.fsync)  # as SQLite does; macOS has only the second


def identity(path: Path) -> Identity | None:
    """Which file lies there; None when there is none. Raises `OSError` when looking failed."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_dev, about.st_ino


def replaced(path: Path, known: Identity | None) -> str | None:
    """What happened to the file that was opened; None when it is still there, or when looking failed.

    One `stat` (2 µs). A file in a folder that is gone as a whole is "deleted", too.
    """
    try:
        now = identity(path)
    except OSError:
        return None
    if now == known:
        return None
    return "it was deleted" if now is None else "another file was put in its place"


def beside(path: Path) -> tuple[Path, Path]:
    """SQLite's write-ahead log and its index."""
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def changed(path: Path) -> float:
    """When it was written last; 0 when it is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def create(path: Path) -> bool:
    """Make an empty private file; False when one is there."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


def sync(path: Path) -> None:
    """Take what was written to a file to the disk, by whichever descriptor it was written."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _sync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Take a rename to the disk."""
    with contextlib.suppress(OSError):  # some file systems know no such thing
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class Opened:
    """A file that is kept open, to see it from outside SQLite for as long as SQLite uses it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _guard:
            handle = self._known(path)
            if handle is None:
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            about = os.fstat(handle)
            self.identity: Identity = (about.st_dev, about.st_ino)
            known = _handles.get(self.identity)
            if (
                known and known[0] != handle
            ):  # it was put there between the two looks: see the module's docstring
                handle = known[0]
            _handles[self.identity] = (handle, known[1] + 1 if known else 1)
        self._handle = handle
        self._open = True

    @staticmethod
    def _known(path: Path) -> int | None:
        about = path.stat()
        known = _handles.get((about.st_dev, about.st_ino))
        return known[0] if known else None

    @property
    def size(self) -> int:
        return os.fstat(self._handle).st_size

    def read(self, offset: int, length: int) -> bytes:
        return os.pread(self._handle, length, offset)

    def close(self) -> None:
        with _guard:
            if not self._open:
                return
            self._open = False
            handle, users = _handles[self.identity]
            if users > 1:
                _handles[self.identity] = (handle, users - 1)
            else:
                del _handles[self.identity]
                os.close(handle)

    def gone(self) -> str | None:
        """As `replaced`: the file is no longer at its path."""
        return replaced(self.path, self.identity)

    def spoilt(self) -> str | None:
        """What is wrong with the file's first bytes; None when nothing is, or when looking failed."""
        try:
            length, header = self.size, self.read(0, _HEADER)
        except OSError:
            return None
        if not length:
            return "it is empty"
        if not header.startswith(_MAGIC):
            return "it is not a database"
        return None

    def shortened(self) -> bool:
        """Whether the file is shorter than it says. True for a moment while a checkpoint runs: a reason to look closer."""
        try:
            length, header = self.size, self.read(0, _HEADER)
        except OSError:
            return False
        page = int.from_bytes(header[16:18], "big")
        return length < int.from_bytes(header[28:32], "big") * (65536 if page == 1 else page)

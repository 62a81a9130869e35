"""The database's files, seen from outside SQLite: which file it is, and whether it still looks like a database.

SQLite holds POSIX locks, and closing any descriptor of a file drops all locks that the process has on it. So the file
is opened once per process and inode, and closed after SQLite's own connections (sqlite.org/howtocorrupt.html, 2.2).
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

Identity: TypeAlias = tuple[int, int]  # device and inode

_MAGIC = b"SQLite format 3\0"
_HEADER = 100  # bytes
_handles: dict[Identity, tuple[int, int]] = {}  # → descriptor, users
_guard = threading.Lock()
_sync = getattr(os, "fdatasync", os.fsync)  # as SQLite does; macOS has only the second


def uri(path: Path, options: str) -> str:
    """The file's address for SQLite. Python 3.14's `Path.as_uri` would import `urllib.request` and TLS."""
    return f"file://{quote(os.fsencode(path.absolute()))}?{options}"


def identity(path: Path) -> Identity | None:
    """Which file is at the path; None if there is none. Raises `OSError` if that cannot be determined."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def replaced(path: Path, expected: Identity | None) -> str | None:
    """What happened to the file that was opened; None if it is still there, or if that cannot be determined.

    One `stat` (2 µs). A file whose whole folder is gone also counts as deleted.
    """
    try:
        current = identity(path)
    except OSError:
        return None
    if current == expected:
        return None
    return "it was deleted" if current is None else "another file was put in its place"


def wal_files(path: Path) -> tuple[Path, Path]:
    """SQLite's write-ahead log and its index."""
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def changed(path: Path) -> float:
    """When it was last written; 0 if it does not exist."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def create(path: Path) -> bool:
    """Make an empty private file; False if there is one."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


def sync(path: Path) -> None:
    """Flush what was written to a file to the disk, whichever descriptor it was written through."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _sync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Flush a rename to the disk."""
    with contextlib.suppress(OSError):  # some file systems do not support it
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class OpenFile:
    """A file that stays open as long as SQLite uses it, to be examined from outside SQLite."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _guard:
            handle = self._existing_handle(path)
            if handle is None:
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            status = os.fstat(handle)
            self.identity: Identity = (status.st_dev, status.st_ino)
            entry = _handles.get(self.identity)
            if entry and entry[0] != handle:
                # the file was put there between the two checks; closing this descriptor would drop SQLite's locks
                handle = entry[0]
            _handles[self.identity] = (handle, entry[1] + 1 if entry else 1)
        self._handle = handle
        self._open = True

    @staticmethod
    def _existing_handle(path: Path) -> int | None:
        status = path.stat()
        entry = _handles.get((status.st_dev, status.st_ino))
        return entry[0] if entry else None

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
        """What happened to the file at its path, as `replaced` says."""
        return replaced(self.path, self.identity)

    def header_damage(self) -> str | None:
        """What is wrong with the file's first bytes; None if nothing, or if they cannot be read."""
        try:
            length, header = self.size, self.read(0, _HEADER)
        except OSError:
            return None
        if not length:
            return "it is empty"
        if not header.startswith(_MAGIC):
            return "it is not a database"
        return None

    def is_truncated(self) -> bool:
        """Whether the file is shorter than its header says, which is also true for a moment during a checkpoint."""
        try:
            length, header = self.size, self.read(0, _HEADER)
        except OSError:
            return False
        page = int.from_bytes(header[16:18], "big")
        return length < int.from_bytes(header[28:32], "big") * (65536 if page == 1 else page)

"""Lock files, and whether a path still names an open file. Standard library only: the stdio front imports this.

A lock proves nothing once its path names another file: a home that was deleted and restored has new files under the old
names. So a lock is valid only while the path names the locked file.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Identity: TypeAlias = tuple[int, int]  # device and inode
    StrPath: TypeAlias = str | os.PathLike[str]


def take(path: StrPath) -> int | None:
    """Lock the file at `path`, creating it if it is missing; None if another process has the lock."""
    import fcntl

    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_at(file, path):
                return file
        except BlockingIOError:
            os.close(file)
            return None
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # the file was deleted or replaced meanwhile: lock the one that the path names now


def identity(path: StrPath) -> Identity | None:
    """The identity of the file at `path`; None if there is none. Raises `OSError` if that is unknown."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def is_at(file: int, path: StrPath) -> bool:
    """Whether `path` names the open file."""
    status = os.fstat(file)
    return identity(path) == (status.st_dev, status.st_ino)


class PinnedFolder:
    """A folder that is kept open, so that its inode is not reused, to tell whether its path still names it."""

    def __init__(self, path: StrPath) -> None:
        self.path = path
        self._file: int | None = None
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:  # the folder does not exist, so it cannot be lost
            return

    def is_there(self) -> bool:
        """Whether the path still names the folder; also True if that is unknown."""
        try:
            return self._file is None or is_at(self._file, self.path)
        except OSError:
            return True

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def sign(file: int, text: str) -> None:
    """Write the holder into the lock file. Only people read it, so a full disk is no reason to fail."""
    try:
        os.ftruncate(file, 0)
        os.pwrite(file, text.encode(), 0)
    except OSError:
        return


def holder(path: StrPath) -> int | None:
    """The id of the process that last signed the lock file; it may have exited since."""
    import json

    try:
        with open(path, "rb") as file:
            pid = json.loads(file.read(1_000))["pid"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if isinstance(pid, int) else None

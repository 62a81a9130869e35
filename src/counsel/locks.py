"""Lock files, and whether a path still names the file that a process opened. Standard library only: the stdio front uses this.

A lock on a file proves nothing once its path names another file: a home that was deleted and restored has new files
under the old names. So a lock counts only while the path names the locked file.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Identity: TypeAlias = tuple[int, int]  # device and inode
    StrPath: TypeAlias = str | os.PathLike[str]


def take(path: StrPath) -> int | None:
    """Lock the file at `path`, which is made if it is missing; None while another process holds it."""
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
        os.close(file)  # the path was deleted or replaced meanwhile: lock what is there now


def identity(path: StrPath) -> Identity | None:
    """Which file `path` names; None when it names none. Raises `OSError` when that cannot be told."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def is_at(file: int, path: StrPath) -> bool:
    """Whether `path` names the open file."""
    held = os.fstat(file)
    return identity(path) == (held.st_dev, held.st_ino)


class Pinned:
    """A folder that was opened, so that the kernel gives its number to no other one, and whether its path still names it."""

    def __init__(self, path: StrPath) -> None:
        self.path = path
        self._file: int | None = None
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:  # it is not there, so it cannot be lost
            return

    def is_there(self) -> bool:
        """True, too, when that cannot be told."""
        try:
            return self._file is None or is_at(self._file, self.path)
        except OSError:
            return True

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def sign(file: int, text: str) -> None:
    """Say in the lock file who holds it. Only people read this, so a full disk is no reason to fail."""
    try:
        os.ftruncate(file, 0)
        os.pwrite(file, text.encode(), 0)
    except OSError:
        return


def holder(path: StrPath) -> int | None:
    """The process that signed the lock file last. It may have ended since."""
    import json

    try:
        with open(path, "rb") as file:
            pid = json.loads(file.read(1_000))["pid"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if isinstance(pid, int) else None

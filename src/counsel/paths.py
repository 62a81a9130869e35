"""Private files and folders, and paths that may not be readable. Standard library only: the stdio front imports this.

Before Python 3.14, `exists` and `is_dir` of pathlib raise in a folder that this user may not enter; those of `os.path`
return False.
"""

from __future__ import annotations

import os
from os.path import exists, isdir, isfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["current_folder", "exists", "isdir", "isfile", "private_folder", "up_to_root", "write_private"]


def up_to_root(folder: Path, markers: Sequence[str] = (".git",)) -> list[Path]:
    """The folder and its parents up to the repository's root; without one, the folder alone."""
    folders = [folder, *folder.parents]
    for number, parent in enumerate(folders):
        if any(exists(parent / name) for name in markers):
            return folders[: number + 1]
    return [folder]


def private_folder(path: str | os.PathLike[str]) -> None:
    """Create a folder and its missing parents, all with mode 0700 (`mkdir(parents=True)` sets only the last mode)."""
    missing = [os.fspath(path)]
    while missing:
        folder = missing[-1]
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if not isdir(folder):
                raise
        except FileNotFoundError:
            parent = os.path.dirname(folder.rstrip("/"))
            if parent in {"", folder} or isdir(parent):  # in /proc no folder can be created
                raise
            missing.append(parent)
            continue
        missing.pop()


def write_private(path: str, content: bytes, *, replace: bool) -> None:
    """Write a private file completely or not at all: write another file, sync it, then rename it.

    Raises FileExistsError if the file exists and `replace` is false.
    """
    draft = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            unwritten = memoryview(content)
            while unwritten:
                unwritten = unwritten[os.write(handle, unwritten) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        if replace:
            os.replace(draft, path)
        else:
            os.link(draft, path)
            os.unlink(draft)
    except BaseException:
        if os.path.lexists(draft):
            os.unlink(draft)
        raise


def current_folder() -> Path:
    from pathlib import Path

    try:
        return Path(os.getcwd())
    except FileNotFoundError:
        from counsel.errors import NotFound

        raise NotFound(
            "The current folder no longer exists.",
            hint="Change to an existing folder, for example with `cd ~`.",
        ) from None

"""Files that were uploaded over HTTP for a question that names them, as a browser has no paths.

They are `COUNSEL_HOME/uploads/<random>/<name>` with modes 0700 and 0600. Only a caller that names an upload's path can
send it (see `named`). They are deleted after a day, and the oldest ones if there are too many.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from counsel import paths
from counsel.lazy_dataclass import dataclass

KEEP = 86400.0  # seconds
MOST_FILES = 500
MOST_BYTES = 512 * 1024 * 1024  # of all uploads together
_LONGEST_NAME = 200  # bytes
_ID = r"[0-9a-f]{32}"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\{}]")


def folder(home: Path) -> Path:
    return home / "uploads"


def is_upload(path: Path, home: Path) -> bool:
    return path.is_relative_to(os.path.realpath(folder(home)))


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that is being received."""

    path: Path
    file: BinaryIO

    def discard(self) -> None:
        self.file.close()
        shutil.rmtree(self.path.parent, ignore_errors=True)


def create(home: Path, name: str) -> Upload:
    """An empty file of this name, alone in a new folder. Raises `OSError`."""
    own_folder = folder(home) / secrets.token_hex(16)
    paths.private_folder(own_folder)
    path = own_folder / safe_name(name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return Upload(path, os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0))


def copy(home: Path, name: str, data: bytes) -> Path:
    """A file of this name and content, for a question that is about to be read. Raises `OSError`."""
    upload = create(home, name)
    with upload.file:
        upload.file.write(data)
    return upload.path


def safe_name(name: str) -> str:
    """The last part of a path, without characters that have a meaning in paths, line ranges or terminals."""
    last = re.split(r"[/\\]", name)[-1]
    safe = _UNSAFE.sub("_", last).strip()
    while len(os.fsencode(safe)) > _LONGEST_NAME:
        stem, dot, ending = safe.rpartition(".")
        safe = f"{stem[:-1]}{dot}{ending}" if dot and len(ending) < 20 and stem else safe[:-1]
    return "file" if safe in {"", ".", ".."} else safe


def named(home: Path, names: Iterable[str]) -> Iterator[Path]:
    """The real paths of the uploads among these names, which may end in a line range."""
    pattern = re.compile(rf"{re.escape(str(folder(home)))}/({_ID})/")
    for name in names:
        if match := pattern.match(name):
            with contextlib.suppress(OSError):
                yield from map(Path, map(os.path.realpath, (folder(home) / match[1]).iterdir()))


def sweep(home: Path) -> None:
    """Delete expired uploads, then the oldest ones beyond the limits."""
    count, size = 0, 0
    for age, bytes_, path in sorted(_stored(home)):
        count, size = count + 1, size + bytes_
        if age > KEEP or count > MOST_FILES or size > MOST_BYTES:
            shutil.rmtree(path, ignore_errors=True)


def _stored(home: Path) -> Iterator[tuple[float, int, Path]]:
    now = time.time()
    with contextlib.suppress(OSError):
        for path in folder(home).iterdir():
            if re.fullmatch(_ID, path.name):
                yield now - path.lstat().st_mtime, _size(path), path


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return sum(file.lstat().st_size for file in path.iterdir())
    return 0

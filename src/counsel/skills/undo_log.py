"""The undo log of sharing: one JSON line per link or copy, under COUNSEL_HOME/backups/skills.

The line is on disk before the change is made. After a crash the change may be missing, so undo checks what exists.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from counsel import paths
from counsel.errors import Conflict
from counsel.lazy_dataclass import dataclass
from counsel.settings import default_home


@dataclass(frozen=True, slots=True)
class UndoEntry:
    """One link or copy that was created. The fields are named as in the file."""

    id: str  # of the command; several entries may share it
    skill: str
    agents: tuple[str, ...]
    scope: str
    kind: Literal["link", "copy"]
    path: str  # the link or copy
    source: str  # the skill's folder
    points_to: str = ""  # a link's target as written
    digest: str = ""  # a copy's content
    made: tuple[str, ...] = ()  # parent folders created for it, outermost first
    backup: str = ""  # where the replaced file or folder was moved
    when: float = 0.0
    taken_back: bool = False


class UndoLog:
    def __init__(self, env: Mapping[str, str]) -> None:
        self.folder = default_home(env) / "backups" / "skills"
        self.path = self.folder / "journal.jsonl"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other process shares or undoes; only one does at a time."""
        try:
            paths.private_folder(self.folder)
            lock = (self.folder / "lock").open("w")
        except OSError as error:
            message = f"{error.filename or self.folder} cannot be written ({error.strerror})."
            raise Conflict(message, hint="Check the folder's owner and mode, or set COUNSEL_HOME.") from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def entries(self) -> list[UndoEntry]:
        """All entries; a later line replaces an earlier one about the same path and command."""
        latest: dict[tuple[str, str], UndoEntry] = {}
        try:
            lines = self.path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise Conflict(f"{self.path} cannot be read ({error.strerror}).") from None
        for line in lines:
            entry = _entry(line)
            if entry:
                latest[entry.id, entry.path] = entry
        return list(latest.values())

    def active(self) -> list[UndoEntry]:
        return [entry for entry in self.entries() if not entry.taken_back]

    def append(self, entry: UndoEntry) -> None:
        """Append a line. It starts with a line break, because a crash or a full disk may have left half a line."""
        line = "\n" + json.dumps(asdict(entry), ensure_ascii=True) + "\n"
        with open(self.path, "ab", opener=_private) as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def mark_undone(self, entry: UndoEntry) -> None:
        self.append(replace(entry, taken_back=True))

    def backup_path(self, identity: str, name: str) -> Path:
        """A free path to which something can be moved."""
        folder = self.folder / identity
        paths.private_folder(folder)
        path = folder / name
        number = 1
        while os.path.lexists(path):
            number += 1
            path = folder / f"{name}.{number}"
        return path


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def new_id() -> str:
    return time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(2)


def _entry(line: str) -> UndoEntry | None:
    """A line's entry; None if a crash cut the line short."""
    try:
        fields: dict[str, Any] = json.loads(line)
        return UndoEntry(**{**fields, "agents": tuple(fields["agents"]), "made": tuple(fields["made"])})
    except (ValueError, TypeError, KeyError):
        return None


def restore(entry: UndoEntry) -> None:
    """Move the backup back, and remove the folders that were created."""
    path = Path(entry.path)
    if entry.backup and os.path.lexists(entry.backup) and not os.path.lexists(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(entry.backup, path)
    for folder in reversed(entry.made):
        try:
            Path(folder).rmdir()
        except OSError:  # not empty, or already removed
            return

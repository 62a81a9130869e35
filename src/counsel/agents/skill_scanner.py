"""Reads the disk for one listing: each folder and file once, for all agents.

No file makes it raise: what cannot be read is reported in `problems` or as the file's `failure`.
"""

from __future__ import annotations

import json
import os
import stat
from collections import deque
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from counsel.lazy_dataclass import dataclass

SKILL_FILE = "SKILL.md"
LONGEST = 16_000_000  # bytes of one SKILL.md that are read


@dataclass(frozen=True)
class SkillFile:
    data: bytes = field(default=b"", repr=False)
    size: int = 0
    failure: str = ""
    regular: bool = True

    @cached_property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class SearchRules:
    """How an agent searches a folder for skills."""

    depth: int  # folders below the root
    at_root: bool = False  # a SKILL.md in the root itself counts
    hidden: bool = False  # folders whose name starts with a dot count
    skip: frozenset[str] = frozenset()
    linked_files: bool = True  # a SKILL.md that is a link counts
    stop_at_loops: bool = True  # a folder is entered once, by its real path
    most_folders: int = 100_000


class SkillPath(NamedTuple):
    path: str
    real: str


class FolderEntry(NamedTuple):
    name: str
    link: bool
    folder: bool
    file: bool  # a regular file, or anything else that is not a folder


class SkillScanner:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self._files: dict[str, SkillFile] = {}
        self._folders: dict[str, tuple[FolderEntry, ...]] = {}
        self._paths: dict[str, Path] = {}

    # ── files ────────────────────────────────────────────────────────────────────────────────────────

    def file(self, real: str) -> SkillFile:
        if real not in self._files:
            self._files[real] = _read(real)
        return self._files[real]

    def path(self, text: str) -> Path:
        """One Path object per path, so that it is created, hashed and printed once."""
        if text not in self._paths:
            self._paths[text] = Path(text)
        return self._paths[text]

    def json(self, path: Path) -> dict[str, Any]:
        """A settings file that may be missing; a broken one is reported and counts as empty, as in the agents."""
        try:
            value = json.loads(settings_text(path))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError, RecursionError) as error:
            self.problems.append(f"{path}: cannot be read ({_why(error)}); ignored.")
            return {}
        return value if isinstance(value, dict) else {}

    # ── folders ──────────────────────────────────────────────────────────────────────────────────────

    def entries(self, real: str) -> tuple[FolderEntry, ...]:
        """A folder's entries, by name. An unreadable folder is reported once and counts as empty."""
        if real not in self._folders:
            try:
                with os.scandir(real) as entries:
                    self._folders[real] = tuple(sorted(_entry(entry) for entry in entries))
            except (FileNotFoundError, NotADirectoryError):
                self._folders[real] = ()
            except (OSError, ValueError) as error:
                self._folders[real] = ()
                self.problems.append(f"{real}: cannot be read ({_why(error)}); skipped.")
        return self._folders[real]

    def may_hold(self, folder: str, name: str) -> bool:
        """False if the folder has been read and has no such entry, which saves a system call."""
        entries = self._folders.get(folder)
        return entries is None or any(entry.name == name for entry in entries)

    def search(self, root: Path, rules: SearchRules) -> Iterator[SkillPath]:
        """Every SKILL.md that an agent with these rules finds, nearest first, then by name."""
        for path, real, depth in self._walk(str(root), rules):
            for entry in self.entries(real):
                if entry.name != SKILL_FILE or entry.folder or not (depth or rules.at_root):
                    continue
                file = f"{path}/{SKILL_FILE}"
                if not entry.link:
                    yield SkillPath(file, f"{real}/{SKILL_FILE}")
                elif rules.linked_files and entry.file:
                    yield SkillPath(file, os.path.realpath(file))

    def _walk(self, root: str, rules: SearchRules) -> Iterator[tuple[str, str, int]]:
        """Folders with their real path and depth. Links are followed; loops end where they close."""
        real_root = real_path(root)
        visited = {real_root}
        queue = deque([(root, real_root, 0)])
        while queue:
            path, real, depth = queue.popleft()
            yield path, real, depth
            for entry in self.entries(real) if depth < rules.depth else ():
                if not entry.folder or not _enters(entry.name, rules):
                    continue
                child = f"{path}/{entry.name}"
                real_child = os.path.realpath(child) if entry.link else f"{real}/{entry.name}"
                if rules.stop_at_loops and (real_child in visited or len(visited) >= rules.most_folders):
                    continue
                visited.add(real_child)
                queue.append((child, real_child, depth + 1))


def real_path(path: str) -> str:
    """The path with all links resolved. An invalid path (settings may hold a NUL) is returned as it is."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return path


def _enters(name: str, rules: SearchRules) -> bool:
    return name not in rules.skip and (rules.hidden or not name.startswith("."))


def _entry(entry: os.DirEntry[str]) -> FolderEntry:
    link = entry.is_symlink()
    try:
        return FolderEntry(entry.name, link, entry.is_dir(), not link or entry.is_file())
    except OSError:  # a link to itself, or into a folder that may not be entered
        return FolderEntry(entry.name, link, folder=False, file=False)


def _read(real: str) -> SkillFile:
    """The bytes of a regular file. A pipe or device is not opened: reading it could block forever."""
    try:
        info = os.stat(real)  # not `Path.stat`: there may be a thousand
        if not stat.S_ISREG(info.st_mode):
            return SkillFile(failure="it is not a regular file", regular=False)
        with open(real, "rb") as file:
            return SkillFile(file.read(LONGEST), info.st_size)
    except (OSError, ValueError) as error:
        return SkillFile(failure=_why(error))


def settings_text(path: Path) -> str:
    """A settings file's text. In someone else's repository it may be a pipe, a device or endless: those raise."""
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise ValueError("it is not a regular file")
    if info.st_size > LONGEST:
        raise ValueError("it is too large")
    return path.read_bytes().decode("utf-8-sig")


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return str(error) or type(error).__name__

"""Expands a folder or pattern that a person typed into files: those to send, and those left out with the reason.

Links are never followed, as they could lead out of the folder. Files that .gitignore matches are left out, and so are
those that the engine would refuse if they were named alone: secrets, binary and oversized files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from counsel.engine.context import gitignore
from counsel.engine.context.gitignore import Rule
from counsel.engine.context.path_patterns import MAGIC, PathPattern
from counsel.errors import InvalidArgument, NotFound
from counsel.lazy_dataclass import dataclass

MOST_ENTRIES = 50_000  # in one folder and everything below it
# Never useful in a question, whether or not .gitignore names them.
INTERNAL = {
    ".git": "it is git's own folder",
    ".hg": "it is Mercurial's own folder",
    ".svn": "it is Subversion's own folder",
    "node_modules": "it contains installed packages",
    "__pycache__": "it contains compiled files",
    ".venv": "it contains installed packages",
}
IGNORED = "ignored by .gitignore"
LINK = "a link that leads out of the folder"


@dataclass(frozen=True, slots=True)
class LeftOut:
    path: Path
    why: str


@dataclass(slots=True)
class Expansion:
    files: list[Path] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


@dataclass(slots=True)
class _Walk:
    base: Path  # without links
    pattern: PathPattern
    expansion: Expansion = field(default_factory=Expansion)
    entries: int = 0


def has_pattern(name: str) -> bool:
    return MAGIC(name) is not None


def folder(base: Path, rules: list[Rule]) -> Expansion:
    """All files in a folder and below it."""
    return _expand(base, rules, PathPattern((None,)))


def matching(base: Path, pattern: str, rules: list[Rule]) -> Expansion:
    """The files below `base` whose relative path matches. As in a shell, `*` does not match a leading dot."""
    path_pattern = PathPattern.of(pattern, hidden=False)
    if path_pattern is None:
        raise InvalidArgument(f"{pattern[:80]}… is too long for a pattern.", hint="Name a folder.")
    return _expand(base, rules, path_pattern)


def split(path: Path) -> tuple[Path, str]:
    """The part of a path before its first pattern, and the rest."""
    for number, part in enumerate(path.parts):
        if MAGIC(part):
            return Path(*path.parts[:number]), "/".join(path.parts[number:])
    return path, ""


def _expand(base: Path, rules: list[Rule], pattern: PathPattern) -> Expansion:
    if not base.is_dir():
        raise NotFound(f"{base} is not a folder.", hint="Name a folder that exists.", file=str(base))
    walk = _Walk(base, pattern)
    _visit(walk, base, [*rules, *gitignore.of(base)])
    return walk.expansion


def _visit(walk: _Walk, parent: Path, rules: list[Rule]) -> None:
    for entry in _entries(walk, parent):
        path = parent / entry.name
        names = path.relative_to(walk.base).parts
        is_folder = entry.is_dir(follow_symlinks=False)
        if not (walk.pattern.leads_below(names) if is_folder else walk.pattern.matches(names)):
            continue
        if why := _why_not(walk, entry, path, rules):
            walk.expansion.left_out.append(LeftOut(path, why))
        elif is_folder:
            _visit(walk, path, [*rules, *gitignore.of(path)])
        elif entry.is_file(follow_symlinks=False):  # a link's target is in the folder, and is visited there
            walk.expansion.files.append(path)


def _why_not(walk: _Walk, entry: os.DirEntry[str], path: Path, rules: list[Rule]) -> str | None:
    if entry.name in INTERNAL:
        return INTERNAL[entry.name]
    if gitignore.ignores(rules, path, is_folder=entry.is_dir(follow_symlinks=False)):
        return IGNORED
    if entry.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(walk.base):
        return LINK
    return None


def _entries(walk: _Walk, folder_: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder_) as entries:
            entries_ = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        walk.expansion.left_out.append(LeftOut(folder_, f"it cannot be read ({error.strerror})"))
        return
    walk.entries += len(entries_)
    if walk.entries > MOST_ENTRIES:
        raise InvalidArgument(
            f"{walk.base} contains more than {MOST_ENTRIES:,} files and folders.",
            hint="Name a folder below it, or a pattern such as 'src/*.py'.",
            file=str(walk.base),
        )
    yield from entries_

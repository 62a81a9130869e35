"""Which skills are copies of each other, and whether the copies still have the same files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from counsel.agents.skill_format import Skill

MOST_FILES = 2_000
MOST_BYTES = 16_000_000


def files_of(folder: Path) -> list[tuple[str, int]]:
    """A skill's files with their sizes, by name; linked folders are not followed."""
    files: list[tuple[str, int]] = []
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in {".git", "__pycache__"})
        for name in sorted(names):
            path = Path(top, name)
            try:
                info = path.stat()
            except OSError:
                continue
            if stat.S_ISREG(info.st_mode):
                files.append((path.relative_to(folder).as_posix(), info.st_size))
        if len(files) >= MOST_FILES:
            break
    return files[:MOST_FILES]


def folder_digest(folder: Path) -> str:
    """A digest that is equal for folders with the same files. Of very large files only the size counts."""
    import hashlib  # rarely needed: most lists have no copies

    digest = hashlib.blake2b(digest_size=12)
    for name, size in files_of(folder):
        digest.update(f"{name}\0{size}\0".encode(errors="surrogateescape"))
        if size <= MOST_BYTES:
            try:
                digest.update((folder / name).read_bytes())
            except OSError:
                digest.update(b"unreadable")
    return digest.hexdigest()


def groups_of_copies(skills: Iterable[Skill]) -> dict[str, list[Skill]]:
    """Skills grouped with their copies: those with the same file under any name, or with the same name."""
    groups: dict[str, list[Skill]] = {}
    names: dict[Path, str] = {}
    for skill in skills:
        key = names.setdefault(skill.real, skill.name)
        groups.setdefault(key, []).append(skill)
    return groups


def differing_copies(group: list[Skill]) -> dict[Path, Path]:
    """For copies with different content: each SKILL.md, and another one that differs from it."""
    reals = {skill.real for skill in group}
    if len(reals) < 2:
        return {}
    contents = {real: folder_digest(real.parent) for real in sorted(reals)}
    return {
        real: next(copy for copy in contents if contents[copy] != contents[real])
        for real in contents
        if len(set(contents.values())) > 1
    }


def with_drift(skills: tuple[Skill, ...]) -> tuple[Skill, ...]:
    """The skills, with a note on each one that has a different copy. Skills that come with an agent do not count."""
    differing: dict[Path, Path] = {}
    for group in groups_of_copies(skill for skill in skills if skill.scope != "system").values():
        differing |= differing_copies(group)
    if not differing:
        return skills
    return tuple(
        skill.with_note("drift", f"differs from the copy in {differing[skill.real].parent}.")
        if skill.real in differing
        else skill
        for skill in skills
    )

"""Which skills are copies of each other, and whether the copies still agree."""

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
    """Equal for folders with the same files. A very large file counts by its size."""
    import hashlib  # most lists have no copies to compare

    digest = hashlib.blake2b(digest_size=12)
    for name, size in files_of(folder):
        digest.update(f"{name}\0{size}\0".encode(errors="surrogateescape"))
        if size <= MOST_BYTES:
            try:
                digest.update((folder / name).read_bytes())
            except OSError:
                digest.update(b"unreadable")
    return digest.hexdigest()


def grouped(skills: Iterable[Skill]) -> dict[str, list[Skill]]:
    """Skills by identity: the same file under any name, or the same name."""
    groups: dict[str, list[Skill]] = {}
    names: dict[Path, str] = {}
    for skill in skills:
        key = names.setdefault(skill.real, skill.name)
        groups.setdefault(key, []).append(skill)
    return groups


def drifted(group: list[Skill]) -> dict[Path, Path]:
    """For copies with different content: each SKILL.md and another one that differs from it."""
    reals = {skill.real for skill in group}
    if len(reals) < 2:
        return {}
    contents = {real: folder_digest(real.parent) for real in sorted(reals)}
    return {
        real: next(other for other in contents if contents[other] != contents[real])
        for real in contents
        if len(set(contents.values())) > 1
    }


def with_drift(skills: tuple[Skill, ...]) -> tuple[Skill, ...]:
    """The list with a note on every skill that has a different copy. Skills that come with an agent are not copies."""
    others: dict[Path, Path] = {}
    for group in grouped(skill for skill in skills if skill.scope != "system").values():
        others |= drifted(group)
    if not others:
        return skills
    return tuple(
        skill.with_note("drift", f"differs from the copy in {others[skill.real].parent}.")
        if skill.real in others
        else skill
        for skill in skills
    )

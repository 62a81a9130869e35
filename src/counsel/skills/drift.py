"""Which skills are the same, and whether their copies still are."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from counsel.agents.skill_format import Skill

MOST_FILES = 2_000
MOST_BYTES = 16_000_000


def files_of(folder: Path) -> list[tuple[str, int]]:
    """A skill's files with their sizes, by name; links are not followed out of it."""
    found: list[tuple[str, int]] = []
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in {".git", "__pycache__"})
        for name in sorted(names):
            path = Path(top, name)
            try:
                about = path.stat()
            except OSError:
                continue
            if stat.S_ISREG(about.st_mode):
                found.append((path.relative_to(folder).as_posix(), about.st_size))
        if len(found) >= MOST_FILES:
            break
    return found[:MOST_FILES]


def folder_digest(folder: Path) -> str:
    """Equal for folders with the same files. A file too large to read counts by its size."""
    import hashlib  # noqa: PLC0415 - most lists have no copies to compare

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
    """One entry per skill: the same file under any name, or the same name."""
    groups: dict[str, list[Skill]] = {}
    homes: dict[Path, str] = {}
    for skill in skills:
        key = homes.setdefault(skill.real, skill.name)
        groups.setdefault(key, []).append(skill)
    return groups


def drifted(group: list[Skill]) -> dict[Path, Path]:
    """Of copies with different content: each one's SKILL.md and another that differs from it."""
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
    """The list with a remark on every skill of which another copy is different. What comes with agents is nobody's copy."""
    others: dict[Path, Path] = {}
    for group in grouped(skill for skill in skills if skill.scope != "system").values():
        others |= drifted(group)
    if not others:
        return skills
    return tuple(
        skill.noted("drift", f"differs from the copy in {others[skill.real].parent}.")
        if skill.real in others
        else skill
        for skill in skills
    )

"""Which files .gitignore excludes. Reads these files itself, as git runs programs that a repository's config names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from counsel.engine.context.path_patterns import PathPattern
from counsel.lazy_dataclass import dataclass

_LARGEST = 256 * 1024  # bytes of one .gitignore that are read
_MOST_LINES = 2_000


@dataclass(frozen=True, slots=True)
class Rule:
    folder: Path  # the pattern is relative to this folder
    pattern: PathPattern
    negated: bool
    folders_only: bool


def for_folder(root: Path, env: Mapping[str, str], home: Path) -> list[Rule]:
    """The rules that apply at `root`: the user's own, the repository's, and those of all folders above it."""
    above = _up_to_repository(root)
    config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    rules = list(_rules(config / "git" / "ignore", above[-1]))
    rules += _rules(above[-1] / ".git" / "info" / "exclude", above[-1])
    for folder in reversed(above[1:]):
        rules += of(folder)
    return rules


def of(folder: Path) -> list[Rule]:
    return list(_rules(folder / ".gitignore", folder))


def ignores(rules: Sequence[Rule], path: Path, *, is_folder: bool) -> bool:
    """The last rule that matches decides."""
    for rule in reversed(rules):
        if (is_folder or not rule.folders_only) and rule.pattern.matches(path.relative_to(rule.folder).parts):
            return not rule.negated
    return False


def repository(folder: Path) -> Path | None:
    """The git repository that contains the folder. Like git, ignores one that belongs to another user."""
    for parent in (folder, *folder.parents):
        try:
            status = os.lstat(parent / ".git")
        except OSError:
            continue
        return parent if status.st_uid == os.getuid() else None
    return None


def _up_to_repository(folder: Path) -> list[Path]:
    root = repository(folder)
    if root is None:
        return [folder]
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(root))]


def _rules(file: Path, folder: Path) -> Iterator[Rule]:
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        text = os.read(fd, _LARGEST).decode("utf-8", "replace")
    except OSError:  # it is a folder
        return
    finally:
        os.close(fd)
    for line in text.splitlines()[:_MOST_LINES]:
        if rule := _rule(line, folder):
            yield rule


def _rule(line: str, folder: Path) -> Rule | None:
    text = line.rstrip("\r\n")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[1:] if negated else text
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    text = text.removeprefix("/")
    if text.endswith("/**"):  # everything below, not the folder itself
        text += "/*"
    pattern = PathPattern.of(text if anchored else f"**/{text}") if text else None
    return Rule(folder, pattern, negated, folders_only) if pattern else None

"""Where Claude Code keeps a project's settings and the user's answers to its dialogs (measured, 2.1.325)."""

from __future__ import annotations

import os
from pathlib import Path

from counsel.agents.definitions import Workspace
from counsel.paths import exists, up_to_root


def project_key(folder: Path) -> Path:
    """The key of a project's settings: its git root, found from any folder inside it and through links; for a worktree,
    the main repository."""
    real = Path(os.path.realpath(folder))
    root = next((parent for parent in (real, *real.parents) if exists(parent / ".git")), None)
    if root is None:
        return real
    return _repository(root) or root


def trusting_folders(project: Path) -> list[Path]:
    """The folders whose `hasTrustDialogAccepted` counts: this one and its parents, up to the repository's root if there
    is one.

    A worktree's main repository counts, too.
    """
    inside = up_to_root(project)
    is_repository = exists(inside[-1] / ".git")
    return [*(inside if is_repository else (project, *project.parents)), project_key(project)]


def settings_files(workspace: Workspace) -> list[Path]:
    """The user's, the project's and the local settings: later ones win.

    The project's are in the folder itself; the local ones are there, too, and in the repository's root, unless that is
    the home folder.
    """
    project_dir, root = workspace.project / ".claude", project_key(workspace.project)
    paths = [
        workspace.claude_dir() / "settings.json",
        project_dir / "settings.json",
        project_dir / "settings.local.json",
    ]
    if str(root) not in {os.path.realpath(workspace.project), os.path.realpath(workspace.home)}:
        paths.append(root / ".claude" / "settings.local.json")
    return list(dict.fromkeys(paths))


def _repository(root: Path) -> Path | None:
    """The repository of a worktree, if it knows the worktree. A bare repository has no folder around it."""
    marker = root / ".git"
    if not marker.is_file():
        return None  # a folder: this is the repository itself
    try:
        git_dir = _resolved(root, marker.read_text().removeprefix("gitdir:"))
        common = _resolved(git_dir, (git_dir / "commondir").read_text())
        worktree = os.path.realpath(_resolved(git_dir, (git_dir / "gitdir").read_text()))
    except (OSError, ValueError):
        return None  # a submodule, or not a file of git
    if git_dir.parent != common / "worktrees" or worktree != str(marker):
        return None
    return common.parent if common.name == ".git" else common


def _resolved(start: Path, text: str) -> Path:
    """Paths in git's files are absolute, or relative to the folder that the file describes."""
    return Path(os.path.normpath(start / text.strip()))

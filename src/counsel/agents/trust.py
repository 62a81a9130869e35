"""Whether the user trusts a folder: their answers in the trust dialogs of Claude Code, Codex and Gemini CLI.

Folders are compared by real path: a link inside a trusted folder does not make its target trusted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from counsel.agents.claude.folders import project_key, trusting_folders
from counsel.agents.definitions import Workspace
from counsel.agents.detect import inside, read_json
from counsel.agents.skill_scanner import real_path
from counsel.paths import up_to_root

# The variable that moves an agent's files. A relative value points into the folder, which cannot vouch for itself.
FOLDER_VARIABLES = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "gemini": "GEMINI_CLI_HOME"}


def trusted(workspace: Workspace, folder: Path | None = None) -> bool:
    """Whether the user told an agent to trust the folder (by default the project's), and no agent to distrust it."""
    real = Path(os.path.realpath(folder or workspace.project))
    verdicts = [
        judge(workspace, real) for agent, judge in _JUDGES.items() if not moved_inside(agent, workspace)
    ]
    return True in verdicts and False not in verdicts


def by_agent(agent: str, workspace: Workspace) -> bool | None:
    """What the user told this agent about the project's folder; None: nothing, or it has no known trust dialog."""
    judge = _JUDGES.get(agent)
    if judge is None or moved_inside(agent, workspace):
        return None
    if agent == "gemini" and (verdict := by_gemini_everywhere(workspace)) is not None:
        return verdict
    return judge(workspace, Path(os.path.realpath(workspace.project)))


def moved_inside(agent: str, workspace: Workspace) -> bool:
    """Whether a relative variable makes files of the folder the user's own configuration of this agent."""
    value = workspace.env.get(FOLDER_VARIABLES.get(agent, ""))
    return bool(value) and not os.path.isabs(str(value))


def by_claude(workspace: Workspace, real: Path) -> bool | None:
    """`hasTrustDialogAccepted` of the folder or of a parent in the same repository (outside a repository: of any
    parent)."""
    projects = read_json(workspace.claude_json()).get("projects")
    folders = trusting_folders(real)
    return any(inside(projects, str(path), "hasTrustDialogAccepted") is True for path in folders) or None


def by_codex(workspace: Workspace, real: Path) -> bool | None:
    """`trust_level` of the folder, else of the project's root, else of the repository that a worktree belongs to.

    Codex ignores other folders above. Each folder of a project is trusted by itself (measured, 0.166).
    """
    config = _toml(workspace.codex_dir() / "config.toml")
    root = up_to_root(real, root_markers(config))[-1]
    folders = (real, root, project_key(real))  # git's rules are the same for both agents
    levels = [inside(config.get("projects"), str(path), "trust_level") for path in folders]
    trust_level = next((level for level in levels if level), None)
    return None if trust_level is None else trust_level == "trusted"


def root_markers(config: Mapping[str, object]) -> list[str]:
    """The files that mark a project's root for Codex: `project_root_markers` of its own config file."""
    markers = config.get("project_root_markers")
    return [str(name) for name in markers] if isinstance(markers, list) else [".git"]


def by_gemini(workspace: Workspace, real: Path) -> bool | None:
    """The longest matching rule of `trustedFolders.json`, as in Gemini CLI itself (0.61.0)."""
    rules = {
        os.path.normpath(path): level
        for path, level in read_json(gemini_rules_file(workspace)).items()
        if os.path.isabs(path)
    }
    best_path = ""
    for path, level in rules.items():
        folder = os.path.dirname(path) if level == "TRUST_PARENT" else path
        if real.is_relative_to(real_path(folder)) and len(path) > len(best_path):
            best_path = path
    return None if not best_path else rules[best_path] in ("TRUST_FOLDER", "TRUST_PARENT")


def gemini_rules_file(workspace: Workspace) -> Path:
    """Gemini CLI's `trustedFolders.json`."""
    override = workspace.env.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH")
    return workspace.project / override if override else workspace.gemini_dir() / "trustedFolders.json"


def by_gemini_everywhere(workspace: Workspace) -> bool | None:
    """What a variable or a setting tells Gemini CLI about all folders; None: its rules count."""
    setting = workspace.env.get("GEMINI_CLI_TRUST_WORKSPACE")
    if workspace.env.get("GEMINI_RESTRICTED_MODE") == "true" or setting == "false":
        return False
    files = (workspace.gemini_managed(), workspace.gemini_dir() / "settings.json", workspace.gemini_system())
    switches = (inside(read_json(file), "security", "folderTrust", "enabled") for file in files)
    is_enabled = next((switch for switch in switches if switch is not None), True)
    return True if setting == "true" or is_enabled is False else None


_JUDGES = {"claude": by_claude, "codex": by_codex, "gemini": by_gemini}


def _toml(path: Path) -> dict[str, object]:
    from counsel.configfiles.document import parse  # rarely needed
    from counsel.errors import ConfigInvalid

    try:
        return dict(parse(path.read_text(encoding="utf-8"), "toml").value)
    except (OSError, ValueError, ConfigInvalid):
        return {}

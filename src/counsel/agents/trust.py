"""Whether the user trusts a folder: their answers in the trust dialogs of Claude Code, Codex and Gemini CLI.

Folders are compared by real path: a link inside a trusted folder does not make its target trusted.
"""

from __future__ import annotations

import os
from pathlib import Path

from counsel.agents.definitions import Workspace
from counsel.agents.detect import inside, read_json
from counsel.agents.skill_scanner import real_path

# The variable that moves an agent's files. A relative value points into the folder, which cannot vouch for itself.
FOLDER_VARIABLES = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "gemini": "GEMINI_CLI_HOME"}


def trusted(workspace: Workspace, folder: Path | None = None) -> bool:
    """Whether an agent was told to trust the folder (by default the project's), and none not to."""
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
    if agent == "gemini" and (verdict := _gemini_everywhere(workspace)) is not None:
        return verdict
    return judge(workspace, Path(os.path.realpath(workspace.project)))


def moved_inside(agent: str, workspace: Workspace) -> bool:
    """Whether a relative variable makes files of the folder the user's own configuration of this agent."""
    value = workspace.env.get(FOLDER_VARIABLES.get(agent, ""))
    return bool(value) and not os.path.isabs(str(value))


def by_claude(workspace: Workspace, real: Path) -> bool | None:
    """`hasTrustDialogAccepted` of the folder, of one above, or of the repository that a worktree belongs to."""
    from counsel.agents.claude.servers import trust_settings  # it imports the code that edits files

    settings = read_json(workspace.claude_json())
    return any(inside(settings, *path) is True for path in trust_settings(real)) or None


def by_codex(workspace: Workspace, real: Path) -> bool | None:
    """`trust_level` of the folder, else of its repository. Codex ignores other folders above."""
    from counsel.agents.claude.servers import project_key  # git's rules are the same

    projects = _toml(workspace.codex_dir() / "config.toml").get("projects")
    levels = [inside(projects, str(path), "trust_level") for path in (real, project_key(real))]
    trust_level = next((level for level in levels if level), None)
    return None if trust_level is None else trust_level == "trusted"


def by_gemini(workspace: Workspace, real: Path) -> bool | None:
    """The longest matching rule of `trustedFolders.json`, as in Gemini CLI itself (0.61.0)."""
    rules = read_json(gemini_rules_file(workspace))
    best_path = ""
    for path, level in rules.items():
        folder = os.path.dirname(path) if level == "TRUST_PARENT" else path
        if os.path.isabs(path) and real.is_relative_to(real_path(folder)) and len(path) > len(best_path):
            best_path = path
    return None if not best_path else rules[best_path] in ("TRUST_FOLDER", "TRUST_PARENT")


def gemini_rules_file(workspace: Workspace) -> Path:
    """Gemini CLI's list of trusted folders."""
    override = workspace.env.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH")
    return workspace.project / override if override else workspace.gemini_dir() / "trustedFolders.json"


def _gemini_everywhere(workspace: Workspace) -> bool | None:
    """What a variable or a setting tells Gemini CLI about all folders."""
    setting = workspace.env.get("GEMINI_CLI_TRUST_WORKSPACE")
    if workspace.env.get("GEMINI_RESTRICTED_MODE") == "true" or setting == "false":
        return False
    settings = read_json(workspace.gemini_dir() / "settings.json")
    if setting == "true" or inside(settings, "security", "folderTrust", "enabled") is False:
        return True
    return None


_JUDGES = {"claude": by_claude, "codex": by_codex, "gemini": by_gemini}


def _toml(path: Path) -> dict[str, object]:
    from counsel.configfiles.document import parse  # rarely needed
    from counsel.errors import ConfigInvalid

    try:
        return dict(parse(path.read_text(encoding="utf-8"), "toml").value)
    except (OSError, ValueError, ConfigInvalid):
        return {}

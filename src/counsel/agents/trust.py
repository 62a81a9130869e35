"""Whether the user trusts a folder: what they said in the dialogs of Claude Code, Codex and Gemini CLI.

Folders are compared by their real paths: a link inside a trusted folder does not lend its trust to where it leads.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from counsel.agents.definitions import Workspace
from counsel.agents.detect import inside, read_json

# The variable that moves an agent's files. A relative one leads into the folder itself, whose word does not count.
MOVED = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "gemini": "GEMINI_CLI_HOME"}


def trusted(workspace: Workspace, folder: Path | None = None) -> bool:
    """One agent was told to trust it (the project's folder, unless another is named), and none to distrust it."""
    real = Path(os.path.realpath(folder or workspace.project))
    said = [judge(workspace, real) for agent, judge in _JUDGES.items() if not moved_inside(agent, workspace)]
    return True in said and False not in said


def by(agent: str, workspace: Workspace) -> bool | None:
    """What this agent itself was told of the project's folder; None: nothing, or it has no such dialog that is known."""
    judge = _JUDGES.get(agent)
    if judge is None or moved_inside(agent, workspace):
        return None
    if agent == "gemini" and (said := _gemini_everywhere(workspace)) is not None:
        return said
    return judge(workspace, Path(os.path.realpath(workspace.project)))


def moved_inside(agent: str, workspace: Workspace) -> bool:
    """Whether a relative variable makes files of the folder the user's own configuration of this agent."""
    value = workspace.env.get(MOVED.get(agent, ""))
    return bool(value) and not os.path.isabs(str(value))  # noqa: PTH117


def by_claude(workspace: Workspace, real: Path) -> bool | None:
    """`hasTrustDialogAccepted` of the folder, of one above, or of the repository that a worktree belongs to."""
    from counsel.agents.claude.servers import project_key  # noqa: PLC0415 - it imports what edits files

    known = read_json(workspace.claude_json()).get("projects")
    folders = (real, *real.parents, project_key(real))
    return any(inside(known, str(one), "hasTrustDialogAccepted") is True for one in folders) or None


def by_codex(workspace: Workspace, real: Path) -> bool | None:
    """`trust_level` of the folder, else of its repository. Codex does not look at other folders above."""
    from counsel.agents.claude.servers import project_key  # noqa: PLC0415 - git's rules are the same

    projects = _toml(workspace.codex_dir() / "config.toml").get("projects")
    levels = [inside(projects, str(one), "trust_level") for one in (real, project_key(real))]
    said = next((level for level in levels if level), None)
    return None if said is None else said == "trusted"


def by_gemini(workspace: Workspace, real: Path) -> bool | None:
    """The longest rule of `trustedFolders.json` that holds for the folder, as Gemini CLI itself takes it (0.61.0)."""
    moved = workspace.env.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH")
    rules = read_json(workspace.project / moved if moved else workspace.gemini_dir() / "trustedFolders.json")
    best = ""
    for path, level in rules.items():
        meant = os.path.dirname(path) if level == "TRUST_PARENT" else path  # noqa: PTH120
        if os.path.isabs(path) and real.is_relative_to(os.path.realpath(meant)) and len(path) > len(best):  # noqa: PTH117
            best = path
    return None if not best else rules[best] in {"TRUST_FOLDER", "TRUST_PARENT"}


def _gemini_everywhere(workspace: Workspace) -> bool | None:
    """What a variable or a setting tells Gemini CLI about all folders: its own matter, no word about this one."""
    asked = workspace.env.get("GEMINI_CLI_TRUST_WORKSPACE")
    if workspace.env.get("GEMINI_RESTRICTED_MODE") == "true" or asked == "false":
        return False
    settings = read_json(workspace.gemini_dir() / "settings.json")
    if asked == "true" or inside(settings, "security", "folderTrust", "enabled") is False:
        return True
    return None


_JUDGES = {"claude": by_claude, "codex": by_codex, "gemini": by_gemini}


def _toml(path: Path) -> dict[str, Any]:
    from counsel.configfiles.document import parse  # noqa: PLC0415 - only where it is needed
    from counsel.errors import ConfigInvalid  # noqa: PLC0415

    try:
        return dict(parse(path.read_text(encoding="utf-8"), "toml").value)
    except (OSError, ValueError, ConfigInvalid):
        return {}

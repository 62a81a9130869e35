"""Whether the user trusts a folder: what they said in the dialogs of Claude Code, Codex and Gemini CLI.

Folders are compared by their real paths: a link inside a trusted folder does not lend its trust to where it leads.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from counsel.agents.base import Place
from counsel.agents.installed import inside, read_json

# The variable that moves an agent's files. A relative one leads into the folder itself, whose word does not count.
MOVED = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "gemini": "GEMINI_CLI_HOME"}


def trusted(place: Place, folder: Path | None = None) -> bool:
    """One agent was told to trust it (the project's folder, unless another is named), and none to distrust it."""
    real = Path(os.path.realpath(folder or place.project))
    judges = {"claude": by_claude, "codex": by_codex, "gemini": by_gemini}
    said = [judge(place, real) for agent, judge in judges.items() if not moved_inside(agent, place)]
    return True in said and False not in said


def moved_inside(agent: str, place: Place) -> bool:
    """Whether a relative variable makes files of the folder the user's own configuration of this agent."""
    value = place.env.get(MOVED.get(agent, ""))
    return bool(value) and not os.path.isabs(str(value))  # noqa: PTH117


def by_claude(place: Place, real: Path) -> bool | None:
    """`hasTrustDialogAccepted` of the folder, of one above, or of the repository that a worktree belongs to."""
    from counsel.agents.claude.servers import project_key  # noqa: PLC0415 - it imports what edits files

    known = read_json(place.claude_json()).get("projects")
    folders = (real, *real.parents, project_key(real))
    return any(inside(known, str(one), "hasTrustDialogAccepted") is True for one in folders) or None


def by_codex(place: Place, real: Path) -> bool | None:
    """`trust_level` of the folder, else of its repository. Codex does not look at other folders above."""
    from counsel.agents.claude.servers import project_key  # noqa: PLC0415 - git's rules are the same

    projects = _toml(place.codex_dir() / "config.toml").get("projects")
    levels = [inside(projects, str(one), "trust_level") for one in (real, project_key(real))]
    said = next((level for level in levels if level), None)
    return None if said is None else said == "trusted"


def by_gemini(place: Place, real: Path) -> bool | None:
    """The nearest rule of `trustedFolders.json`."""
    rules = read_json(place.gemini_dir() / "trustedFolders.json")
    parents = {str(Path(child).parent) for child, rule in rules.items() if rule == "TRUST_PARENT"}
    for folder in (real, *real.parents):
        if rule := rules.get(str(folder)):
            return str(rule) != "DO_NOT_TRUST"
        if str(folder) in parents:
            return True
    return None


def _toml(path: Path) -> dict[str, Any]:
    from counsel.configfiles.document import parse  # noqa: PLC0415 - only where it is needed
    from counsel.errors import ConfigInvalid  # noqa: PLC0415

    try:
        return dict(parse(path.read_text(encoding="utf-8"), "toml").value)
    except (OSError, ValueError, ConfigInvalid):
        return {}

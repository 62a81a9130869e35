"""Skills of all agents: listed, checked and shared.

>>> from counsel.skills import list_skills        # doctest: +SKIP
>>> [skill.command for skill in list_skills().skills]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counsel.agents.skill_format import Problem, Skill
    from counsel.skills.check import check_skill
    from counsel.skills.discover import Listing, list_skills, matching
    from counsel.skills.matrix import skill_matrix
    from counsel.skills.share import share_skill
    from counsel.skills.show import show_skill
    from counsel.skills.unshare import undo_sharing, unshare_skill

# Imported at first use, so `counsel skills list` imports 146 modules instead of 185.
_MODULES = {
    "list_skills": "counsel.skills.discover",
    "matching": "counsel.skills.discover",
    "Listing": "counsel.skills.discover",
    "check_skill": "counsel.skills.check",
    "skill_matrix": "counsel.skills.matrix",
    "share_skill": "counsel.skills.share",
    "unshare_skill": "counsel.skills.unshare",
    "undo_sharing": "counsel.skills.unshare",
    "show_skill": "counsel.skills.show",
    "Skill": "counsel.agents.skill_format",
    "Problem": "counsel.agents.skill_format",
}

__all__ = [
    "Listing",
    "Problem",
    "Skill",
    "check_skill",
    "list_skills",
    "matching",
    "share_skill",
    "show_skill",
    "skill_matrix",
    "undo_sharing",
    "unshare_skill",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(importlib.import_module(_MODULES[name]), name)

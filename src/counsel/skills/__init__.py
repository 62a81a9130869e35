"""Skills of all agents: found, understood, shared.

>>> from counsel.skills import list_skills        # doctest: +SKIP
>>> [skill.command for skill in list_skills().skills]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counsel.skills.check import check_skill
    from counsel.skills.discover import list_skills, matching
    from counsel.skills.matrix import skill_matrix
    from counsel.skills.model import Listing, Problem, Skill
    from counsel.skills.share import share_skill
    from counsel.skills.show import show_skill
    from counsel.skills.unshare import undo_sharing, unshare_skill

# Names are fetched when used: the agents' rooms import this package's modules, and its list imports the agents.
_HOMES = {
    "list_skills": "discover",
    "matching": "discover",
    "check_skill": "check",
    "skill_matrix": "matrix",
    "share_skill": "share",
    "unshare_skill": "unshare",
    "undo_sharing": "unshare",
    "show_skill": "show",
    "Skill": "record",
    "Problem": "record",
    "Listing": "record",
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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"counsel.skills.{_HOMES[name]}"), name)

"""The skills of every agent, as each would load them here."""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from counsel import paths
from counsel.agents.definitions import WITH_SKILLS, Workspace, workspace_of
from counsel.agents.skill_format import SCOPES, Skill, SkillFormat
from counsel.agents.skill_scanner import SkillScanner
from counsel.errors import InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.skills.drift import with_drift


@dataclass(frozen=True, slots=True)
class Listing:
    skills: tuple[Skill, ...]
    problems: tuple[str, ...] = ()  # folders and settings that could not be read

    def as_dict(self) -> dict[str, Any]:
        return {"skills": [skill.as_dict() for skill in self.skills], "problems": list(self.problems)}


def skill_format(agent: str) -> SkillFormat:
    if agent not in WITH_SKILLS:
        raise InvalidArgument(
            f"unknown agent {agent!r}.", hint=f"Agents: {', '.join(WITH_SKILLS)}.", agent=agent
        )
    return cast(SkillFormat, importlib.import_module(f"counsel.agents.{agent}.skills"))


def list_skills(
    *,
    agents: Collection[str] | None = None,
    scopes: Collection[str] | None = None,
    text: str = "",
    project: Path | str | None = None,
    env: Mapping[str, str] | None = None,
) -> Listing:
    """What each agent would load in `project`. One broken skill, folder or agent never hides the others."""
    for scope in scopes or ():
        if scope not in SCOPES:
            raise InvalidArgument(
                f"unknown scope {scope!r}.", hint=f"Scopes: {', '.join(SCOPES)}.", scope=scope
            )
    where = current_workspace(project, env)
    scanner = SkillScanner()
    wanted = list(dict.fromkeys(agents or WITH_SKILLS))
    found = [skill for agent in wanted for skill in _of_one(agent, where, scanner)]
    problems = tuple(dict.fromkeys(scanner.problems))
    # a copy that differs may be another agent's
    others = [
        skill for agent in WITH_SKILLS if agent not in wanted for skill in _of_one(agent, where, scanner)
    ]
    marked = with_drift((*found, *others))[: len(found)]
    kept = (skill for skill in marked if not scopes or skill.scope in scopes)
    return Listing(tuple(matching(kept, text)), problems)


def current_workspace(project: Path | str | None = None, env: Mapping[str, str] | None = None) -> Workspace:
    """Whose home, which environment, which folder: the caller's own unless said otherwise."""
    try:
        folder = Path(project).expanduser() if project else paths.current_folder()
        there = paths.isdir(folder)
    except (OSError, RuntimeError, ValueError):  # the folder is gone, or nobody's home is known
        folder, there = Path(project or "."), False
    if not there:
        raise InvalidArgument(
            f"{folder} is not a folder.", hint="Give the project's folder.", file=str(folder)
        )
    return workspace_of(os.environ if env is None else env, Path(os.path.abspath(folder)))  # noqa: PTH100 - links stay as said


def _of_one(agent: str, where: Workspace, scanner: SkillScanner) -> list[Skill]:
    found = skill_format(agent).skills(where, scanner)
    return sorted(found, key=lambda skill: (SCOPES.index(skill.scope), skill.name.lower(), str(skill.path)))


def matching(skills: Iterable[Skill], text: str) -> list[Skill]:
    """Skills in whose name, description, plugin or path every word of `text` occurs."""
    words = text.lower().split()
    if not words:
        return list(skills)
    return [skill for skill in skills if all(word in _haystack(skill) for word in words)]


def _haystack(skill: Skill) -> str:
    return f"{skill.name}\n{skill.description}\n{skill.plugin or ''}\n{skill.path}".lower()

"""The skills of every agent, as each would load them in a folder."""

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
            f"There is no agent {agent!r}.", hint=f"Agents: {', '.join(WITH_SKILLS)}.", agent=agent
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
    """The skills that each agent would load in `project`. A broken skill, folder or agent never hides the others."""
    for scope in scopes or ():
        if scope not in SCOPES:
            raise InvalidArgument(
                f"There is no scope {scope!r}.", hint=f"Scopes: {', '.join(SCOPES)}.", scope=scope
            )
    workspace = current_workspace(project, env)
    scanner = SkillScanner()
    names = list(dict.fromkeys(agents or WITH_SKILLS))
    skills = [skill for agent in names for skill in _skills_of(agent, workspace, scanner)]
    problems = tuple(dict.fromkeys(scanner.problems))
    # A differing copy may belong to an agent that is not in `names`.
    other_skills = [
        skill
        for agent in WITH_SKILLS
        if agent not in names
        for skill in _skills_of(agent, workspace, scanner)
    ]
    with_notes = with_drift((*skills, *other_skills))[: len(skills)]
    in_scope = (skill for skill in with_notes if not scopes or skill.scope in scopes)
    return Listing(tuple(matching(in_scope, text)), problems)


def current_workspace(project: Path | str | None = None, env: Mapping[str, str] | None = None) -> Workspace:
    """Home, environment and folder; by default those of this process."""
    try:
        folder = Path(project).expanduser() if project else paths.current_folder()
        exists = paths.isdir(folder)
    except (OSError, RuntimeError, ValueError):  # the folder is gone, or the home folder is unknown
        folder, exists = Path(project or "."), False
    if not exists:
        raise InvalidArgument(
            f"{folder} is not a folder.", hint="Give the project's folder.", file=str(folder)
        )
    return workspace_of(os.environ if env is None else env, Path(os.path.abspath(folder)))  # noqa: PTH100 - keeps links, as the clients do


def _skills_of(agent: str, workspace: Workspace, scanner: SkillScanner) -> list[Skill]:
    skills = skill_format(agent).skills(workspace, scanner)
    return sorted(skills, key=lambda skill: (SCOPES.index(skill.scope), skill.name.lower(), str(skill.path)))


def matching(skills: Iterable[Skill], text: str) -> list[Skill]:
    """Skills whose name, description, plugin or path contains every word of `text`."""
    words = text.lower().split()
    if not words:
        return list(skills)
    return [skill for skill in skills if all(word in _searched_text(skill) for word in words)]


def _searched_text(skill: Skill) -> str:
    return f"{skill.name}\n{skill.description}\n{skill.plugin or ''}\n{skill.path}".lower()

"""One skill in detail: its text, files, allowed tools and problems."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from counsel.agents.skill_format import Skill
from counsel.agents.skill_scanner import SkillScanner
from counsel.errors import NotFound
from counsel.lazy_dataclass import dataclass
from counsel.skills.check import Finding, check_skill
from counsel.skills.discover import Listing, list_skills
from counsel.skills.drift import files_of
from counsel.skills.frontmatter import Frontmatter, read
from counsel.text import did_you_mean


@dataclass(frozen=True, slots=True)
class SkillDetails:
    skill: Skill
    others: tuple[Skill, ...]  # with the same name in another place, or the same file in another agent
    header: Frontmatter
    files: tuple[tuple[str, int], ...]
    findings: tuple[Finding, ...]

    @property
    def tools(self) -> tuple[str, ...]:
        return self.header.list("allowed-tools")

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.skill.as_dict(),
            "text": self.header.body,
            "fields": {key: self.header.text(key) for key in self.header.fields},
            "allowed_tools": list(self.tools),
            "files": [{"path": path, "bytes": size} for path, size in self.files],
            "check": [finding.as_dict() for finding in self.findings],
            "elsewhere": [copy.as_dict() for copy in self.others],
        }


def show_skill(
    name: str,
    *,
    agents: Collection[str] | None = None,
    scopes: Collection[str] | None = None,
    project: Path | str | None = None,
    env: Mapping[str, str] | None = None,
) -> SkillDetails:
    """The skill with this name, command, folder or path; of several, preferably one that an agent loads."""
    matches = skills_named(list_skills(agents=agents, scopes=scopes, project=project, env=env), name)
    skill = matches[0]
    file = SkillScanner().file(str(skill.real))
    header = read(file.text)
    return SkillDetails(
        skill,
        tuple(matches[1:]),
        header,
        tuple(files_of(skill.real.parent)),
        check_skill(header, skill.folder),
    )


def skills_named(listing: Listing, name: str) -> list[Skill]:
    """Every skill with this name, best first; `NotFound` suggests similar names."""
    matches = [skill for skill in listing.skills if name in _names(skill)]
    if not matches:
        names = sorted({skill.name for skill in listing.skills})
        similar = difflib.get_close_matches(name, names, n=3)
        hint = did_you_mean(similar) or "`counsel skills list` shows all skills."
        raise NotFound(f"No skill is named {name!r}.", hint=hint)
    return sorted(matches, key=lambda skill: (not skill.accepted, name != skill.name, skill.shared))


def _names(skill: Skill) -> set[str]:
    return {
        skill.name,
        skill.command or "",
        skill.folder.name,
        str(skill.path),
        str(skill.folder),
        str(skill.real),
    } - {""}

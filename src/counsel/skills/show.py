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
class Shown:
    skill: Skill
    others: tuple[Skill, ...]  # the same name elsewhere, or the same file at another agent
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
            "elsewhere": [other.as_dict() for other in self.others],
        }


def show_skill(
    name: str,
    *,
    agents: Collection[str] | None = None,
    scopes: Collection[str] | None = None,
    project: Path | str | None = None,
    env: Mapping[str, str] | None = None,
) -> Shown:
    """The skill with this name, command, folder or path; of several, one that an agent loads."""
    matches = named(list_skills(agents=agents, scopes=scopes, project=project, env=env), name)
    skill = matches[0]
    file = SkillScanner().file(str(skill.real))
    header = read(file.text)
    return Shown(
        skill,
        tuple(matches[1:]),
        header,
        tuple(files_of(skill.real.parent)),
        check_skill(header, skill.folder),
    )


def named(listing: Listing, name: str) -> list[Skill]:
    """Every skill with this name, best first; `NotFound` suggests similar names."""
    matches = [skill for skill in listing.skills if name in _names(skill)]
    if not matches:
        known = sorted({skill.name for skill in listing.skills})
        similar = difflib.get_close_matches(name, known, n=3)
        hint = did_you_mean(similar) or "See `counsel skills list`."
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

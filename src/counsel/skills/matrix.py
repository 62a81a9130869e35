"""Skills by agent: which have their own copy, read a shared one or have none, and whether the copies are identical."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from counsel.agents.definitions import WITH_SKILLS
from counsel.agents.skill_format import Skill
from counsel.lazy_dataclass import dataclass
from counsel.skills.drift import differing_copies, groups_of_copies

Cell: TypeAlias = Literal["own", "shared", "disabled", "untrusted", "refused", "missing"]


_NOT_LOADED: tuple[Literal["disabled", "untrusted", "refused"], ...] = ("disabled", "untrusted", "refused")


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    cells: dict[str, Cell]
    copies: int
    identical: bool  # all copies have the same files

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "agents": self.cells, "copies": self.copies, "identical": self.identical}


def skill_matrix(skills: Iterable[Skill], agents: Iterable[str] = WITH_SKILLS) -> tuple[Row, ...]:
    """The matrix of a complete listing, without the skills that come with an agent (scope `system`)."""
    groups = groups_of_copies(skill for skill in skills if skill.scope != "system")
    names = list(agents)
    return tuple(
        _row(name, group, names) for name, group in sorted(groups.items(), key=lambda item: item[0].lower())
    )


def _row(name: str, group: list[Skill], agents: list[str]) -> Row:
    cells = {agent: _cell([skill for skill in group if skill.agent == agent]) for agent in agents}
    return Row(name, cells, len({skill.real for skill in group}), not differing_copies(group))


def _cell(skills: list[Skill]) -> Cell:
    accepted_skills = [skill for skill in skills if skill.accepted]
    if accepted_skills:
        return "own" if any(not skill.shared for skill in accepted_skills) else "shared"
    states = {skill.state for skill in skills}
    return next((state for state in _NOT_LOADED if state in states), "missing")

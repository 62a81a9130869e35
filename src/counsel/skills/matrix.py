"""Skills by agent: which have it, which read it from a shared folder, which lack it, and whether copies agree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from counsel.agents.definitions import WITH_SKILLS
from counsel.agents.skill_format import Skill
from counsel.lazy_dataclass import dataclass
from counsel.skills.drift import drifted, grouped

Cell: TypeAlias = Literal["own", "shared", "disabled", "untrusted", "refused", "missing"]


_LESSER: tuple[Literal["disabled", "untrusted", "refused"], ...] = ("disabled", "untrusted", "refused")


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    cells: dict[str, Cell]
    copies: int
    identical: bool  # all copies have the same files

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "agents": self.cells, "copies": self.copies, "identical": self.identical}


def skill_matrix(skills: Iterable[Skill], agents: Iterable[str] = WITH_SKILLS) -> tuple[Row, ...]:
    """From a complete listing, without the skills that come with an agent (scope `system`)."""
    groups = grouped(skill for skill in skills if skill.scope != "system")
    names = list(agents)
    return tuple(
        _row(name, group, names) for name, group in sorted(groups.items(), key=lambda item: item[0].lower())
    )


def _row(name: str, group: list[Skill], agents: list[str]) -> Row:
    cells = {agent: _cell([skill for skill in group if skill.agent == agent]) for agent in agents}
    return Row(name, cells, len({skill.real for skill in group}), not drifted(group))


def _cell(skills: list[Skill]) -> Cell:
    loaded = [skill for skill in skills if skill.accepted]
    if loaded:
        return "own" if any(not skill.shared for skill in loaded) else "shared"
    states = {skill.state for skill in skills}
    return next((state for state in _LESSER if state in states), "missing")

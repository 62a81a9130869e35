"""A skill as one agent sees it, and what every `agents/*/skills.py` offers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from counsel.agents.definitions import Workspace
    from counsel.agents.skill_scanner import SkillScanner

Scope: TypeAlias = Literal["project", "user", "plugin", "admin", "system"]
SCOPES: tuple[Scope, ...] = ("project", "user", "plugin", "admin", "system")
State: TypeAlias = Literal["loaded", "disabled", "untrusted", "shadowed", "refused"]


class Problem(NamedTuple):
    """`code` is for programs; `message` says what is wrong and what to do."""

    code: str
    message: str


class Skill(NamedTuple):  # not a dataclass: there may be thousands, and each note makes a new one
    agent: str
    scope: Scope
    name: str  # the agent's name for it
    description: str
    path: Path  # its SKILL.md, as the agent finds it
    real: Path  # the same file with all links resolved
    command: str | None  # what a user types; None: the agent offers none
    state: State = "loaded"
    notes: tuple[Problem, ...] = ()
    model: bool = True  # the agent may choose it on its own
    shared: bool = False  # it is in a folder that several agents read
    plugin: str | None = None
    version: str | None = None
    shadowed_by: Path | None = None

    @property
    def accepted(self) -> bool:
        return self.state == "loaded"

    @property
    def folder(self) -> Path:
        return self.path.parent

    def with_note(self, code: str, message: str, state: State | None = None, **changes: Any) -> Skill:
        notes = (*self.notes, Problem(code, message))
        return self._replace(notes=notes, state=state or self.state, **changes)

    def as_dict(self) -> dict[str, Any]:
        """The JSON of `skills list`."""
        return {
            "agent": self.agent,
            "scope": self.scope,
            "name": self.name,
            "description": self.description,
            "path": str(self.path),
            "command": self.command,
            "accepted": self.accepted,
            "problems": [note.message for note in self.notes],
            "state": self.state,
            "codes": [note.code for note in self.notes],
            "model": self.model,
            "shared": self.shared,
            "plugin": self.plugin,
            "version": self.version,
            "shadowed_by": str(self.shadowed_by) if self.shadowed_by else None,
            "links_to": str(self.real) if self.real != self.path else None,
        }


class Root(NamedTuple):
    """A folder that an agent searches."""

    path: Path
    scope: Scope
    shared: bool = False
    plugin: str | None = None
    version: str | None = None
    prefix: str = ""  # of a plugin's skills


class SkillFormat(Protocol):
    """What every `agents/*/skills.py` offers."""

    def skills(self, workspace: Workspace, scanner: SkillScanner) -> list[Skill]: ...
    def user_folder(self, workspace: Workspace) -> Path: ...
    def project_folder(self, workspace: Workspace) -> Path: ...

"""Share one skill with several agents: put a link or a copy where each of them looks.

Agents that read the shared folder `.agents/skills` get one link there. Existing files are replaced only after
confirmation; they are moved to COUNSEL_HOME/backups/skills, and the undo log records how to restore them.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from counsel.agents.definitions import AGENTS, WITH_SKILLS, Workspace
from counsel.agents.skill_format import Skill
from counsel.errors import Conflict, InvalidArgument
from counsel.lazy_dataclass import dataclass
from counsel.skills.discover import Listing, current_workspace, list_skills, skill_format
from counsel.skills.drift import differing_copies, folder_digest
from counsel.skills.show import skills_named
from counsel.skills.undo_log import UndoEntry, UndoLog, new_id, restore

Kind: TypeAlias = Literal["link", "copy"]
# `beside`: the path is free, but an agent has another skill of that name elsewhere
Fate: TypeAlias = Literal["share", "beside", "replace", "already", "shared", "replaced", "removed", "kept"]


@dataclass(frozen=True, slots=True)
class Step:
    """One link or copy, planned or made."""

    agents: tuple[str, ...]
    path: Path
    fate: Fate
    kind: Kind
    source: Path
    message: str = ""
    backup: Path | None = None

    @property
    def blocked(self) -> bool:
        """Whether the step needs confirmation."""
        return self.fate in {"replace", "beside"}

    def as_dict(self) -> dict[str, Any]:
        return {
            "agents": list(self.agents),
            "path": str(self.path),
            "fate": self.fate,
            "kind": self.kind,
            "source": str(self.source),
            "words": self.message,
            "backup": str(self.backup) if self.backup else None,
        }


@dataclass(frozen=True, slots=True)
class Sharing:
    skill: str
    scope: str
    steps: tuple[Step, ...]
    id: str = ""  # empty: nothing was changed
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "skill": self.skill,
            "scope": self.scope,
            "id": self.id or None,
            "steps": [step.as_dict() for step in self.steps],
            "warnings": list(self.warnings),
        }


# ── sharing ──────────────────────────────────────────────────────────────────────────────────────────


def share_skill(
    name: str,
    *,
    to: Collection[str] = (),
    scope: str = "user",
    copy: bool = False,
    replace_existing: bool = False,
    dry_run: bool = False,
    project: Path | str | None = None,
    env: Mapping[str, str] | None = None,
) -> Sharing:
    """Share the skill with the agents `to` (none: all). Without `replace_existing`, `Conflict` if something else is in
    the way; a dry run reports it instead (`fate` is `replace` or `beside`)."""
    _refuse_unknown_scope(scope)
    workspace = current_workspace(project, env)
    listing = list_skills(project=workspace.project, env=workspace.env)
    matches = skills_named(listing, name)
    skill = matches[0]
    _refuse_loose_file(skill)
    steps = _plan(
        skill, listing, checked_agents(to), scope=scope, kind="copy" if copy else "link", workspace=workspace
    )
    sharing = Sharing(
        skill.name, scope, tuple(steps), warnings=tuple(_warnings(matches, steps, scope, workspace))
    )
    if dry_run or all(step.fate == "already" for step in steps):
        return sharing
    _refuse_replacing(steps, replace_existing=replace_existing)
    result = _apply(sharing, workspace)
    return replace(result, warnings=(*result.warnings, *_not_loaded(result, workspace)))


def _refuse_unknown_scope(scope: str) -> None:
    if scope not in {"user", "project"}:
        raise InvalidArgument(f"Skills can be shared in scope user or project, not {scope!r}.", scope=scope)


def _refuse_loose_file(skill: Skill) -> None:
    if skill.folder.name == "skills" and skill.folder.parent.name.startswith("."):
        message = f"{skill.path} is directly in a skills folder: sharing it would share that whole folder."
        raise InvalidArgument(message, hint="Move it into a folder of its own.", file=str(skill.path))


def checked_agents(to: Collection[str]) -> list[str]:
    for agent in to:
        skill_format(agent)  # refuses unknown names
    return list(dict.fromkeys(to or WITH_SKILLS))


def _plan(
    skill: Skill, listing: Listing, agents: list[str], *, scope: str, kind: Kind, workspace: Workspace
) -> list[Step]:
    source = skill.real.parent if skill.real.name == skill.path.name else skill.folder
    targets: dict[Path, list[str]] = {}
    steps: list[Step] = []
    for agent in agents:
        if existing := _existing(agent, source, _SCOPES_THAT_COUNT[scope, kind], listing):
            message = f"{AGENTS[agent].label} reads it from {existing.folder}"
            steps.append(Step((agent,), existing.folder, "already", kind, source, message))
        else:
            targets.setdefault(_target(agent, skill, scope, workspace), []).append(agent)
    return steps + [_step(path, names, source, kind, listing) for path, names in targets.items()]


# Scopes in which the agent must already have the skill, so that it need not be shared. For the user, a skill in the
# project is not enough: it is missing in other projects. A copy in the project is for other people, so only one there
# counts.
_GLOBAL = frozenset({"user", "admin", "system"})
_SCOPES_THAT_COUNT: dict[tuple[str, Kind], frozenset[str]] = {
    ("user", "link"): _GLOBAL,
    ("user", "copy"): _GLOBAL,
    ("project", "link"): _GLOBAL | {"project", "plugin"},
    ("project", "copy"): frozenset({"project"}),
}


def _existing(agent: str, source: Path, scopes: frozenset[str], listing: Listing) -> Skill | None:
    """This skill as the agent loads it in one of the scopes, if it does."""
    return next(
        (
            skill
            for skill in listing.skills
            if skill.agent == agent
            and skill.accepted
            and skill.scope in scopes
            and skill.real.parent == source
        ),
        None,
    )


def _target(agent: str, skill: Skill, scope: str, workspace: Workspace) -> Path:
    fmt = skill_format(agent)
    folder = fmt.user_folder(workspace) if scope == "user" else fmt.project_folder(workspace)
    return folder / (skill.name.rpartition(":")[2] if skill.agent == "claude" else skill.folder.name)


def _step(path: Path, agents: list[str], source: Path, kind: Kind, listing: Listing) -> Step:
    step = Step(tuple(agents), path, "share", kind, source)
    if os.path.lexists(path):
        if os.path.realpath(path) == os.path.realpath(source):
            return replace(step, fate="already", message="already there")
        return replace(step, fate="replace", message=f"{path} exists; it would be moved to the backups")
    for skill in listing.skills:
        if (
            skill.agent in agents
            and skill.accepted
            and skill.folder.name == path.name
            and skill.real.parent != source
        ):
            message = f"{AGENTS[skill.agent].label} has another skill of this name in {skill.folder}"
            return replace(step, fate="beside", message=message)
    return step


def _warnings(skills: list[Skill], steps: list[Step], scope: str, workspace: Workspace) -> list[str]:
    skill = skills[0]
    warnings: list[str] = []
    if differing_copies(skills):
        warnings.append(
            f"Several different skills have this name; {skill.folder} is shared. To share another one, give its path."
        )
    if any(step.kind == "link" and step.fate != "already" for step in steps):
        if scope == "project" and not skill.real.is_relative_to(os.path.realpath(workspace.project)):
            warnings.append(
                "The link points outside the project: use --copy if other people use the project."
            )
        if skill.plugin:
            warnings.append(
                f"The link points into the plugin {skill.plugin}: it breaks when the plugin is updated or removed."
            )
    return warnings


def _refuse_replacing(steps: list[Step], *, replace_existing: bool) -> None:
    blocked_steps = [step for step in steps if step.blocked]
    if blocked_steps and not replace_existing:
        message = "; ".join(step.message for step in blocked_steps)
        note = (
            ": the existing files are moved to the backups"
            if any(s.fate == "replace" for s in blocked_steps)
            else ""
        )
        hint = f"Nothing was changed. Use --yes to continue{note}."
        raise Conflict(f"{message}.", hint=hint, file=str(blocked_steps[0].path))


def _apply(sharing: Sharing, workspace: Workspace) -> Sharing:
    undo_log = UndoLog(workspace.env)
    identity = new_id()
    with undo_log.locked():
        steps = [
            step if step.fate == "already" else _share_step(step, sharing, identity, undo_log, workspace)
            for step in sharing.steps
        ]
    return replace(sharing, steps=tuple(steps), id=identity)


def _share_step(step: Step, sharing: Sharing, identity: str, undo_log: UndoLog, workspace: Workspace) -> Step:
    exists = os.path.lexists(step.path)
    if exists and step.fate != "replace":
        message = f"{step.path} was created in the meantime."
        raise Conflict(message, hint="Try again.", file=str(step.path))
    backup = undo_log.backup_path(identity, step.path.name) if exists else None
    entry = UndoEntry(
        identity,
        sharing.skill,
        step.agents,
        sharing.scope,
        step.kind,
        str(step.path),
        str(step.source),
        points_to=_link_text(step, workspace) if step.kind == "link" else "",
        digest=folder_digest(step.source) if step.kind == "copy" else "",
        made=tuple(str(folder) for folder in _missing(step.path.parent)),
        backup=str(backup or ""),
    )
    undo_log.append(entry)
    try:
        step.path.parent.mkdir(parents=True, exist_ok=True)
        if backup:
            shutil.move(step.path, backup)
        _make(step, entry)
    except OSError as error:
        restore(entry)
        undo_log.mark_undone(entry)
        message = f"{step.path} could not be created ({error.strerror or error})."
        raise Conflict(
            message,
            hint="Links that this command created before stay; `counsel skills undo` removes them.",
            file=str(step.path),
        ) from None
    return replace(step, fate="replaced" if step.fate == "replace" else "shared", backup=backup)


def _not_loaded(sharing: Sharing, workspace: Workspace) -> list[str]:
    """A warning for each agent that does not load what was shared: it may refuse the skill."""
    agents_by_path = {step.path: step.agents for step in sharing.steps if step.fate in {"shared", "replaced"}}
    return [
        f"{AGENTS[skill.agent].label} does not use {skill.folder}: {skill.notes[0].message}"
        for skill in list_skills(project=workspace.project, env=workspace.env).skills
        if skill.agent in agents_by_path.get(skill.folder, ()) and not skill.accepted and skill.notes
    ]


def _link_text(step: Step, workspace: Workspace) -> str:
    """The link's target: relative inside the project, so that the project can be moved; otherwise absolute."""
    project = os.path.realpath(workspace.project)
    parent = os.path.realpath(step.path.parent)
    if step.source.is_relative_to(project) and Path(parent).is_relative_to(project):
        return os.path.relpath(step.source, parent)
    return str(step.source)


def _missing(folder: Path) -> list[Path]:
    return [parent for parent in reversed([folder, *folder.parents]) if not parent.exists()]


def _make(step: Step, entry: UndoEntry) -> None:
    if step.kind == "link":
        step.path.symlink_to(entry.points_to, target_is_directory=True)
        return
    temporary = step.path.with_name(f".{step.path.name}.{entry.id}")
    try:
        shutil.copytree(step.source, temporary, symlinks=True, ignore=_special_files)
        temporary.rename(step.path)
    finally:
        if temporary.exists():
            shutil.rmtree(temporary)


def _special_files(folder: str, names: list[str]) -> list[str]:
    """The pipes, sockets and devices, which are not copied: reading them could block forever."""
    kinds = {name: (Path(folder) / name).lstat().st_mode for name in names}
    return [
        name
        for name, mode in kinds.items()
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
    ]

"""Share one skill with several agents: put a link or a copy where each of them looks.

Agents that read the shared folder `.agents/skills` get one link there. Existing files are never replaced without
confirmation, and then moved to COUNSEL_HOME/backups/skills; the undo log records how to restore them.
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
from counsel.skills.drift import drifted, folder_digest
from counsel.skills.show import named
from counsel.skills.undo_log import UndoEntry, UndoLog, new_id, restore

Kind: TypeAlias = Literal["link", "copy"]
# `beside`: the path is free, but an agent has another skill of that name elsewhere
Fate: TypeAlias = Literal["share", "beside", "replace", "already", "shared", "replaced", "removed", "kept"]


@dataclass(frozen=True, slots=True)
class Step:
    """One link or copy, planned or done."""

    agents: tuple[str, ...]
    path: Path
    fate: Fate
    kind: Kind
    source: Path
    message: str = ""
    backup: Path | None = None

    @property
    def blocked(self) -> bool:
        """Needs confirmation."""
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
    """Share the skill with the agents `to` (none: all). Raises `Conflict` when something else is in the way,
    unless `replace_existing`; a dry run reports it (`fate` is `replace` or `beside`)."""
    _known_scope(scope)
    workspace = current_workspace(project, env)
    listing = list_skills(project=workspace.project, env=workspace.env)
    matches = named(listing, name)
    skill = matches[0]
    _refuse_loose_file(skill)
    steps = _plan(
        skill, listing, known_agents(to), scope=scope, kind="copy" if copy else "link", workspace=workspace
    )
    sharing = Sharing(
        skill.name, scope, tuple(steps), warnings=tuple(_warnings(matches, steps, scope, workspace))
    )
    if dry_run or all(step.fate == "already" for step in steps):
        return sharing
    _refuse_replacing(steps, replace_existing=replace_existing)
    done = _apply(sharing, workspace)
    return replace(done, warnings=(*done.warnings, *_not_loaded(done, workspace)))


def _known_scope(scope: str) -> None:
    if scope not in {"user", "project"}:
        raise InvalidArgument(f"Skills can be shared in scope user or project, not {scope!r}.", scope=scope)


def _refuse_loose_file(skill: Skill) -> None:
    if skill.folder.name == "skills" and skill.folder.parent.name.startswith("."):
        message = f"{skill.path} is directly in a skills folder: sharing it would share the whole folder."
        raise InvalidArgument(message, hint="Move it into a folder of its own.", file=str(skill.path))


def known_agents(to: Collection[str]) -> list[str]:
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
        if existing := _existing(agent, source, _ENOUGH[scope, kind], listing):
            message = f"{AGENTS[agent].label} reads it from {existing.folder}"
            steps.append(Step((agent,), existing.folder, "already", kind, source, message))
        else:
            targets.setdefault(_target(agent, skill, scope, workspace), []).append(agent)
    return steps + [_step(path, names, source, kind, listing) for path, names in targets.items()]


# Scopes in which the agent may already have the skill: one in the project does not help in other projects, and a copy
# in the project is meant for other people.
#
_GLOBAL = frozenset({"user", "admin", "system"})
_ENOUGH: dict[tuple[str, Kind], frozenset[str]] = {
    ("user", "link"): _GLOBAL,
    ("user", "copy"): _GLOBAL,
    ("project", "link"): _GLOBAL | {"project", "plugin"},
    ("project", "copy"): frozenset({"project"}),
}


def _existing(agent: str, source: Path, enough: frozenset[str], listing: Listing) -> Skill | None:
    """This skill as the agent sees it, if it does."""
    return next(
        (
            skill
            for skill in listing.skills
            if skill.agent == agent
            and skill.accepted
            and skill.scope in enough
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
    if drifted(skills):
        warnings.append(
            f"Several different skills have this name: {skill.folder} is shared. Give a path to share another one."
        )
    if any(step.kind == "link" and step.fate != "already" for step in steps):
        if scope == "project" and not skill.real.is_relative_to(os.path.realpath(workspace.project)):
            warnings.append("The link points out of the project: use --copy if other people use the project.")
        if skill.plugin:
            warnings.append(
                f"The link points into the plugin {skill.plugin}: it breaks when the plugin is updated or removed."
            )
    return warnings


def _refuse_replacing(steps: list[Step], *, replace_existing: bool) -> None:
    blocked = [step for step in steps if step.blocked]
    if blocked and not replace_existing:
        message = "; ".join(step.message for step in blocked)
        note = (
            ": the existing files are moved to the backups"
            if any(s.fate == "replace" for s in blocked)
            else ""
        )
        hint = f"Nothing was changed. Use --yes to continue{note}."
        raise Conflict(f"{message}.", hint=hint, file=str(blocked[0].path))


def _apply(sharing: Sharing, workspace: Workspace) -> Sharing:
    undo_log = UndoLog(workspace.env)
    identity = new_id()
    with undo_log.locked():
        done = [
            step if step.fate == "already" else _put(step, sharing, identity, undo_log, workspace)
            for step in sharing.steps
        ]
    return replace(sharing, steps=tuple(done), id=identity)


def _put(step: Step, sharing: Sharing, identity: str, undo_log: UndoLog, workspace: Workspace) -> Step:
    occupied = os.path.lexists(step.path)
    if occupied and step.fate != "replace":
        message = f"{step.path} was created in the meantime."
        raise Conflict(message, hint="Try again.", file=str(step.path))
    backup = undo_log.backup_path(identity, step.path.name) if occupied else None
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
            hint="Earlier links of this command stay: undo them with `counsel skills undo`.",
            file=str(step.path),
        ) from None
    return replace(step, fate="replaced" if step.fate == "replace" else "shared", backup=backup)


def _not_loaded(done: Sharing, workspace: Workspace) -> list[str]:
    """Agents that do not load what was shared, from a new listing: they may refuse the skill."""
    fresh = {step.path: step.agents for step in done.steps if step.fate in {"shared", "replaced"}}
    return [
        f"{AGENTS[skill.agent].label} does not use {skill.folder}: {skill.notes[0].message}"
        for skill in list_skills(project=workspace.project, env=workspace.env).skills
        if skill.agent in fresh.get(skill.folder, ()) and not skill.accepted and skill.notes
    ]


def _link_text(step: Step, workspace: Workspace) -> str:
    """Relative inside the project, so that the project can be moved; otherwise absolute."""
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
    beside = step.path.with_name(f".{step.path.name}.{entry.id}")
    try:
        shutil.copytree(step.source, beside, symlinks=True, ignore=_special)
        beside.rename(step.path)
    finally:
        if beside.exists():
            shutil.rmtree(beside)


def _special(folder: str, names: list[str]) -> list[str]:
    """Pipes, sockets and devices are not copied: reading them could block forever."""
    kinds = {name: (Path(folder) / name).lstat().st_mode for name in names}
    return [
        name
        for name, mode in kinds.items()
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
    ]

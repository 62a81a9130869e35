"""One skill for several agents: a link, or a copy, from where it lives to where each of them looks.

Agents that read the shared folder `.agents/skills` are served by one link there. What is already there is never
replaced without being asked, and then moved into COUNSEL_HOME/backups/skills; the journal knows how to take it all back.
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
# `beside`: nothing is in the place, but an agent has another skill of that name elsewhere
Fate: TypeAlias = Literal["share", "beside", "replace", "already", "shared", "replaced", "removed", "kept"]


@dataclass(frozen=True, slots=True)
class Step:
    """What happens, or happened, at one place."""

    agents: tuple[str, ...]
    path: Path
    fate: Fate
    kind: Kind
    source: Path
    words: str = ""
    backup: Path | None = None

    @property
    def blocked(self) -> bool:
        """Only with a person's yes."""
        return self.fate in {"replace", "beside"}

    def as_dict(self) -> dict[str, Any]:
        return {
            "agents": list(self.agents),
            "path": str(self.path),
            "fate": self.fate,
            "kind": self.kind,
            "source": str(self.source),
            "words": self.words,
            "backup": str(self.backup) if self.backup else None,
        }


@dataclass(frozen=True, slots=True)
class Sharing:
    skill: str
    scope: str
    steps: tuple[Step, ...]
    id: str = ""  # empty: nothing was done (a dry run, or nothing to do)
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
    """Let the agents `to` (none: all) see the skill. Refuses with `Conflict` where something else is in the way,
    unless `replace_existing`; a dry run tells instead (`fate` is `replace` or `beside`)."""
    _known_scope(scope)
    where = current_workspace(project, env)
    listing = list_skills(project=where.project, env=where.env)
    found = named(listing, name)
    skill = found[0]
    _refuse_loose(skill)
    steps = _plan(skill, listing, known_agents(to), scope=scope, kind="copy" if copy else "link", where=where)
    sharing = Sharing(skill.name, scope, tuple(steps), warnings=tuple(_warnings(found, steps, scope, where)))
    if dry_run or all(step.fate == "already" for step in steps):
        return sharing
    _refuse_replacing(steps, replace_existing=replace_existing)
    done = _carry_out(sharing, where)
    return replace(done, warnings=(*done.warnings, *_not_taken(done, where)))


def _known_scope(scope: str) -> None:
    if scope not in {"user", "project"}:
        raise InvalidArgument(f"skills are shared in scope user or project, not {scope!r}.", scope=scope)


def _refuse_loose(skill: Skill) -> None:
    if skill.folder.name == "skills" and skill.folder.parent.name.startswith("."):
        words = f"{skill.path} lies loose in a skills folder: sharing it would share them all."
        raise InvalidArgument(words, hint="Move it into a folder of its own.", file=str(skill.path))


def known_agents(to: Collection[str]) -> list[str]:
    for agent in to:
        skill_format(agent)  # refuses unknown names
    return list(dict.fromkeys(to or WITH_SKILLS))


def _plan(
    skill: Skill, listing: Listing, agents: list[str], *, scope: str, kind: Kind, where: Workspace
) -> list[Step]:
    source = skill.real.parent if skill.real.name == skill.path.name else skill.folder
    targets: dict[Path, list[str]] = {}
    steps: list[Step] = []
    for agent in agents:
        if has := _has(agent, source, _ENOUGH[scope, kind], listing):
            words = f"{AGENTS[agent].label} reads it from {has.folder}"
            steps.append(Step((agent,), has.folder, "already", kind, source, words))
        else:
            targets.setdefault(_target(agent, skill, scope, where), []).append(agent)
    return steps + [_step(path, names, source, kind, listing) for path, names in targets.items()]


# Where an agent must see the skill already: one in the project does not serve the user's other projects, and who
# asks for a copy in the project wants it there for others.
_EVERYBODYS = frozenset({"user", "admin", "system"})
_ENOUGH: dict[tuple[str, Kind], frozenset[str]] = {
    ("user", "link"): _EVERYBODYS,
    ("user", "copy"): _EVERYBODYS,
    ("project", "link"): _EVERYBODYS | {"project", "plugin"},
    ("project", "copy"): frozenset({"project"}),
}


def _has(agent: str, source: Path, enough: frozenset[str], listing: Listing) -> Skill | None:
    """The agent's own sight of this very skill."""
    return next(
        (
            one
            for one in listing.skills
            if one.agent == agent and one.accepted and one.scope in enough and one.real.parent == source
        ),
        None,
    )


def _target(agent: str, skill: Skill, scope: str, where: Workspace) -> Path:
    at = skill_format(agent)
    folder = at.user_folder(where) if scope == "user" else at.project_folder(where)
    return folder / (skill.name.rpartition(":")[2] if skill.agent == "claude" else skill.folder.name)


def _step(path: Path, agents: list[str], source: Path, kind: Kind, listing: Listing) -> Step:
    step = Step(tuple(agents), path, "share", kind, source)
    if os.path.lexists(path):
        if os.path.realpath(path) == os.path.realpath(source):
            return replace(step, fate="already", words="it is there")
        return replace(step, fate="replace", words=f"{path} exists; it would be moved into the backups")
    for one in listing.skills:
        if (
            one.agent in agents
            and one.accepted
            and one.folder.name == path.name
            and one.real.parent != source
        ):
            words = f"{AGENTS[one.agent].label} has another skill of this name in {one.folder}"
            return replace(step, fate="beside", words=words)
    return step


def _warnings(skills: list[Skill], steps: list[Step], scope: str, where: Workspace) -> list[str]:
    skill = skills[0]
    found: list[str] = []
    if drifted(skills):
        found.append(
            f"Different skills go by this name: {skill.folder} is shared; say a path to share another."
        )
    if any(step.kind == "link" and step.fate != "already" for step in steps):
        if scope == "project" and not skill.real.is_relative_to(os.path.realpath(where.project)):
            found.append("The link leads out of the project: for others who use it, share with --copy.")
        if skill.plugin:
            found.append(
                f"The link leads into the plugin {skill.plugin}: it breaks when that is updated or removed."
            )
    return found


def _refuse_replacing(steps: list[Step], *, replace_existing: bool) -> None:
    blocked = [step for step in steps if step.blocked]
    if blocked and not replace_existing:
        words = "; ".join(step.words for step in blocked)
        kept = ": what is there is kept in the backups" if any(s.fate == "replace" for s in blocked) else ""
        hint = f"Nothing was changed. Say --yes to go on{kept}."
        raise Conflict(f"{words}.", hint=hint, file=str(blocked[0].path))


def _carry_out(sharing: Sharing, where: Workspace) -> Sharing:
    undo_log = UndoLog(where.env)
    identity = new_id()
    with undo_log.locked():
        done = [
            step if step.fate == "already" else _put(step, sharing, identity, undo_log, where)
            for step in sharing.steps
        ]
    return replace(sharing, steps=tuple(done), id=identity)


def _put(step: Step, sharing: Sharing, identity: str, undo_log: UndoLog, where: Workspace) -> Step:
    occupied = os.path.lexists(step.path)
    if occupied and step.fate != "replace":
        words = f"{step.path} has come into being meanwhile."
        raise Conflict(words, hint="Try again.", file=str(step.path))
    backup = undo_log.backup_path(identity, step.path.name) if occupied else None
    entry = UndoEntry(
        identity,
        sharing.skill,
        step.agents,
        sharing.scope,
        step.kind,
        str(step.path),
        str(step.source),
        points_to=_link_text(step, where) if step.kind == "link" else "",
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
        words = f"{step.path} could not be made ({error.strerror or error})."
        raise Conflict(
            words, hint="What was shared before it stays: `counsel skills undo`.", file=str(step.path)
        ) from None
    return replace(step, fate="replaced" if step.fate == "replace" else "shared", backup=backup)


def _not_taken(done: Sharing, where: Workspace) -> list[str]:
    """What the agents make of it, looked at again: a link helps nobody who refuses what it shows."""
    fresh = {step.path: step.agents for step in done.steps if step.fate in {"shared", "replaced"}}
    return [
        f"{AGENTS[skill.agent].label} does not use {skill.folder}: {skill.notes[0].words}"
        for skill in list_skills(project=where.project, env=where.env).skills
        if skill.agent in fresh.get(skill.folder, ()) and not skill.accepted and skill.notes
    ]


def _link_text(step: Step, where: Workspace) -> str:
    """Relative inside the project, so that the project can be moved; absolute elsewhere."""
    project = os.path.realpath(where.project)
    parent = os.path.realpath(step.path.parent)
    if step.source.is_relative_to(project) and Path(parent).is_relative_to(project):
        return os.path.relpath(step.source, parent)
    return str(step.source)


def _missing(folder: Path) -> list[Path]:
    return [one for one in reversed([folder, *folder.parents]) if not one.exists()]


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
    """Pipes, sockets and devices are not copied: reading them could wait for ever."""
    kinds = {name: (Path(folder) / name).lstat().st_mode for name in names}
    return [
        name
        for name, mode in kinds.items()
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
    ]

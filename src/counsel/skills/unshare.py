"""Undo sharing: remove exactly what was shared, and restore what it replaced."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from counsel.errors import Conflict, NotFound
from counsel.skills.discover import current_workspace
from counsel.skills.drift import folder_digest
from counsel.skills.share import Sharing, Step, checked_agents
from counsel.skills.undo_log import UndoEntry, UndoLog, restore

_MOST_IDS = 5  # in a hint


def unshare_skill(
    name: str,
    *,
    to: Collection[str] = (),
    scope: str | None = None,
    dry_run: bool = False,
    project: Path | str | None = None,
    env: Mapping[str, str] | None = None,
) -> Sharing:
    """Remove this skill's links and copies for these agents, in the user's folders and in this project."""
    workspace = current_workspace(project, env)
    undo_log = UndoLog(workspace.env)
    agents = set(checked_agents(to))
    matches = [
        entry
        for entry in undo_log.active()
        if name in {entry.skill, Path(entry.path).name, entry.path}
        and agents & set(entry.agents)
        and scope in {None, entry.scope}
    ]
    entries = [entry for entry in matches if entry.scope == "user" or _is_in(workspace.project, entry)]
    if not entries:
        raise _nothing_shared(name, matches)
    _refuse_if_other_agents_use_it(entries, agents)
    return _undo(entries, undo_log, dry_run=dry_run)


def _is_in(project: Path, entry: UndoEntry) -> bool:
    return Path(os.path.realpath(Path(entry.path).parent)).is_relative_to(os.path.realpath(project))


def _nothing_shared(name: str, elsewhere: list[UndoEntry]) -> NotFound:
    if elsewhere:
        message = f"{name!r} is not shared in this project; it is shared at {elsewhere[0].path}."
        return NotFound(message, hint="Use --project DIR, or `counsel skills undo ID`.")
    hint = "Only links and copies made by `counsel skills share` can be removed; see `counsel skills list`."
    return NotFound(f"counsel has not shared {name!r}.", hint=hint)


def _refuse_if_other_agents_use_it(entries: list[UndoEntry], agents: set[str]) -> None:
    """Refuse to remove a link that also serves agents that were not named."""
    for entry in entries:
        if other_agents := [agent for agent in entry.agents if agent not in agents]:
            message = f"{entry.path} also serves {', '.join(other_agents)}."
            hint = f"Name them as well (--to {','.join(entry.agents)}), or leave --to out."
            raise Conflict(message, hint=hint, file=entry.path)


def undo_sharing(
    identity: str | None = None, *, dry_run: bool = False, env: Mapping[str, str] | None = None
) -> Sharing:
    """Undo one `share` command: the last, or the one with this id."""
    undo_log = UndoLog(os.environ if env is None else env)
    active = undo_log.active()
    share_id = identity or (active[-1].id if active else "")
    entries = [entry for entry in active if entry.id == share_id]
    if not entries:
        raise _nothing_to_undo(identity, active)
    return _undo(entries, undo_log, dry_run=dry_run)


def _nothing_to_undo(identity: str | None, active: list[UndoEntry]) -> NotFound:
    skills = {entry.id: entry.skill for entry in active}
    latest = ", ".join(f"{name} ({skills[name]})" for name in list(skills)[: -_MOST_IDS - 1 : -1])
    if identity is None or not skills:
        hint = "`counsel skills share NAME --to AGENT` shares a skill."
        message = (
            f"There is no share {identity!r} to undo."
            if identity
            else "No skill is shared: there is nothing to undo."
        )
        return NotFound(message, hint=hint)
    return NotFound(f"There is no share {identity!r} to undo.", hint=f"The last ones are {latest}.")


def _undo(entries: list[UndoEntry], undo_log: UndoLog, *, dry_run: bool) -> Sharing:
    with undo_log.locked():
        steps = [
            _planned_step(entry) if dry_run else _undo_entry(entry, undo_log) for entry in reversed(entries)
        ]
    return Sharing(entries[0].skill, entries[0].scope, tuple(steps), id="" if dry_run else entries[0].id)


def _planned_step(entry: UndoEntry) -> Step:
    """The step that undo would take; changes nothing."""
    path = Path(entry.path)
    step = Step(entry.agents, path, "removed", entry.kind, Path(entry.source))
    if not os.path.lexists(path):
        return replace(step, message="it no longer exists")
    if entry.kind == "link":
        is_unchanged = path.is_symlink() and str(path.readlink()) == entry.points_to
        return (
            step
            if is_unchanged
            else replace(step, fate="kept", message="it is no longer the link that counsel created")
        )
    if not path.is_dir() or path.is_symlink():
        return replace(step, fate="kept", message="it is no longer the copy that counsel created")
    is_changed = folder_digest(path) != entry.digest
    return (
        replace(step, message="it was changed since, so it is moved to the backups") if is_changed else step
    )


def _undo_entry(entry: UndoEntry, undo_log: UndoLog) -> Step:
    step = _planned_step(entry)
    path = Path(entry.path)
    if step.fate == "removed" and os.path.lexists(path):
        if entry.kind == "link":
            path.unlink()
        elif step.message:
            step = replace(step, backup=undo_log.backup_path(entry.id, f"{path.name}.changed"))
            assert step.backup
            shutil.move(path, step.backup)
        else:
            shutil.rmtree(path)
    restore(entry)
    undo_log.mark_undone(entry)
    return step

"""Taking back what was shared: exactly that, and putting back what had to make room for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from counsel.errors import Conflict, NotFound
from counsel.skills.discover import standing
from counsel.skills.drift import folder_digest
from counsel.skills.share import Sharing, Step, known_agents
from counsel.skills.undo_log import Deed, Journal, restore


def unshare_skill(
    name: str,
    *,
    to: Collection[str] = (),
    scope: str | None = None,
    dry_run: bool = False,
    project: Path | str | None = None,
    env: Mapping[str, str] | None = None,
) -> Sharing:
    """Take back what was shared of this skill (for these agents), for the user and in this project: nothing else."""
    where = standing(project, env)
    journal = Journal(where.env)
    agents = set(known_agents(to))
    shared = [
        deed
        for deed in journal.standing()
        if name in {deed.skill, Path(deed.path).name, deed.path}
        and agents & set(deed.agents)
        and scope in {None, deed.scope}
    ]
    deeds = [deed for deed in shared if deed.scope == "user" or _lies_in(where.project, deed)]
    if not deeds:
        raise _nothing_here(name, shared)
    _refuse_taking_from_others(deeds, agents)
    return _take_back(deeds, journal, dry_run=dry_run)


def _lies_in(project: Path, deed: Deed) -> bool:
    return Path(os.path.realpath(Path(deed.path).parent)).is_relative_to(os.path.realpath(project))


def _nothing_here(name: str, elsewhere: list[Deed]) -> NotFound:
    if elsewhere:
        words = f"{name!r} is not shared in this project, but as {elsewhere[0].path}."
        return NotFound(words, hint="Say that with --project DIR, or `counsel skills undo ID`.")
    hint = "Only what `counsel skills share` made is taken back; see `counsel skills list`."
    return NotFound(f"nothing of {name!r} was shared by counsel.", hint=hint)


def _refuse_taking_from_others(deeds: list[Deed], agents: set[str]) -> None:
    """One link may serve several agents: it is not taken from those who were not named."""
    for deed in deeds:
        if others := [agent for agent in deed.agents if agent not in agents]:
            words = f"{deed.path} also serves {', '.join(others)}."
            hint = f"Name them, too (--to {','.join(deed.agents)}), or leave --to out."
            raise Conflict(words, hint=hint, file=deed.path)


def undo_sharing(
    identity: str | None = None, *, dry_run: bool = False, env: Mapping[str, str] | None = None
) -> Sharing:
    """Take back one `share` command, the last unless its id is given."""
    journal = Journal(os.environ if env is None else env)
    standing_deeds = journal.standing()
    wanted = identity or (standing_deeds[-1].id if standing_deeds else "")
    deeds = [deed for deed in standing_deeds if deed.id == wanted]
    if not deeds:
        words = f"nothing to undo under {identity!r}." if identity else "nothing to undo: no skill is shared."
        raise NotFound(words, hint="`counsel skills share` prints the id of what it did.")
    return _take_back(deeds, journal, dry_run=dry_run)


def _take_back(deeds: list[Deed], journal: Journal, *, dry_run: bool) -> Sharing:
    with journal.held():
        steps = [_kept_or_removed(deed) if dry_run else _undone(deed, journal) for deed in reversed(deeds)]
    return Sharing(deeds[0].skill, deeds[0].scope, tuple(steps), id="" if dry_run else deeds[0].id)


def _kept_or_removed(deed: Deed) -> Step:
    """What taking back would do, looking only."""
    path = Path(deed.path)
    step = Step(deed.agents, path, "removed", deed.kind, Path(deed.source))
    if not os.path.lexists(path):
        return replace(step, words="it is gone already")
    if deed.kind == "link":
        ours = path.is_symlink() and str(path.readlink()) == deed.points_to
        return step if ours else replace(step, fate="kept", words="it is no longer the link that was made")
    if not path.is_dir() or path.is_symlink():
        return replace(step, fate="kept", words="it is no longer the copy that was made")
    changed = folder_digest(path) != deed.digest
    return replace(step, words="it was changed since: it is moved into the backups") if changed else step


def _undone(deed: Deed, journal: Journal) -> Step:
    step = _kept_or_removed(deed)
    path = Path(deed.path)
    if step.fate == "removed" and os.path.lexists(path):
        if deed.kind == "link":
            path.unlink()
        elif step.words:
            step = replace(step, backup=journal.backup_place(deed.id, f"{path.name}.changed"))
            assert step.backup  # noqa: S101
            shutil.move(path, step.backup)
        else:
            shutil.rmtree(path)
    restore(deed)
    journal.took_back(deed)
    return step

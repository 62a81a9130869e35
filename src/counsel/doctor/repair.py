"""`counsel doctor --repair`: fixes what it can in COUNSEL_HOME, step by step, and reports each step.

Nothing is deleted: a damaged database is moved aside. Replacing or restoring a database needs confirmation.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from counsel.caller import Caller
from counsel.doctor.files import daemon_runs, home_entries
from counsel.doctor.messages import Finding
from counsel.engine.jobs.callers import Secret
from counsel.engine.store import DATABASE
from counsel.engine.store.sqlite import backups, files, maintenance, opening, recovery
from counsel.errors import CounselError
from counsel.paths import isdir
from counsel.text import counted

Confirm = Callable[[str], bool]  # asks the user a question


def repair(caller: Caller, confirm: Confirm) -> list[Finding]:
    """Repair the home, and report what was done, and what was not and why."""
    home = caller.settings.home
    if not isdir(home):
        return [Finding("repair", "ok", f"{home} does not exist: nothing to repair")]
    if daemon_runs(caller):
        todo = "Run `counsel daemon stop`, then try again. A running daemon repairs its database itself."
        return [Finding("repair", "problem", "a daemon is running: nothing was done", todo)]
    try:
        return list(_steps(home, confirm))
    except CounselError as error:
        reason = error.message
    except maintenance.ERRORS as error:
        reason = opening.reason(error)
    return [Finding("repair", "problem", f"the repair failed: {reason}", "Check the disk, then try again.")]


def _steps(home: Path, confirm: Confirm) -> Iterator[Finding]:
    yield from _modes(home)
    if not (secret := Secret(home)).kept:
        yield Finding("repair", "problem", f"{home / 'secret'} cannot be written", "Free some disk space.")
    del secret
    path = home / DATABASE
    findings = list(_database(path, confirm))
    yield from findings
    if files.identity(path) is not None and all(finding.level == "ok" for finding in findings):
        yield from _compact(path)
        yield from _backup(path)


def _modes(home: Path) -> Iterator[Finding]:
    for path, status in home_entries(home):
        private_mode = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & 0o077:
            path.chmod(stat.S_IMODE(status.st_mode) & private_mode)
            yield Finding("repair", "ok", f"{path} is now private to its owner")


def _database(path: Path, confirm: Confirm) -> Iterator[Finding]:
    if files.identity(path) is None:
        newest = backups.newest_intact(path)
        if newest is None:
            yield Finding("repair", "ok", "there is no database yet")
        elif not confirm(f"{path} is missing. Restore the backup {newest.name}?"):
            yield Finding("repair", "warn", f"{path} is missing", f"`--yes` restores {newest.name}.")
        else:
            yield _replace(path, "it was missing")
        return
    with closing(files.OpenFile(path)) as handle:
        damage = recovery.examine(handle, thorough=True)
    if damage is None:
        yield Finding("repair", "ok", f"{path} is intact")
    elif confirm(f"{path} is damaged ({damage}). Move it aside and build a new one from its readable rows?"):
        yield _replace(path, damage)
    else:
        todo = "`--yes` moves it aside and builds a new one from its readable rows and the newest backup."
        yield Finding("repair", "problem", f"{path} is damaged: {damage}", todo)


def _replace(path: Path, reason: str) -> Finding:
    with closing(opening.on_disk(path, cause=reason)) as place:
        return Finding("repair", "ok", place.problem or f"another process has already replaced {path}")


def _compact(path: Path) -> Iterator[Finding]:
    """Return free pages and the write-ahead log to the file system."""
    byte_count = maintenance.compact(path)
    if byte_count > 0:
        yield Finding("repair", "ok", f"freed {counted(byte_count, 'byte')} on disk")


def _backup(path: Path) -> Iterator[Finding]:
    if backups.due(path) and (backup := backups.make(path)):
        yield Finding("repair", "ok", f"backed up to {backup}")

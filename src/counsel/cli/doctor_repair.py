"""`counsel doctor --repair`: what can be mended in COUNSEL_HOME without losing anything, step by step, and said.

Nothing is deleted: a damaged database is moved aside. What replaces or restores a database is asked for first.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from counsel.caller import Caller
from counsel.cli.doctor_checks import DATABASE, Finding, daemon_runs, home_entries
from counsel.engine.jobs.callers import Secret
from counsel.engine.store.sqlite import backups, files, opening, recovery
from counsel.engine.store.sqlite.connections import connect
from counsel.errors import CounselError
from counsel.reach import isdir

Ask = Callable[[str], bool]  # whether the user wants what the words say
_WASTE = 0.1  # of the file's pages that are free, above which it is rewritten


def repair(caller: Caller, ask: Ask) -> list[Finding]:
    """What was done, and what was not and why."""
    home = caller.settings.home
    if not isdir(home):
        return [Finding("repair", "ok", f"{home} is not there: nothing to mend")]
    if daemon_runs(caller):
        todo = "`counsel daemon stop`, then again. A running daemon mends its database itself."
        return [Finding("repair", "problem", "a daemon is running: nothing was done", todo)]
    try:
        return list(_steps(home, ask))
    except (OSError, sqlite3.Error, CounselError) as error:
        words = error.message if isinstance(error, CounselError) else opening.reason(error)
        return [Finding("repair", "problem", f"it failed: {words}", "Check the disk, then try again.")]


def _steps(home: Path, ask: Ask) -> Iterator[Finding]:
    yield from _modes(home)
    if not (secret := Secret(home)).kept:
        yield Finding("repair", "problem", f"{home / 'secret'} cannot be written", "Free some disk space.")
    del secret
    path = home / DATABASE
    mended = list(_database(path, ask))
    yield from mended
    if files.identity(path) is not None and all(finding.level == "ok" for finding in mended):
        yield from _compact(path)
        yield from _backup(path)


def _modes(home: Path) -> Iterator[Finding]:
    for path, about in home_entries(home):
        wanted = 0o700 if stat.S_ISDIR(about.st_mode) else 0o600
        if about.st_uid == os.geteuid() and stat.S_IMODE(about.st_mode) & 0o077:
            path.chmod(stat.S_IMODE(about.st_mode) & wanted)
            yield Finding("repair", "ok", f"{path} is its owner's alone now")


def _database(path: Path, ask: Ask) -> Iterator[Finding]:
    if files.identity(path) is None:
        newest = backups.newest_sound(path)
        if newest is None:
            yield Finding("repair", "ok", "there is no database yet")
        elif not ask(f"{path} is missing. Restore the backup {newest.name}?"):
            yield Finding("repair", "warn", f"{path} is missing", f"`--yes` restores {newest.name}.")
        else:
            yield _replaced(path, "it was missing")
        return
    with closing(files.Opened(path)) as opened:
        words = recovery.examine(opened, thorough=True)
    if words is None:
        yield Finding("repair", "ok", f"{path} is sound")
    elif ask(f"{path} is damaged ({words}). Move it aside and make a new one from what can be read?"):
        yield _replaced(path, words)
    else:
        todo = "`--yes` moves it aside and makes a new one from what can be read and the newest backup."
        yield Finding("repair", "problem", f"{path} is damaged: {words}", todo)


def _replaced(path: Path, why: str) -> Finding:
    with closing(opening.on_disk(path, why=why)) as place:
        return Finding("repair", "ok", place.problem or f"another process has replaced {path} meanwhile")


def _compact(path: Path) -> Iterator[Finding]:
    """Free pages and the write-ahead log go back to the disk."""
    before = files.size(path) + files.size(files.beside(path)[0])
    with closing(opening.on_disk(path)) as place, closing(connect(place.target)) as db:
        pages, free, mode = (
            db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "auto_vacuum")
        )
        if mode != 2 or free > pages * _WASTE:  # 2: incremental
            db.execute("PRAGMA auto_vacuum=INCREMENTAL")
            db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    saved = before - files.size(path) - files.size(files.beside(path)[0])
    if saved > 0:
        yield Finding("repair", "ok", f"{saved:,} bytes were given back to the disk")


def _backup(path: Path) -> Iterator[Finding]:
    if backups.due(path) and (made := backups.make(path)):
        yield Finding("repair", "ok", f"backed up to {made}")


def journal_facts(path: Path, limit: int) -> Iterator[Finding]:
    """For `counsel doctor`: how large, what was moved aside, what can be restored."""
    log = files.size(files.beside(path)[0])
    bound = f"at most {limit:,}" if limit else "no limit"
    yield Finding(
        "database",
        "ok",
        f"{files.size(path):,} bytes, log {log:,} bytes, {bound} (COUNSEL_MAX_DATABASE_BYTES)",
    )
    copies = backups.listed(path)
    if copies:
        made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(files.changed(copies[0])))
        yield Finding("database", "ok", f"{len(copies)} backups, the newest of {made}: {copies[0].parent}")
    for aside in recovery.asides(path):
        todo = "What could be read was taken over. Remove it when you miss nothing."
        yield Finding("database", "warn", f"{aside} is a damaged database that was moved aside", todo)

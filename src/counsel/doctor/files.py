"""`counsel doctor`: counsel's folder, its database and the daemon. Reads only, and creates nothing."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from counsel import run_paths
from counsel.caller import Caller
from counsel.doctor.messages import Finding, finding
from counsel.engine.store import DATABASE, administration
from counsel.engine.store.sqlite import backups, maintenance, recovery
from counsel.engine.store.sqlite import files as database_files
from counsel.errors import CounselError
from counsel.paths import exists, isdir
from counsel.text import counted

DATABASE_SECONDS = 10.0
DAEMON_SECONDS = 3.0  # to wait for the daemon's answer


def home(caller: Caller) -> Iterator[Finding]:
    folder = caller.settings.home
    if problem := run_paths.home_problem(caller.env):
        yield finding("home.unusable", problem=problem)
    elif not exists(folder):
        yield finding("home.none" if _writable(folder) else "home.uncreatable", folder=folder)
    elif not _writable(folder):
        yield finding("home.unwritable", folder=folder)
        yield from _modes(folder)
    else:
        yield finding("home.ok", folder=folder)
        yield from _modes(folder)


def _writable(folder: Path) -> bool:
    """Whether the folder can be written to or, if it does not exist, created."""
    nearest = next((path for path in (folder, *folder.parents) if os.path.lexists(path)), folder)
    return isdir(nearest) and os.access(nearest, os.W_OK | os.X_OK)


def _modes(folder: Path) -> Iterator[Finding]:
    """Check modes and owners. In a private folder, the modes of files do not matter; in an open one, each does."""
    entries = list(home_entries(folder))
    foreign = next((path for path, status in entries if status.st_uid != os.geteuid()), None)
    if foreign:
        yield finding("home.foreign", path=foreign, uid=os.geteuid(), folder=folder)
    loose = [(path, status.st_mode) for path, status in entries if stat.S_IMODE(status.st_mode) & 0o077]
    if not loose or loose[0][0] != folder:
        return
    for path, mode in loose[:20]:
        private_mode = "700" if stat.S_ISDIR(mode) else "600"
        yield finding("home.open", path=path, mode=f"{stat.S_IMODE(mode):o}", private_mode=private_mode)


def home_entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The folder, then everything in it, except files that a running daemon deletes meanwhile."""
    for path in (folder, *sorted(folder.rglob("*"))):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISLNK((status := path.lstat()).st_mode):
                yield path, status


def database(caller: Caller) -> Iterator[Finding]:
    if url := caller.settings.database:
        yield _postgres(url)
        return
    folder = caller.settings.home
    path = folder / DATABASE
    if not exists(path):
        usable = _writable(folder) and not run_paths.home_problem(caller.env)
        yield finding("database.none" if usable else "database.memory", folder=folder)
        if usable and (copies := backups.listed(path)):
            yield finding("database.missing", backup=copies[0])
        return
    yield _integrity(path)
    yield from size_and_copies(path, caller.settings.max_database_bytes)


def _postgres(url: str) -> Finding:
    """Check a PostgreSQL database. A database file in the home folder is then not used."""
    try:
        state = administration().status(url)
    except CounselError as error:
        return finding("database.unusable", problem=error.message, hint=error.hint or "")
    if state.problem:
        return finding("database.unusable", problem=state.problem, hint=state.hint or "")
    return finding("database.shared", database=state.database, server=state.server, schema=state.schema)


def _integrity(path: Path) -> Finding:
    try:
        check = maintenance.integrity(path, DATABASE_SECONDS)
    except CounselError as error:
        return finding("database.refused", problem=error.message, hint=error.hint or "")
    if check.state == "unfinished":
        return finding("database.unfinished", path=path, seconds=DATABASE_SECONDS)
    if check.state in {"unreadable", "damaged"}:
        return finding(f"database.{check.state}", path=path, detail=check.detail)
    return finding("database.ok", path=path, schema=check.detail)


def size_and_copies(path: Path, limit: int) -> Iterator[Finding]:
    """The database's size, its backups, and damaged files that were moved aside."""
    log_bytes = database_files.size(database_files.wal_files(path)[0])
    limit_text = f"at most {limit:,}" if limit else "no limit"
    yield Finding(
        "database",
        "info",
        f"{database_files.size(path):,} bytes, log {log_bytes:,} bytes, {limit_text} (COUNSEL_MAX_DATABASE_BYTES)",
    )
    copies = backups.listed(path)
    if copies:
        newest = time.strftime("%Y-%m-%d %H:%M %z", time.localtime(database_files.changed(copies[0])))
        yield Finding(
            "database",
            "info",
            f"{counted(len(copies), 'backup')}, the newest from {newest}: {copies[0].parent}",
        )
    for damaged_file in recovery.damaged_files(path):
        todo = "Its readable rows were copied to the new database. Delete it if nothing is missing."
        yield Finding("database", "warn", f"{damaged_file} is a damaged database that was moved aside", todo)


def daemon(caller: Caller) -> Iterator[Finding]:
    """Check the daemon. A socket that refuses connections is harmless: a killed daemon left it behind."""
    path = run_paths.existing_socket(str(caller.settings.home))
    if path is None:
        yield finding("daemon.none")
        return
    import socket

    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(DAEMON_SECONDS)
        try:
            probe.connect(path)
            with contextlib.suppress(BrokenPipeError):  # the daemon has already refused the connection
                probe.sendall(b"@{}\n")  # not a valid hello: a living daemon answers with an error
            has_answer = bool(probe.recv(1))
        except ConnectionRefusedError:
            yield finding("daemon.left", path=path)
        except OSError as error:
            yield finding("daemon.silent", path=path, reason=error.strerror or error)
        else:
            reason = "it closed the connection"
            yield finding("daemon.ok" if has_answer else "daemon.silent", path=path, reason=reason)


def daemon_runs(caller: Caller) -> bool:
    """Whether a daemon runs, even if it does not answer: its database must not be touched then, either."""
    return any(entry.level in {"ok", "problem"} for entry in daemon(caller))

"""A record of every write, with a backup of what was there, so that exactly that change can be taken back.

    COUNSEL_HOME/backups/<id>/op.json     what was done, to which files
    COUNSEL_HOME/backups/<id>/N.before    file N as it was: the file itself, under a second name, where that can be
    COUNSEL_HOME/backups/<id>/N.after     what the write put in the place of the bytes that differ

All of it may hold secrets: folders are 0700, files 0600.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from counsel import paths
from counsel.configfiles.document import Kind
from counsel.configfiles.write import disk, safewrite
from counsel.configfiles.write.content import difference, size, whole
from counsel.configfiles.write.safewrite import Change, Planned, Target
from counsel.configfiles.write.three_way import Span, without_change
from counsel.errors import Conflict, CounselError, NotFound
from counsel.records import Record

KEEP = 50  # operations
KEEP_BYTES = 256 * 1024 * 1024
_LIMITS = f"the last {KEEP} changes are kept, at most {KEEP_BYTES // 1024**2} MB of them"


class Entry(Record):
    """One file of an operation."""

    target: Target
    stamp: tuple[int, int] | None  # size and time of the file as it was, None: there was no file
    start: int  # the bytes of `before` from start to end became `inserted`
    end: int
    after_size: int  # only to look quickly: what counts is compared byte by byte; -1: the file was removed


class Operation(Record):
    id: str
    at: float
    what: str
    entries: tuple[Entry, ...]
    undoes: str | None = None

    def as_dict(self) -> dict[str, Any]:
        files = [str(entry.target.path) for entry in self.entries]
        return {"id": self.id, "at": self.at, "what": self.what, "files": files, "undoes": self.undoes}


class UndoLog:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "backups"

    def apply(self, planned: Sequence[Planned], what: str, undoes: str | None = None) -> str | None:
        """Write the planned changes, all or none, and record them; the operation's id, None when nothing changed."""
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"
        kept: list[str] = []

        def record(ready: Sequence[Planned]) -> list[Path]:
            kept.append(name)
            with disk.explained(self.folder, "written"):
                self._record(name, ready, what, undoes)
            return [self._before(name, number) for number in range(len(ready))]

        try:
            written = safewrite.write(planned, self.home, record)
        except BaseException as error:
            told = isinstance(error, CounselError) and error.fields.get("written")
            if kept and not told and not self._stands(name):
                _remove(self.folder / name)
            raise
        if undoes is not None and not written:  # nothing was left of it: the next undo is of an older one
            with disk.explained(self.folder, "written"):
                self._record(name, [], what, undoes)
        for number in range(len(written)):
            with suppress(FileNotFoundError):
                self._before(name, number).chmod(0o600)  # only now: it was the file that others read
        self._prune()
        return name if written else None

    def operations(self) -> list[Operation]:
        """Newest first."""
        found = [self._load(path.name) for path in self._folders()]
        return sorted((one for one in found if one is not None), key=lambda one: one.at, reverse=True)

    def find(self, name: str | None = None) -> Operation:
        """An operation by id; without one, the last that is not taken back already."""
        known = self.operations()
        if name is not None:
            for operation in known:
                if operation.id == name:
                    self._refuse_if_undone(operation, known)
                    return operation
            raise NotFound(
                f"There is no recorded change {name!r}.",
                hint=f"`counsel servers undo --list` shows them; {_LIMITS}.",
            )
        for operation in known:
            if operation.undoes is None and _undone_by(operation, known) is None:
                return operation
        raise NotFound("There is no change to undo.", hint=f"Backups: {_LIMITS}.")

    def _refuse_if_undone(self, operation: Operation, known: Sequence[Operation]) -> None:
        if (undo := _undone_by(operation, known)) is not None:
            raise Conflict(
                f"The change {operation.id} is taken back already, by {undo.id}.",
                hint=f"`counsel servers undo {undo.id}` makes it again.",
            )

    def undo_plan(self, operation: Operation) -> list[Planned]:
        return [
            safewrite.plan(Change(entry.target, _undo_of(self, operation, number)))
            for number, entry in enumerate(operation.entries)
            if self._was_written(operation, number)
        ]

    def rewind(self, operations: Sequence[Operation], path: Path) -> Planned:
        """One file without several changes, given newest first, as one write. `NotFound` when none of them wrote it."""
        steps = [
            (entry.target, _undo_of(self, operation, number))
            for operation in operations
            for number, entry in enumerate(operation.entries)
            if entry.target.path == path and self._was_written(operation, number)
        ]
        if not steps:
            raise NotFound(f"No recorded change wrote {path}.")

        def rewrite(current: bytes | None) -> bytes | None:
            for _, undo in steps:
                current = whole(undo(current))
            return current

        return safewrite.plan(Change(steps[0][0], rewrite))

    def undo(self, name: str | None = None) -> tuple[Operation, str | None]:
        operation = self.find(name)
        planned = self.undo_plan(operation)
        return operation, self.apply(planned, f"undo of {operation.id}: {operation.what}", operation.id)

    def before(self, operation: Operation, number: int) -> bytes | None:
        entry, path = operation.entries[number], self._before(operation.id, number)
        if entry.stamp is None:
            return None
        found = path.stat()
        if (found.st_size, found.st_mtime_ns) != entry.stamp:
            raise Conflict(
                f"{entry.target.path} was written by another program while counsel replaced it, so the change "
                "cannot be taken back by itself.",
                hint=f"What that program wrote is in {path}.",
                file=str(entry.target.path),
            )
        return path.read_bytes()

    def origin(self, path: Path, data: bytes) -> bytes | None:
        """What a file held before the recorded write that made it what it is now."""
        for operation in self.operations():
            for number, entry in enumerate(operation.entries):
                same = entry.target.path == path and entry.after_size == len(data)
                if same and self._was_written(operation, number) and self.after(operation, number) == data:
                    return self.before(operation, number)
        return None

    def after(self, operation: Operation, number: int) -> bytes:
        """What the operation wrote."""
        entry, old = operation.entries[number], self.before(operation, number) or b""
        inserted = (self.folder / operation.id / f"{number}.after").read_bytes()
        return old[: entry.start] + inserted + old[entry.end :]

    # ── the folder ───────────────────────────────────────────────────────────────────────────────────

    def _before(self, name: str, number: int) -> Path:
        return self.folder / name / f"{number}.before"

    def _was_written(self, operation: Operation, number: int) -> bool:
        """False for a file whose turn had not come, or not quite, when the process was killed."""
        entry, backup = operation.entries[number], self._before(operation.id, number)
        return entry.stamp is None or (backup.exists() and not _one_file(backup, entry.target.path))

    def _stands(self, name: str) -> bool:
        """Whether a file holds what an operation that failed or was interrupted wrote: then its record is needed."""
        operation = self._load(name)
        return operation is not None and any(
            self._was_written(operation, number) and self._holds(operation, number)
            for number in range(len(operation.entries))
        )

    def _holds(self, operation: Operation, number: int) -> bool:
        entry = operation.entries[number]
        try:
            current = disk.snapshot(entry.target.path).data
            return current == (None if entry.after_size < 0 else self.after(operation, number))
        except (OSError, CounselError):
            return True  # it cannot be seen

    def _record(self, name: str, ready: Sequence[Planned], what: str, undoes: str | None) -> None:
        folder = self.folder / name
        paths.private_folder(self.folder)
        folder.mkdir(mode=0o700, exist_ok=True)
        entries = []
        for number, one in enumerate(ready):
            start, end, new = difference(one.before or b"", one.content or b"")
            _write_private(folder / f"{number}.after", new)
            entries.append(_shown(one, start, end))
        shown = {"id": name, "at": time.time(), "what": what, "undoes": undoes, "files": entries}
        _write_private(folder / "op.new", json.dumps(shown, indent=1).encode())
        # Not in place: there may be one already, for files that are replaced by now.
        (folder / "op.new").replace(folder / "op.json")

    def _load(self, name: str) -> Operation | None:
        try:
            shown = json.loads((self.folder / name / "op.json").read_bytes())
            entries = tuple(_entry(one) for one in shown["files"])
            return Operation(shown["id"], shown["at"], shown["what"], entries, shown["undoes"])
        except (OSError, ValueError, KeyError, TypeError):
            return None  # a record cut by a crash: its write never became visible

    def _folders(self) -> list[Path]:
        with suppress(FileNotFoundError):
            return sorted(path for path in self.folder.iterdir() if path.is_dir())
        return []

    def _prune(self) -> None:
        size = 0
        for number, folder in enumerate(sorted(self._folders(), key=_age, reverse=True)):
            size += _size(folder)
            if number >= KEEP or (number > 0 and size > KEEP_BYTES):
                _remove(folder)


def _age(folder: Path) -> tuple[int, str]:
    """When it was recorded. Not by its name, which tells seconds, and an hour twice in autumn."""
    with suppress(OSError):
        return (folder / "op.json").stat().st_mtime_ns, folder.name
    with suppress(OSError):
        return folder.stat().st_mtime_ns, folder.name
    return 0, folder.name


def _remove(folder: Path) -> None:
    """One operation's files. Another process may be clearing it away at this moment."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
        folder.rmdir()


def _one_file(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.samefile(other)
    return False


def _undone_by(operation: Operation, known: Sequence[Operation]) -> Operation | None:
    """The change that took this one back, unless that was itself taken back."""
    undos = (one for one in known if one.undoes == operation.id)
    return next((one for one in undos if _undone_by(one, known) is None), None)


def _size(folder: Path) -> int:
    """Zero for a folder that another process has just cleared away."""
    with suppress(OSError):
        return sum(path.stat().st_size for path in folder.iterdir())
    return 0


def _write_private(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def _shown(one: Planned, start: int, end: int) -> dict[str, Any]:
    target = one.change.target
    return {
        "path": str(target.path),
        "kind": target.kind,
        "mode": target.mode,
        "claude_lock": target.claude_lock,
        "stamp": one.stamp,
        "start": start,
        "end": end,
        "after_size": -1 if one.content is None else size(one.content),
    }


def _entry(shown: Mapping[str, Any]) -> Entry:
    kind: Kind = shown["kind"]
    target = Target(Path(shown["path"]), kind, shown["mode"], shown["claude_lock"])
    size_and_time = shown["stamp"]
    stamp = (size_and_time[0], size_and_time[1]) if size_and_time else None
    return Entry(target, stamp, shown["start"], shown["end"], shown["after_size"])


# ── taking back ──────────────────────────────────────────────────────────────────────────────────────


def _undo_of(undo_log: UndoLog, operation: Operation, number: int) -> safewrite.Rewrite:
    entry = operation.entries[number]

    def rewrite(current: bytes | None) -> bytes | None:
        before, after = undo_log.before(operation, number), undo_log.after(operation, number)
        gone = entry.after_size < 0  # the operation removed the file
        if (current is None and gone) or (current == after and not gone):
            return before
        return (
            current
            if current == before
            else without_change(Span(entry.start, entry.end), entry.target, before or b"", after, current)
        )

    return rewrite

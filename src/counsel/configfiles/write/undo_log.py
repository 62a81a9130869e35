"""The undo log: a record of every write with a backup, so that exactly that change can be undone.

    COUNSEL_HOME/backups/<id>/op.json     the change and its files
    COUNSEL_HOME/backups/<id>/N.before    the previous file N: a hard link to it, or a copy where links are impossible
    COUNSEL_HOME/backups/<id>/N.after     the new bytes of the changed span

These files may contain secrets: folders have mode 0700, files 0600.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from counsel import paths
from counsel.configfiles.content import as_bytes, difference, size
from counsel.configfiles.document import Kind
from counsel.configfiles.write import disk, safewrite
from counsel.configfiles.write.safewrite import Change, PlannedWrite, Target
from counsel.configfiles.write.three_way import Span, without_change
from counsel.errors import Conflict, CounselError, NotFound
from counsel.records import Record

KEEP = 50  # operations
KEEP_BYTES = 256 * 1024 * 1024
_LIMITS = f"the last {KEEP} changes are kept, at most {KEEP_BYTES // 1024**2} MB of them"


class Entry(Record):
    """One file of an operation."""

    target: Target
    stamp: tuple[int, int] | None  # size and modification time of the previous file; None: there was no file
    start: int  # of the bytes of the previous file that were replaced
    end: int
    after_size: int  # for a quick check before comparing bytes; -1: the file was removed


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

    def apply(self, plans: Sequence[PlannedWrite], title: str, undoes: str | None = None) -> str | None:
        """Write all planned changes or none, and record them; return the operation's id, or None if nothing changed."""
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"
        recorded_names: list[str] = []

        def record(ready: Sequence[PlannedWrite]) -> list[Path]:
            recorded_names.append(name)
            with disk.translated_errors(self.folder, "written"):
                self._record(name, ready, title, undoes)
            return [self._before(name, number) for number in range(len(ready))]

        try:
            writes = safewrite.write(plans, self.home, record)
        except BaseException as error:
            written_paths = isinstance(error, CounselError) and error.fields.get("written")
            if recorded_names and not written_paths and not self._is_in_place(name):
                _remove(self.folder / name)
            raise
        if undoes is not None and not writes:  # record it all the same: the next undo takes an older change
            with disk.translated_errors(self.folder, "written"):
                self._record(name, [], title, undoes)
        for number in range(len(writes)):
            with suppress(FileNotFoundError):
                # Not earlier: until now it was the file that other programs read.
                self._before(name, number).chmod(0o600)
        self._prune()
        return name if writes else None

    def operations(self) -> list[Operation]:
        """Newest first."""
        loaded_operations = [self._load(path.name) for path in self._folders()]
        return sorted(
            (operation for operation in loaded_operations if operation is not None),
            key=lambda operation: operation.at,
            reverse=True,
        )

    def find(self, name: str | None = None) -> Operation:
        """The operation with this id; without an id, the last one that is not undone yet."""
        operations = self.operations()
        if name is not None:
            for operation in operations:
                if operation.id == name:
                    self._refuse_if_undone(operation, operations)
                    return operation
            raise NotFound(
                f"There is no recorded change {name!r}.",
                hint=f"`counsel servers undo --list` shows them; {_LIMITS}.",
            )
        for operation in operations:
            if operation.undoes is None and _undone_by(operation, operations) is None:
                return operation
        raise NotFound("There is no change to undo.", hint=f"Backups: {_LIMITS}.")

    def _refuse_if_undone(self, operation: Operation, operations: Sequence[Operation]) -> None:
        if (undo := _undone_by(operation, operations)) is not None:
            raise Conflict(
                f"The change {operation.id} was already undone, by {undo.id}.",
                hint=f"`counsel servers undo {undo.id}` redoes it.",
            )

    def undo_plan(self, operation: Operation) -> list[PlannedWrite]:
        return [
            safewrite.plan(Change(entry.target, _undo_of(self, operation, number)))
            for number, entry in enumerate(operation.entries)
            if self._was_written(operation, number)
        ]

    def rewind(self, operations: Sequence[Operation], path: Path) -> PlannedWrite:
        """Undo several changes (newest first) of one file in one write; `NotFound` if none of them wrote the file."""
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
                current = as_bytes(undo(current))
            return current

        return safewrite.plan(Change(steps[0][0], rewrite))

    def undo(self, name: str | None = None) -> tuple[Operation, str | None]:
        operation = self.find(name)
        plans = self.undo_plan(operation)
        return operation, self.apply(plans, f"undo of {operation.id}: {operation.what}", operation.id)

    def before(self, operation: Operation, number: int) -> bytes | None:
        entry, path = operation.entries[number], self._before(operation.id, number)
        if entry.stamp is None:
            return None
        info = path.stat()
        if (info.st_size, info.st_mtime_ns) != entry.stamp:
            raise Conflict(
                f"{entry.target.path} was written by another program while counsel replaced it, so the change "
                "cannot be undone automatically.",
                hint=f"That program's version is in {path}.",
                file=str(entry.target.path),
            )
        return path.read_bytes()

    def bytes_before(self, path: Path, data: bytes) -> bytes | None:
        """A file's content before the recorded write that produced `data`."""
        for operation in self.operations():
            for number, entry in enumerate(operation.entries):
                is_candidate = entry.target.path == path and entry.after_size == len(data)
                if (
                    is_candidate
                    and self._was_written(operation, number)
                    and self.after(operation, number) == data
                ):
                    return self.before(operation, number)
        return None

    def after(self, operation: Operation, number: int) -> bytes:
        """The content that the operation wrote."""
        entry, old = operation.entries[number], self.before(operation, number) or b""
        replacement = (self.folder / operation.id / f"{number}.after").read_bytes()
        return old[: entry.start] + replacement + old[entry.end :]

    # ── the folder ───────────────────────────────────────────────────────────────────────────────────

    def _before(self, name: str, number: int) -> Path:
        return self.folder / name / f"{number}.before"

    def _was_written(self, operation: Operation, number: int) -> bool:
        """Whether the file was replaced: a process can be killed between recording and replacing."""
        entry, backup = operation.entries[number], self._before(operation.id, number)
        return entry.stamp is None or (backup.exists() and not _same_file(backup, entry.target.path))

    def _is_in_place(self, name: str) -> bool:
        """Whether a file still has the content of a failed or interrupted operation, so that its record is needed."""
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
            return True  # unknown

    def _record(self, name: str, writes: Sequence[PlannedWrite], title: str, undoes: str | None) -> None:
        folder = self.folder / name
        paths.private_folder(self.folder)
        folder.mkdir(mode=0o700, exist_ok=True)
        entries = []
        for number, write in enumerate(writes):
            start, end, new = difference(write.before or b"", write.content or b"")
            _write_private(folder / f"{number}.after", new)
            entries.append(_entry_record(write, start, end))
        record = {"id": name, "at": time.time(), "what": title, "undoes": undoes, "files": entries}
        _write_private(folder / "op.new", json.dumps(record, indent=1).encode())
        # Replaced, not overwritten: an existing op.json may describe files that are already replaced.
        (folder / "op.new").replace(folder / "op.json")

    def _load(self, name: str) -> Operation | None:
        try:
            record = json.loads((self.folder / name / "op.json").read_bytes())
            entries = tuple(_entry(file) for file in record["files"])
            return Operation(record["id"], record["at"], record["what"], entries, record["undoes"])
        except (OSError, ValueError, KeyError, TypeError):
            return None  # incomplete after a crash: the operation changed no file

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
    """When the operation was recorded. Its name has seconds only, in local time, which repeats an hour in autumn."""
    with suppress(OSError):
        return (folder / "op.json").stat().st_mtime_ns, folder.name
    with suppress(OSError):
        return folder.stat().st_mtime_ns, folder.name
    return 0, folder.name


def _remove(folder: Path) -> None:
    """Remove one operation's files. Another process may be removing them at the same time."""
    with suppress(OSError):
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
        folder.rmdir()


def _same_file(first: Path, second: Path) -> bool:
    with suppress(OSError):
        return first.samefile(second)
    return False


def _undone_by(operation: Operation, operations: Sequence[Operation]) -> Operation | None:
    """The change that undid this one, unless that was itself undone."""
    undos = (undo for undo in operations if undo.undoes == operation.id)
    return next((undo for undo in undos if _undone_by(undo, operations) is None), None)


def _size(folder: Path) -> int:
    """The size of a folder's files; 0 if another process has just removed it."""
    with suppress(OSError):
        return sum(path.stat().st_size for path in folder.iterdir())
    return 0


def _write_private(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def _entry_record(write: PlannedWrite, start: int, end: int) -> dict[str, object]:
    target = write.change.target
    return {
        "path": str(target.path),
        "kind": target.kind,
        "mode": target.mode,
        "claude_lock": target.claude_lock,
        "stamp": write.stamp,
        "start": start,
        "end": end,
        "after_size": -1 if write.content is None else size(write.content),
    }


def _entry(record: Mapping[str, Any]) -> Entry:
    kind: Kind = record["kind"]
    target = Target(Path(record["path"]), kind, record["mode"], record["claude_lock"])
    size_and_time = record["stamp"]
    stamp = (size_and_time[0], size_and_time[1]) if size_and_time else None
    return Entry(target, stamp, record["start"], record["end"], record["after_size"])


# ── undo ─────────────────────────────────────────────────────────────────────────────────────────────


def _undo_of(undo_log: UndoLog, operation: Operation, number: int) -> safewrite.Rewrite:
    entry = operation.entries[number]

    def rewrite(current: bytes | None) -> bytes | None:
        before, after = undo_log.before(operation, number), undo_log.after(operation, number)
        was_removed = entry.after_size < 0  # the operation removed the file
        if (current is None and was_removed) or (current == after and not was_removed):
            return before
        return (
            current
            if current == before
            else without_change(Span(entry.start, entry.end), entry.target, before or b"", after, current)
        )

    return rewrite

"""Write users' files: lock, read again, replace atomically; several files all or none.

A change is a function from the file's bytes to its new content. It is planned with the current bytes and applied under
the lock: if the file is unchanged, the planned content is written, else the function is called again.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from counsel.configfiles.content import Content, Spliced, as_bytes, pieces
from counsel.configfiles.document import Document, Kind, parse
from counsel.configfiles.edits import Edit
from counsel.configfiles.write import disk, locks
from counsel.errors import ConfigInvalid, Conflict, CounselError, Internal
from counsel.records import Record

_ATTEMPTS = 20
_FRESH = 2.0  # seconds: a file this young that does not parse may be half written
_PAUSE = 0.05

Rewrite = Callable[[bytes | None], Content | None]


class Target(Record):
    path: Path  # as the client names it, with unresolved links
    kind: Kind
    mode: int = 0o600  # of a new file
    claude_lock: bool = False


class Change(Record):
    target: Target
    rewrite: Rewrite


class PlannedWrite(Record):
    """A change and its result for the current file; `content` is exactly what will be written."""

    change: Change
    before: bytes | None
    content: Content | None
    stamp: tuple[int, int] | None = None  # size and modification time of the file with the bytes `before`

    def __repr__(self) -> str:  # no content: it may hold secrets
        return f"PlannedWrite({self.path})"

    @property
    def path(self) -> Path:
        return self.change.target.path

    @property
    def after(self) -> bytes | None:
        return as_bytes(self.content)

    @property
    def changes(self) -> bool:
        if isinstance(self.content, Spliced):
            return self.content.changes
        return self.before != self.content


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


def document(data: bytes | None, kind: Kind, path: Path) -> Document:
    """A file's document; an error about it names the file."""
    try:
        return parse((data or b"").decode(), kind)
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise ConfigInvalid(
            f"{path} is not UTF-8 (line {line}, column {column}).",
            hint="It was not changed.",
            file=str(path),
            line=line,
            column=column,
        ) from None
    except ConfigInvalid as error:
        raise ConfigInvalid(
            f"{path}: {error.message}.",
            hint="It was not changed; correct it and try again.",
            file=str(path),
            **{name: value for name, value in error.fields.items() if name != "file"},
        ) from None


def _may_be_half_written(snapshot: disk.Snapshot) -> bool:
    """Whether the file is so recent that a writer may not have finished: Gemini CLI truncates and writes in place."""
    age = time.time() - (snapshot.identity[3] / 1e9 if snapshot.identity else 0)
    return 0 <= age < _FRESH


class Reader:
    """The documents of one operation: each file is read and parsed once."""

    def __init__(self) -> None:
        self._documents: dict[Path, tuple[bytes, Document]] = {}

    def read(self, target: Target) -> Document | None:
        """A file's document, or None if there is no file. Waits for a writer that has not finished."""
        if target.path in self._documents:
            return self._documents[target.path][1]
        while True:
            snapshot = disk.snapshot(target.path)
            if snapshot.data is None:
                return None
            try:
                return self.parsed(snapshot.data, target)
            except ConfigInvalid:
                if not _may_be_half_written(snapshot):
                    raise
                time.sleep(_PAUSE)

    def read_quietly(self, target: Target) -> Document | None:
        """Like `read`, but None for an unreadable file: the listing reports it."""
        try:
            return self.read(target)
        except CounselError:
            return None

    def bytes_read(self, target: Target) -> bytes | None:
        return self._documents[target.path][0] if target.path in self._documents else None

    def parsed(self, data: bytes | None, target: Target) -> Document:
        previous = self._documents.get(target.path)
        if previous is not None and previous[0] == data:
            return previous[1]
        parsed = document(data, target.kind, target.path)
        if data is not None:
            self._documents[target.path] = data, parsed
        return parsed


def by_edits(
    target: Target, edits: Callable[[Document], Sequence[Edit]], reader: Reader | None = None
) -> Change:
    """A change made of edits, which are computed again if the file has changed."""
    reader = reader or Reader()

    def rewrite(data: bytes | None) -> Content | None:
        before = reader.parsed(data, target)
        file_edits = edits(before)
        return before.edited(file_edits).encoded(data or b"") if file_edits else data

    return Change(target, rewrite)


# ── planning and writing ─────────────────────────────────────────────────────────────────────────────


def plan(change: Change, current: bytes | None = None) -> PlannedWrite:
    """Compute a change's result. `current` is what a `Reader` has just read; if it is outdated, `write` notices."""
    if current is not None:
        return PlannedWrite(change, current, change.rewrite(current))
    return _planned(change)[1]


def _planned(change: Change) -> tuple[disk.Snapshot, PlannedWrite]:
    while True:
        snapshot = disk.snapshot(change.target.path)
        try:
            return snapshot, PlannedWrite(change, snapshot.data, change.rewrite(snapshot.data))
        except ConfigInvalid:
            if not _may_be_half_written(snapshot):
                raise
            time.sleep(_PAUSE)


# Takes the planned writes; returns the path at which to keep each file's previous version.
Recorder = Callable[[Sequence[PlannedWrite]], Sequence[Path]]


def write(plans: Sequence[PlannedWrite], home: Path, record: Recorder | None = None) -> list[PlannedWrite]:
    """Apply all changes or none; return what was written. `record` is called before anything is visible, and again if a
    file has changed in the meantime."""
    writes = sorted((write for write in plans if write.changes), key=lambda write: str(write.path))
    if not writes:
        return []
    with ExitStack() as stack:
        held_locks = [stack.enter_context(_locked(write.change.target, home)) for write in writes]
        staged_writes = [stack.enter_context(_staged_write(write)) for write in writes]
        disk.run_all([partial(_record, record, staged_writes), *(item.put for item in staged_writes)])
        _commit(staged_writes, held_locks, record)
        folders = dict.fromkeys(item.snapshot.real.parent for item in staged_writes)
        disk.run_all([partial(disk.sync_folder, folder) for folder in folders])
        return [item.planned for item in staged_writes]


@contextmanager
def _locked(target: Target, home: Path) -> Iterator[locks.StillHeld]:
    with ExitStack() as stack:
        still_held: locks.StillHeld = lambda: True  # noqa: E731 - replaced below
        with disk.translated_errors(home / "locks", "written"):
            stack.enter_context(locks.own_lock(home, target.path))
        if target.claude_lock:
            with disk.translated_errors(target.path, "locked"):
                still_held = stack.enter_context(locks.claude_lock(target.path))
        yield still_held


class _StagedWrite:
    """A planned write whose new content is beside the file, ready to replace it."""

    def __init__(self, planned: PlannedWrite) -> None:
        self.planned = planned
        self.snapshot = disk.Snapshot(planned.path, None, None)
        self.temporary: Path | None = None
        self.backup: Path | None = None  # of the previous version
        self.folders: list[Path] = []  # created for the file

    def refresh(self) -> None:
        """Read the current file and compute its new content."""
        change = self.planned.change
        self.snapshot = disk.snapshot(change.target.path, self.planned.before)
        if self.snapshot.data != self.planned.before:
            self.snapshot, self.planned = _planned(change)
        stamp = self.snapshot.identity[2:] if self.snapshot.identity else None
        self.planned = self.planned.replaced(stamp=stamp)
        disk.refuse_read_only(self.snapshot, change.target.path)

    def put(self) -> None:
        """Write the content to a file beside the target, and sync it."""
        if self.planned.changes and self.planned.content is not None:
            target = self.planned.change.target
            with disk.translated_errors(target.path, "written"):
                self.folders += disk.create_folders(self.snapshot.real.parent)
                self.temporary = disk.write_beside(self.snapshot, pieces(self.planned.content), target.mode)
                disk.sync_file(self.temporary)

    def unchanged(self) -> bool:
        try:
            return disk.identity(self.snapshot.real.stat()) == self.snapshot.identity
        except FileNotFoundError:
            return self.snapshot.identity is None

    def replace(self) -> None:
        with disk.translated_errors(self.planned.path, "written"):
            backup = self.backup if self.planned.changes and self.snapshot.data is not None else None
            if backup is not None:
                with disk.translated_errors(backup.parent, "written"):
                    disk.back_up(self.snapshot, backup)
            try:
                self._swap()
            except OSError:
                if backup is not None:
                    backup.unlink(missing_ok=True)  # an existing backup means that the file was replaced
                raise

    def _swap(self) -> None:
        if self.temporary is not None:
            self.temporary.replace(self.snapshot.real)
            self.temporary = None
        elif self.planned.changes:
            self.snapshot.real.unlink()

    def restore(self) -> None:
        """Undo `replace`, unless the file has changed since."""
        if disk.snapshot(self.planned.path).data != self.planned.after:
            return
        if self.planned.before is None:
            self.snapshot.real.unlink(missing_ok=True)
            self._remove_folders()
        else:
            old = disk.write_beside(self.snapshot, [self.planned.before], self.snapshot.mode or 0o600)
            disk.sync_file(old)
            old.replace(self.snapshot.real)
        disk.sync_folder(self.snapshot.real.parent)

    def discard(self) -> None:
        if self.temporary is not None:
            self.temporary.unlink(missing_ok=True)
            self.temporary = None

    def _remove_folders(self) -> None:
        for folder in reversed(self.folders):
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def _staged_write(planned: PlannedWrite) -> Iterator[_StagedWrite]:
    staged_write = _StagedWrite(planned)
    try:
        staged_write.refresh()
        yield staged_write
    except BaseException:
        staged_write.discard()
        staged_write._remove_folders()  # noqa: SLF001 - removes empty folders only
        raise
    finally:
        staged_write.discard()


def _record(record: Recorder | None, staged_writes: Sequence[_StagedWrite]) -> None:
    if record is not None:
        for item, backup in zip(staged_writes, record([item.planned for item in staged_writes]), strict=True):
            item.backup = backup


def _commit(
    staged_writes: list[_StagedWrite], held_locks: list[locks.StillHeld], record: Recorder | None
) -> None:
    replaced: list[_StagedWrite] = []
    try:
        for item, still_held in zip(staged_writes, held_locks, strict=True):
            _replace(item, still_held, lambda: _record(record, staged_writes))
            replaced.append(item)
    except BaseException as error:
        not_restored = [item.planned.path for item in reversed(replaced) if not _restored(item)]
        if not_restored and isinstance(error, CounselError):
            names = ", ".join(map(str, not_restored))
            raise Internal(
                f"{error.message} {names} was already written and could not be restored.",
                hint="Run `counsel servers undo`.",
                written=[str(path) for path in not_restored],
            ) from error
        raise


def _replace(item: _StagedWrite, still_held: locks.StillHeld, record_again: Callable[[], None]) -> None:
    for _ in range(_ATTEMPTS):
        if not still_held():
            raise Conflict(
                f"The lock of {item.planned.path} was taken over by another program; nothing was written.",
                hint="Try again.",
            )
        if item.unchanged():
            return item.replace()
        item.discard()
        item.refresh()  # a program wrote without a lock: apply the edit to its version
        item.put()
        record_again()
    raise Conflict(f"{item.planned.path} keeps changing, so nothing was written.", hint="Try again.")


def _restored(item: _StagedWrite) -> bool:
    try:
        item.restore()
    except (OSError, CounselError):
        return False
    return True

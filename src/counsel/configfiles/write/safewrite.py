"""Write users' files: locked, read again, atomically; several files all or none.

A change is a function from the file's bytes to its new content. It is planned with the present bytes and applied under
the lock: the planned content if the file is unchanged, else the function is called again.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from counsel.configfiles.content import Content, Spliced, pieces, whole
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
    path: Path  # as its client names it (links not resolved)
    kind: Kind
    mode: int = 0o600  # of a new file
    claude_lock: bool = False


class Change(Record):
    target: Target
    rewrite: Rewrite


class Planned(Record):
    """A change and its result for the present file; `content` is exactly what is written."""

    change: Change
    before: bytes | None
    content: Content | None
    stamp: tuple[int, int] | None = None  # size and time of the file that held `before`

    def __repr__(self) -> str:  # no content: it may hold secrets
        return f"Planned({self.path})"

    @property
    def path(self) -> Path:
        return self.change.target.path

    @property
    def after(self) -> bytes | None:
        return whole(self.content)

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


def _may_be_half_written(seen: disk.Snapshot) -> bool:
    """Gemini CLI truncates and writes in place: for a moment its file is empty or incomplete."""
    age = time.time() - (seen.identity[3] / 1e9 if seen.identity else 0)
    return 0 <= age < _FRESH


class Reader:
    """The documents of one operation: each file is read and parsed once."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[bytes, Document]] = {}

    def read(self, target: Target) -> Document | None:
        """A file's document, or None if there is no file. Waits for a writer that is in the middle of it."""
        if target.path in self._known:
            return self._known[target.path][1]
        while True:
            seen = disk.snapshot(target.path)
            if seen.data is None:
                return None
            try:
                return self.parsed(seen.data, target)
            except ConfigInvalid:
                if not _may_be_half_written(seen):
                    raise
                time.sleep(_PAUSE)

    def quiet(self, target: Target) -> Document | None:
        """Like `read`, but None for an unreadable file: the listing reports it."""
        try:
            return self.read(target)
        except CounselError:
            return None

    def known(self, target: Target) -> bytes | None:
        return self._known[target.path][0] if target.path in self._known else None

    def parsed(self, data: bytes | None, target: Target) -> Document:
        known = self._known.get(target.path)
        if known is not None and known[0] == data:
            return known[1]
        parsed_document = document(data, target.kind, target.path)
        if data is not None:
            self._known[target.path] = data, parsed_document
        return parsed_document


def by_edits(
    target: Target, edits: Callable[[Document], Sequence[Edit]], reader: Reader | None = None
) -> Change:
    """A change made of edits, which are computed again if the file has changed."""
    reader = reader or Reader()

    def rewrite(data: bytes | None) -> Content | None:
        before = reader.parsed(data, target)
        wanted = edits(before)
        return before.edited(wanted).encoded(data or b"") if wanted else data

    return Change(target, rewrite)


# ── planning and writing ─────────────────────────────────────────────────────────────────────────────


def plan(change: Change, known: bytes | None = None) -> Planned:
    """`known`: what a `Reader` has just read; if it is outdated, the write notices under the lock."""
    if known is not None:
        return Planned(change, known, change.rewrite(known))
    return _planned(change)[1]


def _planned(change: Change) -> tuple[disk.Snapshot, Planned]:
    while True:
        seen = disk.snapshot(change.target.path)
        try:
            return seen, Planned(change, seen.data, change.rewrite(seen.data))
        except ConfigInvalid:
            if not _may_be_half_written(seen):
                raise
            time.sleep(_PAUSE)


# Called with the planned writes; returns where to keep each earlier file.
Recorder = Callable[[Sequence[Planned]], Sequence[Path]]


def write(planned: Sequence[Planned], home: Path, record: Recorder | None = None) -> list[Planned]:
    """Apply all changes or none; returns what was written. `record` is called before anything is visible, and again
    if a file has changed."""
    writes = sorted((write for write in planned if write.changes), key=lambda write: str(write.path))
    if not writes:
        return []
    with ExitStack() as stack:
        held_locks = [stack.enter_context(_locked(write.change.target, home)) for write in writes]
        staged = [stack.enter_context(_staged(write)) for write in writes]
        disk.together([partial(_record, record, staged), *(item.put for item in staged)])
        _commit(staged, held_locks, record)
        folders = dict.fromkeys(item.seen.real.parent for item in staged)
        disk.together([partial(disk.sync_folder, folder) for folder in folders])
        return [item.planned for item in staged]


@contextmanager
def _locked(target: Target, home: Path) -> Iterator[locks.StillHeld]:
    with ExitStack() as stack:
        still_held: locks.StillHeld = lambda: True  # noqa: E731 - replaced below
        with disk.explained(home / "locks", "written"):
            stack.enter_context(locks.own_lock(home, target.path))
        if target.claude_lock:
            with disk.explained(target.path, "locked"):
                still_held = stack.enter_context(locks.claude_lock(target.path))
        yield still_held


class _Staged:
    """The new content beside its file, ready to replace it."""

    def __init__(self, planned: Planned) -> None:
        self.planned = planned
        self.seen = disk.Snapshot(planned.path, None, None)
        self.temporary: Path | None = None
        self.backup: Path | None = None  # where the earlier file is kept
        self.folders: list[Path] = []  # created for it

    def refresh(self) -> None:
        """Read the present file, and compute its new content."""
        change = self.planned.change
        self.seen = disk.snapshot(change.target.path, self.planned.before)
        if self.seen.data != self.planned.before:
            self.seen, self.planned = _planned(change)
        stamp = self.seen.identity[2:] if self.seen.identity else None
        self.planned = self.planned.replaced(stamp=stamp)
        disk.refuse_read_only(self.seen, change.target.path)

    def put(self) -> None:
        """Write the content next to the file, and sync."""
        if self.planned.changes and self.planned.content is not None:
            target = self.planned.change.target
            with disk.explained(target.path, "written"):
                self.folders += disk.made_folders(self.seen.real.parent)
                self.temporary = disk.put_beside(self.seen, pieces(self.planned.content), target.mode)
                disk.sync_file(self.temporary)

    def unchanged(self) -> bool:
        try:
            return disk.identity(self.seen.real.stat()) == self.seen.identity
        except FileNotFoundError:
            return self.seen.identity is None

    def replace(self) -> None:
        with disk.explained(self.planned.path, "written"):
            backup = self.backup if self.planned.changes and self.seen.data is not None else None
            if backup is not None:
                with disk.explained(backup.parent, "written"):
                    disk.keep(self.seen, backup)
            try:
                self._swap()
            except OSError:
                if backup is not None:
                    backup.unlink(missing_ok=True)  # its existence means that the file was replaced
                raise

    def _swap(self) -> None:
        if self.temporary is not None:
            self.temporary.replace(self.seen.real)
            self.temporary = None
        elif self.planned.changes:
            self.seen.real.unlink()

    def restore(self) -> None:
        """Undo `replace`, if the file is still what it wrote."""
        if disk.snapshot(self.planned.path).data != self.planned.after:
            return
        if self.planned.before is None:
            self.seen.real.unlink(missing_ok=True)
            self._remove_folders()
        else:
            old = disk.put_beside(self.seen, [self.planned.before], self.seen.mode or 0o600)
            disk.sync_file(old)
            old.replace(self.seen.real)
        disk.sync_folder(self.seen.real.parent)

    def discard(self) -> None:
        if self.temporary is not None:
            self.temporary.unlink(missing_ok=True)
            self.temporary = None

    def _remove_folders(self) -> None:
        for folder in reversed(self.folders):
            with suppress(OSError):
                folder.rmdir()


@contextmanager
def _staged(planned: Planned) -> Iterator[_Staged]:
    staged = _Staged(planned)
    try:
        staged.refresh()
        yield staged
    except BaseException:
        staged.discard()
        staged._remove_folders()  # noqa: SLF001 - removes only empty ones
        raise
    finally:
        staged.discard()


def _record(record: Recorder | None, staged: Sequence[_Staged]) -> None:
    if record is not None:
        for item, backup in zip(staged, record([item.planned for item in staged]), strict=True):
            item.backup = backup


def _commit(staged: list[_Staged], held_locks: list[locks.StillHeld], record: Recorder | None) -> None:
    done: list[_Staged] = []
    try:
        for item, still_held in zip(staged, held_locks, strict=True):
            _replace(item, still_held, lambda: _record(record, staged))
            done.append(item)
    except BaseException as error:
        not_restored = [item.planned.path for item in reversed(done) if not _restored(item)]
        if not_restored and isinstance(error, CounselError):
            names = ", ".join(map(str, not_restored))
            raise Internal(
                f"{error.message} {names} was already written and could not be restored.",
                hint="Run `counsel servers undo`.",
                written=[str(path) for path in not_restored],
            ) from error
        raise


def _replace(item: _Staged, still_held: locks.StillHeld, changed: Callable[[], None]) -> None:
    for _ in range(_ATTEMPTS):
        if not still_held():
            raise Conflict(
                f"The lock of {item.planned.path} was taken over by another program; nothing was written.",
                hint="Try again.",
            )
        if item.unchanged():
            return item.replace()
        item.discard()
        item.refresh()  # a program wrote without a lock: apply our edit to its version
        item.put()
        changed()
    raise Conflict(f"{item.planned.path} keeps changing, so nothing was written.", hint="Try again.")


def _restored(item: _Staged) -> bool:
    try:
        item.restore()
    except (OSError, CounselError):
        return False
    return True

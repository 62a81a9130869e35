"""Writing users' files: locked, read again, complete or not at all, several files all or none.

A change is a function from the file's bytes to its new content. It is planned on what the file holds now, and applied to what
it holds under the lock: the planned bytes when nothing changed meanwhile, else the function is asked again.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from counsel.configfiles.document import Document, Kind, parse
from counsel.configfiles.edits import Edit
from counsel.configfiles.write import disk, locks
from counsel.configfiles.write.content import Content, Spliced, pieces, whole
from counsel.errors import ConfigInvalid, Conflict, CounselError, Internal
from counsel.records import Record

_ATTEMPTS = 20
_FRESH = 2.0  # seconds: a file that was touched this recently and does not parse may be half written
_PAUSE = 0.05

Rewrite = Callable[[bytes | None], Content | None]


class Target(Record):
    path: Path  # as its client names it
    kind: Kind
    mode: int = 0o600  # of a new file
    claude_lock: bool = False


class Change(Record):
    target: Target
    rewrite: Rewrite


class Planned(Record):
    """A change and what it makes of the file as it is now; `content` is exactly what is written."""

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
    """What a file means; its name goes into the error when it is malformed."""
    try:
        return parse((data or b"").decode(), kind)
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise ConfigInvalid(
            f"{path} is not UTF-8 (line {line}, column {column}).",
            hint="It was left as it is.",
            file=str(path),
            line=line,
            column=column,
        ) from None
    except ConfigInvalid as error:
        raise ConfigInvalid(
            f"{path}: {error.message}.",
            hint="It was left as it is; correct it and try again.",
            file=str(path),
            **{name: value for name, value in error.fields.items() if name != "file"},
        ) from None


def _may_be_half_written(seen: disk.Snapshot) -> bool:
    """Gemini CLI truncates and writes in place: for a moment its file is empty or cut."""
    age = time.time() - (seen.identity[3] / 1e9 if seen.identity else 0)
    return 0 <= age < _FRESH


class Reader:
    """The documents of one operation: each file is read and parsed once, however often it is looked at."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[bytes, Document]] = {}

    def read(self, target: Target) -> Document | None:
        """A file's document, or None when there is no such file. A writer caught in the middle is waited for."""
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
        """The same, silent about a file that cannot be read: whoever lists that file names the problem."""
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
        found = document(data, target.kind, target.path)
        if data is not None:
            self._known[target.path] = data, found
        return found


def by_edits(
    target: Target, edits: Callable[[Document], Sequence[Edit]], reader: Reader | None = None
) -> Change:
    """A change made of edits, which are worked out anew when the file turns out to have changed."""
    reader = reader or Reader()

    def rewrite(data: bytes | None) -> Content | None:
        before = reader.parsed(data, target)
        wanted = edits(before)
        return before.edited(wanted).encoded(data or b"") if wanted else data

    return Change(target, rewrite)


# ── planning and writing ─────────────────────────────────────────────────────────────────────────────


def plan(change: Change, known: bytes | None = None) -> Planned:
    """`known` is what a `Reader` has just read: if it is old by now, the write finds out under the lock."""
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


# Told what is about to be written; says where each file as it was is to be kept.
Recorder = Callable[[Sequence[Planned]], Sequence[Path]]


def write(planned: Sequence[Planned], home: Path, record: Recorder | None = None) -> list[Planned]:
    """Apply all changes or none; returns what was written. `record` is called before anything is visible, and again
    when a file turned out to have changed."""
    wanted = sorted((one for one in planned if one.changes), key=lambda one: str(one.path))
    if not wanted:
        return []
    with ExitStack() as stack:
        held = [stack.enter_context(_locked(one.change.target, home)) for one in wanted]
        staged = [stack.enter_context(_staged(one)) for one in wanted]
        disk.together([partial(_tell, record, staged), *(one.put for one in staged)])
        _commit(staged, held, record)
        folders = dict.fromkeys(one.seen.real.parent for one in staged)
        disk.together([partial(disk.sync_folder, folder) for folder in folders])
        return [one.planned for one in staged]


@contextmanager
def _locked(target: Target, home: Path) -> Iterator[locks.StillHeld]:
    with ExitStack() as stack:
        still_held: locks.StillHeld = lambda: True  # noqa: E731
        with disk.explained(home / "locks", "written"):
            stack.enter_context(locks.own_lock(home, target.path))
        if target.claude_lock:
            with disk.explained(target.path, "locked"):
                still_held = stack.enter_context(locks.claude_lock(target.path))
        yield still_held


class _Staged:
    """The new content beside its file, ready to take its place."""

    def __init__(self, planned: Planned) -> None:
        self.planned = planned
        self.seen = disk.Snapshot(planned.path, None, None)
        self.temporary: Path | None = None
        self.backup: Path | None = None  # where the file as it was is kept
        self.folders: list[Path] = []  # made for it

    def look(self) -> None:
        """What the file is now, and what it shall be."""
        change = self.planned.change
        self.seen = disk.snapshot(change.target.path, self.planned.before)
        if self.seen.data != self.planned.before:
            self.seen, self.planned = _planned(change)
        stamp = self.seen.identity[2:] if self.seen.identity else None
        self.planned = self.planned.replaced(stamp=stamp)
        disk.refuse_read_only(self.seen, change.target.path)

    def put(self) -> None:
        """Write it next to the file, and wait for the disk."""
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
            kept = self.backup if self.planned.changes and self.seen.data is not None else None
            if kept is not None:
                with disk.explained(kept.parent, "written"):
                    disk.keep(self.seen, kept)
            try:
                self._take_place()
            except OSError:
                if kept is not None:
                    kept.unlink(missing_ok=True)  # it is what says that the file was replaced
                raise

    def _take_place(self) -> None:
        if self.temporary is not None:
            self.temporary.replace(self.seen.real)
            self.temporary = None
        elif self.planned.changes:
            self.seen.real.unlink()

    def restore(self) -> None:
        """Take back `replace`, if the file is still what it made."""
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
        staged.look()
        yield staged
    except BaseException:
        staged.discard()
        staged._remove_folders()  # noqa: SLF001 - only those that are still empty go
        raise
    finally:
        staged.discard()


def _tell(record: Recorder | None, staged: Sequence[_Staged]) -> None:
    if record is not None:
        for one, backup in zip(staged, record([one.planned for one in staged]), strict=True):
            one.backup = backup


def _commit(staged: list[_Staged], held: list[locks.StillHeld], record: Recorder | None) -> None:
    done: list[_Staged] = []
    try:
        for one, still_held in zip(staged, held, strict=True):
            _replace(one, still_held, lambda: _tell(record, staged))
            done.append(one)
    except BaseException as error:
        kept = [one.planned.path for one in reversed(done) if not _restored(one)]
        if kept and isinstance(error, CounselError):
            names = ", ".join(map(str, kept))
            raise Internal(
                f"{error.message} {names} had been written already and could not be taken back.",
                hint="`counsel servers undo` takes it back.",
                written=[str(path) for path in kept],
            ) from error
        raise


def _replace(one: _Staged, still_held: locks.StillHeld, changed: Callable[[], None]) -> None:
    for _ in range(_ATTEMPTS):
        if not still_held():
            raise Conflict(
                f"The lock of {one.planned.path} was taken over; nothing was written.", hint="Try again."
            )
        if one.unchanged():
            return one.replace()
        one.discard()
        one.look()  # somebody wrote without a lock: our edit goes on top of theirs
        one.put()
        changed()
    raise Conflict(f"{one.planned.path} keeps changing, so nothing was written.", hint="Try again.")


def _restored(one: _Staged) -> bool:
    try:
        one.restore()
    except (OSError, CounselError):
        return False
    return True

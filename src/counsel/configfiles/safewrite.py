"""Writing users' files: locked, read again, complete or not at all, several files all or none.

A change is a function from the file's bytes to new bytes. It is planned on what the file holds now, and applied to what
it holds under the lock: the planned bytes when nothing changed meanwhile, else the function is asked again.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from counsel.configfiles import locks
from counsel.configfiles.document import Document, Kind, parse
from counsel.configfiles.edits import Edit
from counsel.errors import ConfigInvalid, Conflict, CounselError, FileNotAllowed, FileTooLarge, Internal

LIMIT = 64 * 1024 * 1024  # bytes; a config file beyond this is a mistake, and editing it would take minutes
_ATTEMPTS = 20
_FRESH = 2.0  # seconds: a file that was touched this recently and does not parse may be half written
_PAUSE = 0.05

Rewrite = Callable[[bytes | None], bytes | None]


class Target(NamedTuple):
    path: Path  # as its client names it
    kind: Kind
    mode: int = 0o600  # of a new file
    claude_lock: bool = False


@dataclass(slots=True, eq=False)
class Change:
    target: Target
    rewrite: Rewrite = field(repr=False)


@dataclass(slots=True, eq=False)
class Planned:
    """A change and what it makes of the file as it is now; `after` is exactly what is written."""

    change: Change
    before: bytes | None = field(repr=False)
    after: bytes | None = field(repr=False)

    @property
    def path(self) -> Path:
        return self.change.target.path

    @property
    def changes(self) -> bool:
        return self.before != self.after


@dataclass(slots=True, eq=False)
class Snapshot:
    real: Path  # through symbolic links
    data: bytes | None = field(repr=False)
    identity: tuple[int, int, int, int] | None
    mode: int | None = None
    owner: tuple[int, int] | None = None


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


def snapshot(path: Path) -> Snapshot:
    with explained(path, "read"):
        real = _real(path)
        try:
            found = real.stat()
        except FileNotFoundError:
            return Snapshot(real, None, None)
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
            raise ConfigInvalid(
                f"{path} is {what}.", hint="Move it away, or name another folder.", file=str(path)
            )
        if found.st_size > LIMIT:
            raise FileTooLarge(
                f"{path} has {found.st_size:,} bytes; files up to {LIMIT:,} bytes are edited.",
                hint="Nothing was changed. Clean it up with its own program first.",
                file=str(path),
            )
        data = real.read_bytes()
    return Snapshot(real, data, _identity(found), stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid))


def _real(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        return Path(os.path.realpath(path))  # missing, or a link to a file that is to be made


def _identity(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def document(data: bytes | None, kind: Kind, path: Path) -> Document:
    """What a file means; its name goes into the error when it is malformed."""
    try:
        return parse((data or b"").decode(), kind)
    except UnicodeDecodeError as error:
        line = (data or b"").count(b"\n", 0, error.start) + 1
        raise ConfigInvalid(
            f"{path} is not UTF-8 (line {line}).", hint="It was left as it is.", file=str(path), line=line
        ) from None
    except ConfigInvalid as error:
        raise ConfigInvalid(
            f"{path}: {error.message}.",
            hint="It was left as it is; correct it and try again.",
            file=str(path),
            **{name: value for name, value in error.fields.items() if name != "file"},
        ) from None


def _may_be_half_written(seen: Snapshot) -> bool:
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
            seen = snapshot(target.path)
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

    def rewrite(data: bytes | None) -> bytes | None:
        before = reader.parsed(data, target)
        wanted = edits(before)
        return before.edited(wanted).text.encode() if wanted else data

    return Change(target, rewrite)


# ── planning and writing ─────────────────────────────────────────────────────────────────────────────


def plan(change: Change, known: bytes | None = None) -> Planned:
    """`known` is what a `Reader` has just read: if it is old by now, the write finds out under the lock."""
    if known is not None:
        return Planned(change, known, change.rewrite(known))
    while True:
        seen = snapshot(change.target.path)
        try:
            return Planned(change, seen.data, change.rewrite(seen.data))
        except ConfigInvalid:
            if not _may_be_half_written(seen):
                raise
            time.sleep(_PAUSE)


def write(
    planned: Sequence[Planned], home: Path, record: Callable[[Sequence[Planned]], None] | None = None
) -> list[Planned]:
    """Apply all changes or none; returns what was written. `record` is called when all is ready, before it is visible."""
    wanted = sorted((one for one in planned if one.changes), key=lambda one: str(one.path))
    if not wanted:
        return []
    with ExitStack() as stack:
        held = [stack.enter_context(_locked(one.change.target, home)) for one in wanted]
        staged = [stack.enter_context(_staged(one)) for one in wanted]
        if record is not None:
            record([one.planned for one in staged])
        for one in staged:  # one after the other, but all after all were written: the disk is waited for once
            one.sync()
        _commit(staged, held)
        for folder in dict.fromkeys(one.seen.real.parent for one in staged):
            _sync_folder(folder)
        return [one.planned for one in staged]


@contextmanager
def _locked(target: Target, home: Path) -> Iterator[locks.StillHeld]:
    with ExitStack() as stack:
        still_held: locks.StillHeld = lambda: True  # noqa: E731
        with explained(target.path, "locked"):
            stack.enter_context(locks.own_lock(home, target.path))
            if target.claude_lock:
                still_held = stack.enter_context(locks.claude_lock(target.path))
        yield still_held


@dataclass(slots=True)
class _Staged:
    """The new content beside its file, ready to take its place."""

    planned: Planned
    seen: Snapshot
    temporary: Path | None = None
    synced: bool = False
    folders: list[Path] = field(default_factory=list)  # made for it

    def prepare(self) -> None:
        """Look at the file as it is now; write what it shall be next to it."""
        self.discard()
        change = self.planned.change
        self.seen = snapshot(change.target.path)
        if self.seen.data != self.planned.before:
            self.planned = Planned(change, self.seen.data, change.rewrite(self.seen.data))
        _refuse_read_only(self.seen, change.target.path)
        if self.planned.changes and self.planned.after is not None:
            with explained(change.target.path, "written"):
                self.folders += _made_folders(self.seen.real.parent)
                self.temporary = _temporary(self.seen, self.planned.after, change.target.mode)
                self.synced = False

    def sync(self) -> None:
        if self.temporary is not None and not self.synced:
            with explained(self.planned.path, "written"):
                _sync_file(self.temporary)
            self.synced = True

    def unchanged(self) -> bool:
        try:
            return _identity(self.seen.real.stat()) == self.seen.identity
        except FileNotFoundError:
            return self.seen.identity is None

    def replace(self) -> None:
        with explained(self.planned.path, "written"):
            if self.temporary is not None:
                self.temporary.replace(self.seen.real)
                self.temporary = None
            elif self.planned.changes:
                self.seen.real.unlink()

    def restore(self) -> None:
        """Take back `replace`, if the file is still what it made."""
        if snapshot(self.planned.path).data != self.planned.after:
            return
        if self.planned.before is None:
            self.seen.real.unlink(missing_ok=True)
            self._remove_folders()
        else:
            old = _temporary(self.seen, self.planned.before, self.seen.mode or 0o600)
            _sync_file(old)
            old.replace(self.seen.real)
        _sync_folder(self.seen.real.parent)

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
    staged = _Staged(planned, Snapshot(planned.path, None, None))
    try:
        staged.prepare()
        yield staged
    except BaseException:
        staged.discard()
        staged._remove_folders()  # noqa: SLF001 - only those that are still empty go
        raise
    finally:
        staged.discard()


def _commit(staged: list[_Staged], held: list[locks.StillHeld]) -> None:
    done: list[_Staged] = []
    try:
        for one, still_held in zip(staged, held, strict=True):
            _replace(one, still_held)
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


def _replace(one: _Staged, still_held: locks.StillHeld) -> None:
    for _ in range(_ATTEMPTS):
        if not still_held():
            raise Conflict(
                f"The lock of {one.planned.path} was taken over; nothing was written.", hint="Try again."
            )
        one.sync()
        if one.unchanged():
            return one.replace()
        one.prepare()  # somebody wrote without a lock: our edit goes on top of theirs
    raise Conflict(f"{one.planned.path} keeps changing, so nothing was written.", hint="Try again.")


def _restored(one: _Staged) -> bool:
    try:
        one.restore()
    except (OSError, CounselError):
        return False
    return True


# ── the file system ──────────────────────────────────────────────────────────────────────────────────


def _refuse_read_only(seen: Snapshot, path: Path) -> None:
    """A rename would go past the file's own mode: a file made read-only was made so on purpose."""
    if seen.mode is None:
        return
    effective = os.access in os.supports_effective_ids
    if not seen.mode & 0o222 or not os.access(seen.real, os.W_OK, effective_ids=effective):
        raise FileNotAllowed(
            f"{path} is read-only; nothing was written.",
            hint=f"`chmod u+w {path}` if you want it changed.",
            file=str(path),
        )


def _made_folders(folder: Path) -> list[Path]:
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
    return list(reversed(missing))


def _temporary(seen: Snapshot, data: bytes, new_mode: int) -> Path:
    """The data in a new file beside the target. (`tempfile` would cost 20 ms of imports at every start.)"""
    path = seen.real.with_name(f".{seen.real.name}.{os.urandom(6).hex()}.counsel-tmp")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb", buffering=0) as file:
            _write_all(file, data)
            _keep_owner(file.fileno(), seen)
            os.fchmod(file.fileno(), new_mode if seen.mode is None else seen.mode)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _write_all(file: io.FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _keep_owner(handle: int, seen: Snapshot) -> None:
    made = os.fstat(handle)
    if seen.owner is not None and seen.owner != (made.st_uid, made.st_gid):
        os.fchown(handle, *seen.owner)


def _sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some file systems cannot; the rename itself is done
        pass
    finally:
        os.close(handle)


_WORDS: dict[int, tuple[type[CounselError], str, str]] = {
    errno.EACCES: (
        FileNotAllowed,
        "permission denied",
        "Check the owner and mode of the file and its folder.",
    ),
    errno.EPERM: (
        FileNotAllowed,
        "not permitted",
        "Check the owner, mode and attributes of the file and its folder.",
    ),
    errno.EROFS: (FileNotAllowed, "the file system is read-only", "Mount it writable, or edit it elsewhere."),
    errno.ENOSPC: (Internal, "the disk is full", "Free some space and try again."),
    errno.EDQUOT: (Internal, "the disk quota is used up", "Free some space and try again."),
    errno.EFBIG: (
        Internal,
        "the file would be larger than this process may write",
        "Raise the limit and try again.",
    ),
    errno.ELOOP: (ConfigInvalid, "its symbolic links form a loop", "Repair the link."),
    errno.EISDIR: (ConfigInvalid, "it is a folder", "Move it away."),
    errno.ENOTDIR: (ConfigInvalid, "a part of its path is a file, not a folder", "Move that file away."),
    errno.EEXIST: (ConfigInvalid, "a part of its path is a file, not a folder", "Move that file away."),
}


@contextmanager
def explained(path: Path, verb: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind, words, hint = _WORDS.get(
            error.errno or 0, (Internal, error.strerror or "it failed", "Try again.")
        )
        raise kind(
            f"{path} cannot be {verb}: {words}. Nothing was changed.", hint=hint, file=str(path)
        ) from error

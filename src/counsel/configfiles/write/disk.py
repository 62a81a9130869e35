"""The file system's part of a write: read through links, write a new file beside the old one, sync before replacing."""

import contextlib
import errno
import io
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from counsel.errors import ConfigInvalid, CounselError, FileNotAllowed, FileTooLarge, Internal
from counsel.records import Record

LIMIT = 64 * 1024 * 1024  # bytes; a config file beyond this is a mistake, and editing it would take minutes
_PIECE = 1 << 18
_SUFFIX = ".counsel-tmp"
_LEFT = 60.0  # seconds
_MOMENT = 0.25
_STEP = 0.01


class Snapshot(Record):
    real: Path  # through symbolic links
    data: bytes | None
    identity: tuple[int, int, int, int] | None
    mode: int | None = None
    owner: tuple[int, int] | None = None

    def __repr__(self) -> str:  # no content: it may hold secrets
        return f"Snapshot({self.real})"


def snapshot(path: Path, known: bytes | None = None) -> Snapshot:
    """The file as it is now. `known`: its content a moment ago; then it is only compared, piece by piece."""
    with explained(path, "read"):
        real = _real(path)
        try:
            info = _settled(real)
        except FileNotFoundError:
            return Snapshot(real, None, None)
        if not stat.S_ISREG(info.st_mode):
            what = "a folder" if stat.S_ISDIR(info.st_mode) else "not a regular file"
            raise ConfigInvalid(
                f"{path} is {what}.", hint="Move it away, or use another folder.", file=str(path)
            )
        if info.st_size > LIMIT:
            raise FileTooLarge(
                f"{path} has {info.st_size:,} bytes; only files up to {LIMIT:,} bytes are edited.",
                hint="Nothing was changed. Clean it up with its own program first.",
                file=str(path),
            )
        data = known if known is not None and _holds(real, known) else real.read_bytes()
    return Snapshot(real, data, identity(info), stat.S_IMODE(info.st_mode), (info.st_uid, info.st_gid))


def _settled(real: Path) -> os.stat_result:
    """Gemini CLI truncates and writes in place: a file that has just become empty is about to be filled."""
    deadline = time.monotonic() + _MOMENT
    while True:
        info = real.stat()
        recent = 0 <= time.time() - info.st_mtime < _MOMENT
        if info.st_size or not recent or time.monotonic() > deadline:
            return info
        time.sleep(_STEP)


def _real(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        return Path(os.path.realpath(path))  # missing, or a link to a file that will be created


def identity(info: os.stat_result) -> tuple[int, int, int, int]:
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


def _holds(real: Path, data: bytes) -> bool:
    at = 0
    with real.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            if not data.startswith(piece, at):
                return False
            at += len(piece)
    return at == len(data)


def refuse_read_only(seen: Snapshot, path: Path) -> None:
    """A rename would ignore the file's mode: a read-only file is read-only on purpose."""
    if seen.mode is None:
        return
    effective = os.access in os.supports_effective_ids
    if not seen.mode & 0o222 or not os.access(seen.real, os.W_OK, effective_ids=effective):
        raise FileNotAllowed(
            f"{path} is read-only; nothing was written.",
            hint=f"Run `chmod u+w {path}` to allow changes.",
            file=str(path),
        )


def made_folders(folder: Path) -> list[Path]:
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(exist_ok=True)
    return list(reversed(missing))


def put_beside(seen: Snapshot, pieces: Iterable[bytes | memoryview], new_mode: int) -> Path:
    """The pieces, one after the other, in a new file beside the target. (`tempfile` would cost 20 ms of imports at every start.)"""
    _remove_leftovers(seen.real)
    path = seen.real.with_name(f".{seen.real.name}.{os.urandom(6).hex()}{_SUFFIX}")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb", buffering=0) as file:
            for piece in pieces:
                _write_all(file, piece)
            _keep_owner(file.fileno(), seen)
            os.fchmod(file.fileno(), new_mode if seen.mode is None else seen.mode)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _remove_leftovers(real: Path) -> None:
    """Removes temporary files of killed writers: they may hold secrets. Recent ones may belong to a running writer."""
    with contextlib.suppress(OSError):
        left = [name for name in os.listdir(real.parent) if name.endswith(_SUFFIX)]  # noqa: PTH208 - names are enough
        for path in (real.with_name(name) for name in left if name.startswith(f".{real.name}.")):
            if time.time() - path.stat().st_mtime > _LEFT:
                path.unlink(missing_ok=True)


def _write_all(file: io.FileIO, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _keep_owner(handle: int, seen: Snapshot) -> None:
    info = os.fstat(handle)
    if seen.owner is not None and seen.owner != (info.st_uid, info.st_gid):
        os.fchown(handle, *seen.owner)


def keep(seen: Snapshot, backup: Path) -> None:
    """Gives the file that is about to be replaced a second name, without copying; copies it where that is impossible."""
    backup.unlink(missing_ok=True)
    info = seen.real.stat()
    if info.st_nlink == 1:  # else another name is in use, and may be written through
        with contextlib.suppress(OSError):  # another file system, or one without links
            os.link(seen.real, backup)
            return
    handle = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb", buffering=0) as file:
            _write_all(file, seen.data or b"")
        os.utime(backup, ns=(info.st_atime_ns, info.st_mtime_ns))
    except BaseException:
        backup.unlink(missing_ok=True)
        raise


def sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Best effort: some file systems cannot, some folders may not be read; the rename is already done."""
    with contextlib.suppress(OSError):
        sync_file(folder)


def together(steps: Sequence[Callable[[], None]]) -> None:
    """Run all at once: the disk syncs queued writes together. A failure, or Ctrl-C, is raised when all have ended."""
    runner = _Steps()
    for step in steps[1:]:
        runner.take(partial(runner.begin, step))
    for step in steps[:1]:
        runner.take(step)
    for ended in runner.running:
        while not ended.is_set():
            runner.take(ended.wait)
    for failure in sorted(runner.failures, key=lambda error: isinstance(error, Exception)):
        raise failure


class _Steps:
    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        # Not `join`: if that is interrupted, Python 3.11 considers a running thread ended.
        self.running: list[threading.Event] = []

    def take(self, step: Callable[[], object]) -> None:
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - raised by the caller's own thread
            self.failures.append(error)

    def begin(self, step: Callable[[], None]) -> None:
        ended = threading.Event()
        try:
            threading.Thread(target=self._run, args=(step, ended)).start()
        except RuntimeError:  # no more threads available
            step()
        else:
            self.running.append(ended)

    def _run(self, step: Callable[[], None], ended: threading.Event) -> None:
        self.take(step)
        ended.set()


_REASONS: dict[int, tuple[type[CounselError], str, str]] = {
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


@contextlib.contextmanager
def explained(path: Path, verb: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind, reason, hint = _REASONS.get(
            error.errno or 0, (Internal, error.strerror or "it failed", "Try again.")
        )
        raise kind(
            f"{path} cannot be {verb}: {reason}. Nothing was changed.", hint=hint, file=str(path)
        ) from error

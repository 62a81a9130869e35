"""File system calls of a write: resolve links, write a new file beside the old one, sync before replacing."""

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

LIMIT = 64 * 1024 * 1024  # bytes; a larger config file is a mistake, and editing it would take minutes
_PIECE = 1 << 18
_SUFFIX = ".counsel-tmp"
_LEFTOVER_SECONDS = 60.0  # age at which a temporary file belongs to no running writer
_SETTLE_SECONDS = 0.25
_POLL_SECONDS = 0.01


class Snapshot(Record):
    real: Path  # with symbolic links resolved
    data: bytes | None
    identity: tuple[int, int, int, int] | None
    mode: int | None = None
    owner: tuple[int, int] | None = None

    def __repr__(self) -> str:  # no content: it may hold secrets
        return f"Snapshot({self.real})"


def snapshot(path: Path, expected: bytes | None = None) -> Snapshot:
    """The file as it is now. If it still has the `expected` content, it is compared piece by piece, not read whole."""
    with translated_errors(path, "read"):
        real = _resolved(path)
        try:
            info = _stat_when_settled(real)
        except FileNotFoundError:
            return Snapshot(real, None, None)
        if not stat.S_ISREG(info.st_mode):
            kind = "a folder" if stat.S_ISDIR(info.st_mode) else "not a regular file"
            raise ConfigInvalid(
                f"{path} is {kind}.", hint="Move it away, or use another folder.", file=str(path)
            )
        if info.st_size > LIMIT:
            raise FileTooLarge(
                f"{path} has {info.st_size:,} bytes; only files up to {LIMIT:,} bytes are edited.",
                hint="Nothing was changed. Clean it up with its own program first.",
                file=str(path),
            )
        data = expected if expected is not None and _has_content(real, expected) else real.read_bytes()
    return Snapshot(real, data, identity(info), stat.S_IMODE(info.st_mode), (info.st_uid, info.st_gid))


def _stat_when_settled(real: Path) -> os.stat_result:
    """Wait briefly while a recently changed file is empty: Gemini CLI truncates it, then writes in place."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        info = real.stat()
        recent = 0 <= time.time() - info.st_mtime < _SETTLE_SECONDS
        if info.st_size or not recent or time.monotonic() > deadline:
            return info
        time.sleep(_POLL_SECONDS)


def _resolved(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        return Path(os.path.realpath(path))  # missing, or a link to a file that will be created


def identity(info: os.stat_result) -> tuple[int, int, int, int]:
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns


def _has_content(real: Path, data: bytes) -> bool:
    position = 0
    with real.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            if not data.startswith(piece, position):
                return False
            position += len(piece)
    return position == len(data)


def refuse_read_only(original: Snapshot, path: Path) -> None:
    """Replacing a file by a rename would ignore its mode, but a read-only file is read-only on purpose."""
    if original.mode is None:
        return
    effective = os.access in os.supports_effective_ids
    if not original.mode & 0o222 or not os.access(original.real, os.W_OK, effective_ids=effective):
        raise FileNotAllowed(
            f"{path} is read-only; nothing was written.",
            hint=f"Run `chmod u+w {path}` to allow changes.",
            file=str(path),
        )


def create_folders(folder: Path) -> list[Path]:
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(exist_ok=True)
    return list(reversed(missing))


def write_beside(original: Snapshot, pieces: Iterable[bytes | memoryview], new_mode: int) -> Path:
    """Write the pieces to a new file beside the original. (Importing `tempfile` would cost 20 ms at every start.)"""
    _remove_leftovers(original.real)
    path = original.real.with_name(f".{original.real.name}.{os.urandom(6).hex()}{_SUFFIX}")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb", buffering=0) as file:
            for piece in pieces:
                _write_all(file, piece)
            _keep_owner(file.fileno(), original)
            os.fchmod(file.fileno(), new_mode if original.mode is None else original.mode)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _remove_leftovers(real: Path) -> None:
    """Remove temporary files of killed writers, which may hold secrets. Recent ones may belong to a running writer."""
    with contextlib.suppress(OSError):
        names = [name for name in os.listdir(real.parent) if name.endswith(_SUFFIX)]  # noqa: PTH208 - names are enough
        for path in (real.with_name(name) for name in names if name.startswith(f".{real.name}.")):
            if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
                path.unlink(missing_ok=True)


def _write_all(file: io.FileIO, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _keep_owner(handle: int, original: Snapshot) -> None:
    info = os.fstat(handle)
    if original.owner is not None and original.owner != (info.st_uid, info.st_gid):
        os.fchown(handle, *original.owner)


def back_up(original: Snapshot, backup: Path) -> None:
    """Keep the file that is about to be replaced under a second name; where links are impossible, copy it."""
    backup.unlink(missing_ok=True)
    info = original.real.stat()
    if info.st_nlink == 1:  # through another hard link, a program could write into the backup
        with contextlib.suppress(OSError):  # another file system, or one without links
            os.link(original.real, backup)
            return
    handle = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb", buffering=0) as file:
            _write_all(file, original.data or b"")
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
    """Sync if possible: some file systems cannot, some folders are unreadable; the rename is done in any case."""
    with contextlib.suppress(OSError):
        sync_file(folder)


def run_all(steps: Sequence[Callable[[], None]]) -> None:
    """Run all steps at once: the disk syncs queued writes together. Failures and Ctrl-C are raised at the end."""
    runner = _Steps()
    for step in steps[1:]:
        runner.attempt(partial(runner.start, step))
    for step in steps[:1]:
        runner.attempt(step)
    for finished in runner.running:
        while not finished.is_set():
            runner.attempt(finished.wait)
    for failure in sorted(runner.failures, key=lambda error: isinstance(error, Exception)):
        raise failure


class _Steps:
    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        # Events instead of `Thread.join`: after an interrupted join, Python 3.11 considers a running thread ended.
        self.running: list[threading.Event] = []

    def attempt(self, step: Callable[[], object]) -> None:
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - `run_all` raises it
            self.failures.append(error)

    def start(self, step: Callable[[], None]) -> None:
        finished = threading.Event()
        try:
            threading.Thread(target=self._run, args=(step, finished)).start()
        except RuntimeError:  # no more threads available
            step()
        else:
            self.running.append(finished)

    def _run(self, step: Callable[[], None], finished: threading.Event) -> None:
        self.attempt(step)
        finished.set()


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
def translated_errors(path: Path, verb: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind, reason, hint = _REASONS.get(
            error.errno or 0, (Internal, error.strerror or "it failed", "Try again.")
        )
        raise kind(
            f"{path} cannot be {verb}: {reason}. Nothing was changed.", hint=hint, file=str(path)
        ) from error

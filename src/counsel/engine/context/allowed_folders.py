"""Opens files that a caller names, if they are inside the folders that it may send from.

A file is pinned first and checked afterwards, so the file that is read is the one whose real path was checked:
swapping a symlink in between has no effect. On Linux the pin is `O_PATH`: a FIFO cannot block, and a device is
never opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from counsel import resource_errors
from counsel.caller import Caller
from counsel.engine.context import secret_files
from counsel.errors import CounselError, FileNotAllowed, InvalidArgument, NotFound
from counsel.lazy_dataclass import dataclass

# Private folders in the home folder, in addition to hidden ones.
PRIVATE = {"Library"} if sys.platform == "darwin" else set()
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A regular file inside the allowed folders, open for reading."""

    name: str  # as the caller wrote it
    path: Path  # with symlinks resolved
    fd: int
    size: int
    modified: float

    def read(self, limit: int) -> bytes:
        """At most `limit` bytes, whatever size the file system reports."""
        parts: list[bytes] = []
        remaining = limit
        while remaining > 0 and (part := os.read(self.fd, min(remaining, 1 << 20))):
            parts.append(part)
            remaining -= len(part)
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders that one caller may send files from, symlinks resolved."""

    working: tuple[Path, ...]  # the caller's own folder and its client's roots
    allowed: tuple[Path, ...]  # the user's COUNSEL_ALLOWED_DIRS
    home: Path
    caller: Caller
    files: frozenset[Path] = frozenset()  # single files that a person typed

    @classmethod
    def of(cls, caller: Caller) -> Folders:
        home = Path(caller.env.get("HOME") or Path.home())
        if caller.person is not None:  # on a team's server, a person may send only what they uploaded
            return cls((), (), _real_folder(home) or home, caller, frozenset(caller.consented_files))
        working = dict.fromkeys(real for folder in caller.folders if (real := _real_folder(folder)))
        allowed_dirs = (expand(text, home) for text in caller.settings.allowed_dirs)
        return cls(
            working=tuple(real for real in working if real != real.parent),  # `/` is not a project
            allowed=tuple(real for folder in allowed_dirs if (real := _real_folder(folder))),
            home=_real_folder(home) or home,
            caller=caller,
            files=frozenset(caller.consented_files),
        )

    def allows(self, real: Path) -> bool:
        if real in self.files or any(real.is_relative_to(folder) for folder in self.allowed):
            return True
        return any(real.is_relative_to(folder) and not self._private(real, folder) for folder in self.working)

    def _private(self, real: Path, folder: Path) -> bool:
        """Whether a file of the home folder is private: a client started there works on documents, not on
        ~/.bash_history."""
        if not (self.home.is_relative_to(folder) and real.is_relative_to(self.home)):
            return False
        return any(part.startswith(".") or part in PRIVATE for part in real.relative_to(self.home).parts[:1])

    def locate(self, name: str) -> Path:
        """The path of a name: absolute, or in the first of the caller's folders that contains it."""
        if not name.strip():
            raise InvalidArgument("A file name is empty.", hint="Leave it out, or name a file.")
        path = expand(name, self.home)
        if path.is_absolute():
            return path
        candidates = [folder / path for folder in self.caller.folders if folder.is_absolute()]
        if not candidates:
            raise InvalidArgument(
                f"{name} is a relative path, and the caller's folder is unknown.",
                hint="Give an absolute path, or set CLIENT_CWD.",
                file=name,
            )
        return next((path for path in candidates if os.path.lexists(path)), candidates[0])

    @contextlib.contextmanager
    def open(self, name: str, path: Path) -> Iterator[OpenFile]:
        """Open the file at `path` if it may be sent. Errors call it `name`."""
        with contextlib.ExitStack() as stack:
            try:
                pin = _pin(path)
                stack.callback(os.close, pin)
                real = self._check(name, path, pin)
                fd = _readable(pin)
                stack.callback(os.close, fd)
                status = os.fstat(fd)
            except OSError as error:
                raise self._cannot(name, path, error) from None
            except ValueError:  # NUL or a lone surrogate in the name
                raise InvalidArgument(
                    f"{name!r} is not a valid file name.", hint="Name a regular file.", file=repr(name)
                ) from None
            yield OpenFile(name, real, fd, status.st_size, status.st_mtime)

    def _check(self, name: str, path: Path, pin: int) -> Path:
        status = os.fstat(pin)
        real = _real(pin)
        if not self.allows(real):
            raise self.outside(name)
        kind = stat.S_IFMT(status.st_mode)
        if kind != stat.S_IFREG:
            raise InvalidArgument(
                f"{name} is {KINDS.get(kind, 'not a regular file')}, not a file.",
                hint="Name a regular file.",
                file=name,
            )
        if why := secret_files.by_name(path, real, status, self.home, self.caller):
            raise FileNotAllowed(
                f"{name} was not sent: {why}.", hint=secret_files.hint(real, self.caller), file=name
            )
        return real

    def outside(self, name: str) -> CounselError:
        if self.caller.person is not None:
            return FileNotAllowed(
                f"{name} is not a file that you uploaded to this server, and its own files are not sent.",
                hint="Upload it with POST /api/files and name the path in the answer. "
                "After `counsel login`, your own machine reads files and asks this server.",
                file=name,
            )
        where = " or ".join(str(folder) for folder in (*self.working, *self.allowed))
        inside = (
            f"Only files inside {where} can be sent"
            if where
            else "The caller has no folder to send files from"
        )
        link = " Links that lead out of the project are not followed: name the file itself."
        return FileNotAllowed(
            f"{name} is outside the allowed folders.",
            hint=f"{inside}; COUNSEL_ALLOWED_DIRS adds folders.{link if self.caller.client == 'cli' else ''}",
            file=name,
        )

    def _cannot(self, name: str, path: Path, error: OSError) -> CounselError:
        if failure := resource_errors.failure(error, f"{name} cannot be read"):
            return failure
        if error.errno in {errno.ENOENT, errno.ENOTDIR}:
            if not self.allows(Path(os.path.realpath(path))):
                return self.outside(name)  # does not reveal whether it exists
            hint = "Check the path." if str(path) == name else f"Looked for {path}."
            return NotFound(f"{name} does not exist.", hint=hint, file=name)
        if error.errno in {errno.EACCES, errno.EPERM}:
            return FileNotAllowed(
                f"{name} cannot be read: permission denied.", hint="Check its mode and owner.", file=name
            )
        return InvalidArgument(
            f"{name} cannot be read: {error.strerror}.", hint="Name a readable file.", file=name
        )


def expand(path: str, home: Path) -> Path:
    return home / path[2:] if path.startswith("~/") else Path(path)


def _real_folder(folder: Path) -> Path | None:
    """The folder's real path, resolved like a file's so that the two can be compared; None if it does not exist."""
    if not folder.is_absolute():
        return None
    try:
        pin = _pin(folder)
    except (OSError, ValueError) as error:
        if failure := resource_errors.failure(error, f"{folder} cannot be read"):
            raise failure from None  # otherwise its files would seem to be outside the allowed folders
        return None
    try:
        return _real(pin)
    except OSError:
        return None
    finally:
        os.close(pin)


if sys.platform == "linux":

    def _pin(path: Path) -> int:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)

    def _link(pin: int) -> Path:
        return Path(f"/proc/self/fd/{pin}").readlink()

    def _readable(pin: int) -> int:
        return os.open(f"/proc/self/fd/{pin}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

else:

    def _pin(path: Path) -> int:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EINVAL, f"it is {KINDS.get(stat.S_IFMT(mode), 'not a regular file')}")
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)

    def _link(pin: int) -> Path:
        import fcntl  # on demand, as it saves start-up time

        get_path = getattr(fcntl, "F_GETPATH", 50)
        return Path(os.fsdecode(fcntl.fcntl(pin, get_path, bytes(1024)).rstrip(b"\0")))

    def _readable(pin: int) -> int:
        return os.dup(pin)


def _real(pin: int) -> Path:
    """The current path of a pinned file. Raises if another file is at that path now (deleted, renamed)."""
    path = _link(pin)
    path_stat, pin_stat = path.lstat(), os.fstat(pin)
    if (path_stat.st_dev, path_stat.st_ino) != (pin_stat.st_dev, pin_stat.st_ino):
        raise FileNotFoundError(errno.ENOENT, "it was moved while it was being opened", str(path))
    return path

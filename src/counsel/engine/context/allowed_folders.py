"""Opens files that a caller named, and none outside the folders that it may send from.

The file is pinned first and checked afterwards: what is read is the very file whose real path was checked, so
swapping a symlink in between has no effect. On Linux the pin is `O_PATH`: a FIFO cannot block, a device is
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

PRIVATE = (
    {"Library"} if sys.platform == "darwin" else set()
)  # folders of the home folder, in addition to hidden ones
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True)
class Opened:
    """A regular file inside the allowed folders, open for reading."""

    name: str  # as the caller wrote it
    path: Path  # where it really is
    fd: int
    size: int
    modified: float

    def read(self, limit: int) -> bytes:
        """At most `limit` bytes, whatever size the file claims to have."""
        parts: list[bytes] = []
        left = limit
        while left > 0 and (part := os.read(self.fd, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders that one caller may send files from, symlinks resolved."""

    working: tuple[Path, ...]  # the caller's own folder and its client's roots
    granted: tuple[Path, ...]  # the user's COUNSEL_ALLOWED_DIRS
    home: Path
    caller: Caller
    named: frozenset[Path] = frozenset()  # single files that a person typed

    @classmethod
    def of(cls, caller: Caller) -> Folders:
        home = Path(caller.env.get("HOME") or Path.home())
        if (
            caller.person is not None
        ):  # the server's files are not the team's: only what the person has uploaded
            return cls((), (), _real_folder(home) or home, caller, frozenset(caller.named))
        named = dict.fromkeys(real for folder in caller.folders if (real := _real_folder(folder)))
        granted = (expand(text, home) for text in caller.settings.allowed_dirs)
        return cls(
            working=tuple(real for real in named if real != real.parent),  # `/` is not a project
            granted=tuple(real for folder in granted if (real := _real_folder(folder))),
            home=_real_folder(home) or home,
            caller=caller,
            named=frozenset(caller.named),
        )

    def allow(self, real: Path) -> bool:
        if real in self.named or any(real.is_relative_to(folder) for folder in self.granted):
            return True
        return any(real.is_relative_to(folder) and not self._private(real, folder) for folder in self.working)

    def _private(self, real: Path, folder: Path) -> bool:
        """A client started in the home folder works on documents there, not on ~/.mozilla or ~/.bash_history."""
        if not (self.home.is_relative_to(folder) and real.is_relative_to(self.home)):
            return False
        return any(part.startswith(".") or part in PRIVATE for part in real.relative_to(self.home).parts[:1])

    def locate(self, name: str) -> Path:
        """The path of a name: absolute, or in the first of the caller's folders that contains it."""
        if not name.strip():
            raise InvalidArgument("A file name is empty.", hint="Remove it, or name a file.")
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
    def open(self, name: str, path: Path) -> Iterator[Opened]:
        """The file at `path`, if it may be sent. `name` is what errors call it."""
        with contextlib.ExitStack() as stack:
            try:
                pin = _pin(path)
                stack.callback(os.close, pin)
                real = self._check(name, path, pin)
                fd = _readable(pin)
                stack.callback(os.close, fd)
                about = os.fstat(fd)
            except OSError as error:
                raise self._cannot(name, path, error) from None
            except ValueError:  # NUL or a lone surrogate in the name
                raise InvalidArgument(
                    f"{name!r} is not a valid file name.", hint="Name a regular file.", file=repr(name)
                ) from None
            yield Opened(name, real, fd, about.st_size, about.st_mtime)

    def _check(self, name: str, path: Path, pin: int) -> Path:
        about = os.fstat(pin)
        real = _real(pin)
        if not self.allow(real):
            raise self.outside(name)
        kind = stat.S_IFMT(about.st_mode)
        if kind != stat.S_IFREG:
            raise InvalidArgument(
                f"{name} is {KINDS.get(kind, 'not a regular file')}, not a file.",
                hint="Name a regular file.",
                file=name,
            )
        if why := secret_files.by_name(path, real, about, self.home, self.caller):
            raise FileNotAllowed(
                f"{name} was not sent: {why}.", hint=secret_files.hint(real, self.caller), file=name
            )
        return real

    def outside(self, name: str) -> CounselError:
        if self.caller.person is not None:
            return FileNotAllowed(
                f"{name} is not a file that you have sent to this server, and it sends none of its own.",
                hint="Send it with POST /api/files and name the path that this answers. "
                "After `counsel login` your own machine reads files and asks this server.",
                file=name,
            )
        where = " or ".join(str(folder) for folder in (*self.working, *self.granted))
        inside = (
            f"Only files inside {where} can be sent"
            if where
            else "The caller has no folder to send files from"
        )
        link = " A link that leads out of the project is not followed: name the file that it leads to."
        return FileNotAllowed(
            f"{name} is outside the allowed folders.",
            hint=f"{inside}; COUNSEL_ALLOWED_DIRS adds folders.{link if self.caller.client == 'cli' else ''}",
            file=name,
        )

    def _cannot(self, name: str, path: Path, error: OSError) -> CounselError:
        if lack := resource_errors.failure(error, f"{name} cannot be read"):
            return lack
        if error.errno in {errno.ENOENT, errno.ENOTDIR}:
            if not self.allow(Path(os.path.realpath(path))):
                return self.outside(name)  # do not reveal whether it exists
            return NotFound(f"{name} does not exist.", hint=f"Looked at {path}.", file=name)
        if error.errno in {errno.EACCES, errno.EPERM}:
            return FileNotAllowed(
                f"{name} cannot be read: permission denied.", hint="Check its mode and owner.", file=name
            )
        return InvalidArgument(
            f"{name} cannot be read: {error.strerror}.", hint="Name a readable file.", file=name
        )


def expand(text: str, home: Path) -> Path:
    return home / text[2:] if text.startswith("~/") else Path(text)


def _real_folder(folder: Path) -> Path | None:
    """Resolved like descriptors, so that comparisons see equal spellings; None: it does not exist."""
    if not folder.is_absolute():
        return None
    try:
        pin = _pin(folder)
    except (OSError, ValueError) as error:
        if lack := resource_errors.failure(error, f"{folder} cannot be read"):
            raise lack from None  # otherwise its files would seem to be outside
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
        import fcntl  # only where it is used

        get_path = getattr(fcntl, "F_GETPATH", 50)
        return Path(os.fsdecode(fcntl.fcntl(pin, get_path, bytes(1024)).rstrip(b"\0")))

    def _readable(pin: int) -> int:
        return os.dup(pin)


def _real(pin: int) -> Path:
    """The current path of a pinned file. Raises if that path now has another file (deleted, renamed)."""
    path = _link(pin)
    by_path, pinned = path.lstat(), os.fstat(pin)
    if (by_path.st_dev, by_path.st_ino) != (pinned.st_dev, pinned.st_ino):
        raise FileNotFoundError(errno.ENOENT, "it was moved while it was opened", str(path))
    return path

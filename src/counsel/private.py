"""What is ours is its owner's alone: folders, and a process' memory. Standard library only: the stdio front stands on this."""

from __future__ import annotations

import os


def folder(path: str | os.PathLike[str]) -> None:
    """Make a folder and whatever is missing above it, 0700 each: `mkdir(parents=True)` gives only the last one its mode."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    except FileNotFoundError:
        above = os.path.dirname(os.fspath(path))
        if not above or above == os.fspath(path):
            raise
        folder(above)
        folder(path)


def write(path: str, content: bytes, *, replace: bool) -> None:
    """A private file, whole or not at all: under another name, taken to the disk, then renamed.

    Where one is and it is not to be replaced: FileExistsError.
    """
    draft = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        if replace:
            os.replace(draft, path)
        else:
            os.link(draft, path)
            os.unlink(draft)
    except BaseException:
        if os.path.lexists(draft):
            os.unlink(draft)
        raise


def process() -> None:
    """For a process that holds callers' keys: no core file has them; and as many open files as the system gives."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY if hard == resource.RLIM_INFINITY else min(_MANY, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:  # 256 on a Mac, and an agent that runs takes three
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


_MANY = 8_192

"""Recognise failures that are caused by a lack of open files, memory or processes on this machine.

Such a failure can occur anywhere (a connection, a file, an agent's start), and looks like a failure of that operation.
"""

from __future__ import annotations

import errno
import resource  # imported early: when no file can be opened, it cannot be loaded

from counsel.errors import OutOfResources

_FILES = "Close some programs or agents, or raise the limit (`ulimit -n`; for a service, LimitNOFILE), then restart counsel (`counsel daemon stop`)."
_MEMORY = "Close some programs, send less, or raise the limit (`ulimit -v`; for a service, MemoryMax), then ask again."
_PROCESSES = "Close some programs, or raise the limit (`ulimit -u`; for a service, TasksMax), then ask again."
_CAUSES = {
    errno.EMFILE: ("counsel has reached its limit of open files and connections ({limit})", _FILES),
    errno.ENFILE: ("this machine has reached its limit of open files", _FILES),
    errno.ENOMEM: ("there is not enough memory", _MEMORY),
    errno.ENOBUFS: ("the system has no memory left for connections", _MEMORY),
}
_START_CAUSES = _CAUSES | {
    errno.EAGAIN: ("no more processes can be started", _PROCESSES),
}


def cause(error: BaseException | None, *, starting: bool = False) -> tuple[str, str] | None:
    """What is missing and what to do, if the error or one of its causes is such a failure.

    `starting`: a process was being started; then EAGAIN means that there are too many.
    """
    causes = _START_CAUSES if starting else _CAUSES
    for link in _chain(error):
        if isinstance(link, MemoryError):
            return _CAUSES[errno.ENOMEM]
        if isinstance(link, RuntimeError) and "can't start new thread" in str(link):
            return _START_CAUSES[errno.EAGAIN]
        if isinstance(link, OSError) and link.errno in causes:
            message, hint = causes[link.errno]
            return message.format(limit=_open_files()), hint
    return None


def failure(error: BaseException | None, action: str, *, starting: bool = False) -> OutOfResources | None:
    """The error to raise: `action` failed for lack of a resource; None if that is not the cause."""
    if (shortage := cause(error, starting=starting)) is None:
        return None
    message, hint = shortage
    return OutOfResources(f"{action}: {message}.", hint=hint)


def _chain(error: BaseException | None) -> list[BaseException]:
    """The error and its causes."""
    errors: list[BaseException] = []
    queue = [error]
    while queue and len(errors) < 20:
        link = queue.pop()
        if link is None or any(link is earlier for earlier in errors):
            continue
        errors.append(link)
        queue += [link.__cause__, link.__context__, getattr(link, "os_error", None)]
        if isinstance(link, BaseExceptionGroup):
            queue += link.exceptions
    return errors


def _open_files() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

"""Recognises failures whose cause is that this machine has run out of open files, memory or processes.

Such a failure can surface anywhere (a connection, a file, an agent's start) and then looks like a failure of that thing.
"""

from __future__ import annotations

import errno
import resource  # at once: when no file can be opened, it cannot be loaded, either

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
    """The missing resource and what to do, if the error or one of its causes names one.

    `starting`: a process was being started, where EAGAIN means that there are too many.
    """
    causes = _START_CAUSES if starting else _CAUSES
    for each in _chain(error):
        if isinstance(each, MemoryError):
            return _CAUSES[errno.ENOMEM]
        if isinstance(each, RuntimeError) and "can't start new thread" in str(each):
            return _START_CAUSES[errno.EAGAIN]
        if isinstance(each, OSError) and each.errno in causes:
            message, hint = causes[each.errno]
            return message.format(limit=_open_files()), hint
    return None


def failure(error: BaseException | None, what: str, *, starting: bool = False) -> OutOfResources | None:
    """The error to raise: `what` could not be done, and why."""
    if (shortage := cause(error, starting=starting)) is None:
        return None
    message, hint = shortage
    return OutOfResources(f"{what}: {message}.", hint=hint)


def _chain(error: BaseException | None) -> list[BaseException]:
    """The error and its causes."""
    errors: list[BaseException] = []
    waiting = [error]
    while waiting and len(errors) < 20:
        each = waiting.pop()
        if each is None or any(each is known for known in errors):
            continue
        errors.append(each)
        waiting += [each.__cause__, each.__context__, getattr(each, "os_error", None)]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
    return errors


def _open_files() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

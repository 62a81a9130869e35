"""The lock and the socket that make a process the daemon of its COUNSEL_HOME.

Only the process that holds the lock at the lock's path changes the socket's path. A process that loses the lock because
the home was deleted, moved or restored leaves both alone: they belong to the next daemon.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import time
from pathlib import Path
from typing import Literal, TypeAlias

from counsel import __version__, locks, run_paths

log = logging.getLogger("counsel.daemon")

State: TypeAlias = Literal["ours", "no socket", "lost"]
BACKLOG = 512
LOCK_TIMEOUT = 10.0  # seconds for the previous daemon to exit
TOUCH = 3600.0  # seconds between updates of the files' times: programs that clean /tmp delete old files


class AlreadyRunning(Exception):
    """Another daemon serves this COUNSEL_HOME."""


class DaemonFiles:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = run_paths.run_folder(str(home))
        self.socket = run_paths.socket(str(home))
        self._lock: int | None = None
        self._bound: locks.Identity | None = None
        self._touched = time.monotonic()
        self._home = locks.PinnedFolder(home)

    @property
    def _lock_path(self) -> str:
        return f"{self.folder}/daemon.lock"

    # ── starting ──

    def take(self) -> None:
        """Take the lock. Raises `AlreadyRunning`, or `TimeoutError` if the daemon that has it does not answer.

        The kernel releases the lock however this process ends.
        """
        deadline = time.monotonic() + LOCK_TIMEOUT
        while not self._take():
            if _answers(self.socket):
                raise AlreadyRunning
            if time.monotonic() > deadline:
                raise TimeoutError(_not_answering(self._lock_path))
            time.sleep(0.02)  # the previous daemon is writing its last data

    def _take(self) -> bool:
        lock = locks.take(self._lock_path)
        if lock is None:
            return False
        self.release()
        self._lock = lock
        locks.sign(lock, json.dumps({"pid": os.getpid(), "version": __version__}))
        return True

    def listen(self) -> socket.socket:
        if self._home.is_there():
            run_paths.socket(str(self.home))  # recreates its folder in /tmp, which may have been cleaned up
        _sweep(self.socket)
        listener, self._bound = bind(self.socket)
        return listener

    # ── running ──

    def state(self) -> State:
        """Whether our files are in place. Raises `OSError` when that is unknown.

        `no socket`: the socket was deleted or replaced. `lost`: the lock or the home was.
        """
        if self._lock is None or not locks.is_at(self._lock, self._lock_path) or not self._home.is_there():
            return "lost"
        self._touch()
        return "ours" if locks.identity(self.socket) == self._bound else "no socket"

    def regain(self) -> bool:
        """Recreate a deleted lock. False when the home was replaced or another daemon has the lock."""
        if not self._home.is_there():
            return False
        run_paths.run_folder(str(self.home))
        run_paths.socket(str(self.home))
        return self._take()

    def _touch(self) -> None:
        if time.monotonic() - self._touched > TOUCH:
            self._touched = time.monotonic()
            for path in (self._lock_path, self.socket, self.folder, str(Path(self.socket).parent)):
                with contextlib.suppress(OSError):
                    os.utime(path)

    # ── exiting ──

    def remove_socket(self) -> None:
        """Remove the socket. The first step of an exit, so that no client connects any more."""
        with contextlib.suppress(OSError):
            if self.state() != "ours":
                return
            Path(self.socket).unlink()
            if Path(self.socket).parent != Path(self.folder):  # a folder of its own in /tmp
                Path(self.socket).parent.rmdir()

    def release(self) -> None:
        """Release the lock but keep its file: a deleted lock file could be locked twice."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def bind(path: str) -> tuple[socket.socket, locks.Identity | None]:
    """A listening socket and its file's identity. The caller holds the lock on `path`.

    The socket is bound under another name, then renamed: `path` never names a socket that does not listen yet or that
    others may open.
    """
    temporary = f"{path}.{os.getpid()}"
    Path(temporary).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    umask = os.umask(0o177)
    try:
        listener.bind(temporary)
    finally:
        os.umask(umask)
    listener.listen(BACKLOG)
    identity = locks.identity(temporary)  # the kernel does not reuse this inode while the socket is open
    Path(temporary).replace(path)
    return listener, identity


def _sweep(path: str) -> None:
    """Remove sockets of daemons that were killed between bind and rename.

    As we hold the lock, none of them is alive.
    """
    for leftover in Path(path).parent.glob(f"{Path(path).name}.*"):
        if leftover.suffix[1:].isdigit():
            with contextlib.suppress(OSError):
                leftover.unlink()


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:  # a full queue: it is listening
            return True
        except OSError:
            return False
    return True


def _not_answering(path: str) -> str:
    pid = locks.holder(path)
    process = f"process {pid}" if pid else "another process"
    todo = f"`kill -CONT {pid}` resumes it if it is suspended, `kill {pid}` ends it" if pid else "end it"
    return f"{process} holds {path} and does not answer: {todo}"

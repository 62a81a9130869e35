"""Connects to the daemon, or starts one. Any number of processes at once start exactly one.

The process that holds `spawn.lock` starts the daemon, after checking once more that none runs; the others try again. A
socket that refuses was left behind by a killed daemon. Standard library only: the front imports this.
"""

from __future__ import annotations

import os
import sys
import time

from counsel import __version__, locks, run_paths
from counsel.front import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as socket_
    from collections.abc import Mapping
    from typing import Any

FULL = object()  # a daemon listens, and its queue of connections is full
RETRY = 0.01  # seconds between attempts while a daemon starts
LOOK = 0.25  # seconds between checks for another process' daemon, while we wait before the next start
LONGEST_PAUSE = 5.0  # seconds before another start, when many in a row have failed
STATED = 60.0  # seconds of failing starts with a known reason before waiting calls fail: an upgrade takes that long
STARTS = 3  # failed starts before that: on a busy machine each takes seconds
AT_LEAST = 5.0  # seconds of attempts for a call that arrives later
STARTER = 15.0  # seconds for another process to start the daemon, before we start one as well
# -P: we run in whatever folder an agent works in, and no module of that folder may be imported
COMMAND = [sys.executable, "-P", "-m", "counsel.daemon.main"]


def older(version: str) -> bool:
    """Whether a daemon of that release must be replaced by ours. A newer one serves us too."""
    return _numbers(version) < _numbers(__version__)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


class Launcher:
    """Attempts to reach the daemon of one COUNSEL_HOME; none of them blocks."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.home = run_paths.home(env)
        self.problem = ""  # why there is no daemon, when that is known
        self.error: OSError | None = None  # why we could not start one, if it failed in this process
        self._lock: int | None = None
        self._locked_out = 0.0  # since when another process has been starting a daemon
        self._child = 0  # the process that starts the daemon and ends when it listens or has failed
        self._former: list[int] = []  # such processes that we no longer wait for
        self._failures = 0  # in a row: starts, and daemons that died before they answered anything
        self._stated = 0.0  # since when starts have failed with a known reason
        self._not_before = 0.0  # when to start the next one

    def attempt(self) -> socket_.socket | None:
        """A connection that does not block, or None: try again after `pause()`, unless it is time to give up (`hopeless`)."""
        try:
            connection = self._attempt()
        except OSError as error:
            self.release()
            self.error = error
            self._failed(f"{error.strerror} ({error.filename})" if error.filename else str(error))
            return None
        if connection is not None:
            self.error = None
            self.release()
        return connection

    def _attempt(self) -> socket_.socket | None:
        connection = self._connect()
        if connection is None and self._may_start():
            connection = self._connect()
            if connection is None:
                self._spawn()
        return None if connection is FULL else connection

    def _may_start(self) -> bool:
        if self._starting() or time.monotonic() < self._not_before:
            return False
        return self.take_lock() or self._stuck()

    def pause(self) -> float:
        """Seconds until another attempt makes sense."""
        return min(max(RETRY, self._not_before - time.monotonic()), LOOK)

    def hopeless(self, since: float, limit: float, stated: float = STATED) -> bool:
        """Whether a call that has waited since then fails because there is no daemon.

        Starts that fail with a known reason for `stated` seconds are enough: only a person can fix that.
        """
        now = time.monotonic()
        if now - since > limit:
            return True
        often = bool(self._stated) and self._failures > STARTS
        return often and now - self._stated > stated and now - since > min(AT_LEAST, stated)

    def lost(self) -> None:
        """Our daemon died. The next one is started at once, the one after it with a pause."""
        self._pause()

    def greeted(self) -> None:
        """A daemon has started and said hello."""
        self.problem, self._stated = "", 0.0

    def answered(self) -> None:
        """A daemon has lived long enough to be useful: the next death counts as the first."""
        self.problem, self._failures, self._stated, self._not_before = "", 0, 0.0, 0.0

    def existing(self) -> socket_.socket | None:
        """A connection to a running daemon; None if none runs. Raises `OSError` when that is unknown."""
        connection: socket_.socket | None = self._connect()
        if connection is FULL:
            raise BlockingIOError(self.problem)
        return connection

    def _connect(self) -> Any:
        """A connection; None if no daemon listens; `FULL` if one does and its queue is full."""
        import socket  # after the first answer: it costs milliseconds

        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # With a full queue a blocking connect would wait for as long as the daemon is suspended.
        connection.setblocking(False)
        try:
            connection.connect(run_paths.socket(self.home))
        except BlockingIOError:
            connection.close()
            self.problem = self.not_answering()
            self._not_before = time.monotonic() + LOOK
            return FULL
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        except BaseException:
            connection.close()
            raise
        return connection

    def release(self) -> None:
        """Let another process try; forget the process that started the daemon."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if self._child:
            self._former.append(self._child)
            self._child = 0
        self._former = [child for child in self._former if not os.waitpid(child, os.WNOHANG)[0]]

    def _starting(self) -> bool:
        if not self._child:
            return False
        ended, status = os.waitpid(self._child, os.WNOHANG)
        if not ended:
            return True
        self._child = 0
        if status:
            reason = self._reason(os.waitstatus_to_exitcode(status))
            self.release()
            if reason:
                self._failed(reason)
            else:
                self.problem = "the daemon was killed while it started"
                self._pause()
        return False

    def _failed(self, reason: str) -> None:
        self.problem = f"the daemon did not start: {reason.removesuffix('.')}"
        self._stated = self._stated or time.monotonic()
        self._pause()

    def _pause(self) -> None:
        self._failures += 1
        if self._failures > 1:
            seconds = min(LONGEST_PAUSE, 0.05 * 2 ** min(self._failures - 2, 10))
            self._not_before = time.monotonic() + seconds

    def take_lock(self) -> bool:
        """True for the one process that may start a daemon now. The lock is held until it is connected.

        A front that replaces an older daemon takes the lock before it asks for the handover: the fronts that lose
        that daemon, which may be of the older release themselves, then wait for this one's daemon.
        """
        if self._lock is None:
            self._lock = locks.take(f"{run_paths.run_folder(self.home)}/spawn.lock")
            if self._lock is None:
                self._locked_out = self._locked_out or time.monotonic()
                return False
            locks.sign(self._lock, f'{{"pid": {os.getpid()}}}')
        self._locked_out = 0.0
        return True

    def _stuck(self) -> bool:
        """The process that starts the daemon may be suspended: then we start one too. `daemon.lock` lets only one live."""
        waited = time.monotonic() - self._locked_out
        if waited > STARTER:
            self._locked_out = time.monotonic()
        return waited > STARTER

    def _spawn(self) -> None:
        devnull = os.open(os.devnull, os.O_RDWR)
        try:
            errors = os.open(self.error_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        except OSError:  # a full disk: the exit status gives the reason
            errors = os.dup(devnull)
        try:
            self._child = os.posix_spawn(
                COMMAND[0],
                COMMAND,
                {**environment.for_daemon(self.env), "COUNSEL_HOME": self.home},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, devnull, 0),
                    (os.POSIX_SPAWN_DUP2, errors, 1),
                    (os.POSIX_SPAWN_DUP2, errors, 2),
                ],
            )
        finally:
            os.close(devnull)
            os.close(errors)

    def not_answering(self) -> str:
        """The message about a daemon that accepts a connection and does not answer: it is suspended, or stuck."""
        pid = locks.holder(f"{run_paths.run_folder(self.home)}/daemon.lock")
        if pid is None:
            return "it does not answer"
        return f"process {pid} does not answer: `kill -CONT {pid}` resumes it if it is suspended; `kill -9 {pid}` ends it, and its jobs continue in the next one"

    @property
    def error_file(self) -> str:
        """Output of a daemon that could not start. The log of a running one is in COUNSEL_HOME/logs."""
        return f"{run_paths.run_folder(self.home)}/daemon.err"

    def _reason(self, number: int) -> str:
        """The last line of its output; if the disk took none, the error of its exit status; "" when it was killed."""
        try:
            with open(self.error_file, encoding="utf-8", errors="replace") as file:
                lines = [line.strip() for line in file if line.strip()]
        except OSError as error:
            lines = [] if number > 1 else [f"{self.error_file} cannot be read: {error.strerror}"]
        if lines:
            return lines[-1][:500]
        return f"{os.strerror(number)} ({self.home})" if number > 1 else ""

"""Connects to the daemon, or starts one. However many processes try at once, they start exactly one.

The process that holds `spawn.lock` starts the daemon, after checking once more that none runs; the others try again. A
socket that refuses connections was left by a killed daemon. Standard library only: the front imports this.
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
CHECK_EVERY = 0.25  # seconds between checks for another process' daemon, during a pause before the next start
LONGEST_PAUSE = 5.0  # seconds before another start, when many in a row have failed
FAILING_LIMIT = 60.0  # seconds of starts failing for a known reason before calls fail: time for an upgrade
MIN_FAILURES = 3  # failed starts before calls fail: on a busy machine each takes seconds
MIN_ATTEMPTS = 5.0  # seconds of attempts for a call that arrives while starts are failing
STARTER_TIMEOUT = 15.0  # seconds for another process to start the daemon, before we start one as well
# -P: import no module of the current folder, which is whatever folder an agent works in
COMMAND = [sys.executable, "-P", "-m", "counsel.daemon.main"]


def older(version: str) -> bool:
    """Whether a daemon of that release must be replaced by one of ours. A newer one serves us, too."""
    return _numbers(version) < _numbers(__version__)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


class Launcher:
    """Reaches the daemon of one COUNSEL_HOME, without blocking."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.home = run_paths.home(env)
        self.problem = ""  # why there is no daemon, if known
        self.error: OSError | None = None  # why we could not start one, if this process failed
        self._lock: int | None = None
        self._locked_out = 0.0  # since when another process has been starting a daemon
        self._child = 0  # the process that starts the daemon; it ends when the daemon listens or has failed
        self._earlier_children: list[int] = []  # such processes that we no longer wait for
        self._failures = 0  # in a row: failed starts, and daemons that died before they answered anything
        self._failing_since = 0.0  # since when starts have failed for a known reason
        self._not_before = 0.0  # when the next start is due

    def attempt(self) -> socket_.socket | None:
        """A non-blocking connection, or None: then try again after `pause()`, until `should_give_up`."""
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
        return self.take_lock() or self._starter_is_stuck()

    def pause(self) -> float:
        """Seconds until the next attempt."""
        return min(max(RETRY, self._not_before - time.monotonic()), CHECK_EVERY)

    def should_give_up(self, since: float, limit: float, failing_limit: float = FAILING_LIMIT) -> bool:
        """Whether a call that has waited for a daemon since `since` must fail.

        After `limit` seconds, or when starts have failed for a known reason for `failing_limit` seconds, which only a
        person can fix.
        """
        now = time.monotonic()
        if now - since > limit:
            return True
        if not self._failing_since or self._failures <= MIN_FAILURES:
            return False
        return now - self._failing_since > failing_limit and now - since > min(MIN_ATTEMPTS, failing_limit)

    def lost(self) -> None:
        """Our daemon died. Start the next one at once, and later ones after a pause."""
        self._pause()

    def greeted(self) -> None:
        """A daemon has started and said hello."""
        self.problem, self._failing_since = "", 0.0

    def answered(self) -> None:
        """A daemon has answered: forget earlier failures."""
        self.problem, self._failures, self._failing_since, self._not_before = "", 0, 0.0, 0.0

    def existing(self) -> socket_.socket | None:
        """A connection to a running daemon; None if none runs. Raises `OSError` when that is unknown."""
        connection: socket_.socket | None = self._connect()
        if connection is FULL:
            raise BlockingIOError(self.problem)
        return connection

    def _connect(self) -> Any:
        """A connection; None if no daemon listens; `FULL` if one does and its queue is full."""
        import socket  # here, after the first answer: the import costs milliseconds

        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # If its queue is full, a blocking connect would wait for as long as the daemon is suspended.
        connection.setblocking(False)
        try:
            connection.connect(run_paths.socket(self.home))
        except BlockingIOError:
            connection.close()
            self.problem = self.not_answering()
            self._not_before = time.monotonic() + CHECK_EVERY
            return FULL
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        except BaseException:
            connection.close()
            raise
        return connection

    def release(self) -> None:
        """Release the lock so that another process can try, and stop waiting for the child."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if self._child:
            self._earlier_children.append(self._child)
            self._child = 0
        self._earlier_children = [
            child for child in self._earlier_children if not os.waitpid(child, os.WNOHANG)[0]
        ]

    def _starting(self) -> bool:
        if not self._child:
            return False
        pid, status = os.waitpid(self._child, os.WNOHANG)
        if not pid:
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
        self._failing_since = self._failing_since or time.monotonic()
        self._pause()

    def _pause(self) -> None:
        self._failures += 1
        if self._failures > 1:
            seconds = min(LONGEST_PAUSE, 0.05 * 2 ** min(self._failures - 2, 10))
            self._not_before = time.monotonic() + seconds

    def take_lock(self) -> bool:
        """True for the one process that may start a daemon now. It holds the lock until it is connected.

        A front that replaces an older daemon takes the lock before it asks for the handover: the other fronts, which
        may be of the older release, then wait for this front's daemon.
        """
        if self._lock is None:
            self._lock = locks.take(f"{run_paths.run_folder(self.home)}/spawn.lock")
            if self._lock is None:
                self._locked_out = self._locked_out or time.monotonic()
                return False
            locks.sign(self._lock, f'{{"pid": {os.getpid()}}}')
        self._locked_out = 0.0
        return True

    def _starter_is_stuck(self) -> bool:
        """Whether the process with the lock seems suspended. Then we start a daemon, too: `daemon.lock` admits one."""
        seconds = time.monotonic() - self._locked_out
        if seconds > STARTER_TIMEOUT:
            self._locked_out = time.monotonic()
        return seconds > STARTER_TIMEOUT

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
        """The problem of a daemon that accepts a connection and does not answer: it is suspended or stuck."""
        pid = locks.holder(f"{run_paths.run_folder(self.home)}/daemon.lock")
        if pid is None:
            return "it does not answer"
        return f"process {pid} does not answer: `kill -CONT {pid}` resumes it if it is suspended; `kill -9 {pid}` ends it, and its jobs continue in the next one"

    @property
    def error_file(self) -> str:
        """The output of a daemon that could not start. A running one logs to COUNSEL_HOME/logs."""
        return f"{run_paths.run_folder(self.home)}/daemon.err"

    def _reason(self, number: int) -> str:
        """Why a start failed: its last line of output, else (a full disk) the error of its exit status; "" if
        killed."""
        try:
            with open(self.error_file, encoding="utf-8", errors="replace") as file:
                lines = [line.strip() for line in file if line.strip()]
        except OSError as error:
            lines = [] if number > 1 else [f"{self.error_file} cannot be read: {error.strerror}"]
        if lines:
            return lines[-1][:500]
        return f"{os.strerror(number)} ({self.home})" if number > 1 else ""

"""A door's way to the daemon: connect, or start one. Any number of doors at once start exactly one.

Whoever holds `spawn.lock` starts the daemon, after looking once more whether one is there; the others try again. A
socket that refuses is what a killed daemon left behind. Standard library only: the front stands on this.
"""

from __future__ import annotations

import os
import sys
import time

from counsel import __version__, locks
from counsel.front import environment, run_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as socket_
    from collections.abc import Mapping
    from typing import Any

FULL = object()  # a daemon listens, and its queue of connections is full
RETRY = 0.01  # seconds between attempts while a daemon starts
LOOK = 0.25  # seconds between looks for another door's daemon, while we wait before the next start
LONGEST_PAUSE = 5.0  # seconds before another start, when many in a row have failed
STATED = 60.0  # seconds of starts that fail and say why, before those who wait are told: an upgrade takes that long
STARTS = 3  # that fail before that: on a machine with much to do each takes seconds
AT_LEAST = 5.0  # seconds of attempts for a call that comes after that
STARTER = 15.0  # seconds for another door to start the daemon, before we start one beside it
# -P: a door is started in whatever folder an agent works in, and no module of that folder may be imported
COMMAND = [sys.executable, "-P", "-m", "counsel.daemon.main"]


def older(version: str) -> bool:
    """Whether a daemon of that release must make room for ours. One that is newer serves us, too."""
    return _numbers(version) < _numbers(__version__)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


class Launcher:
    """Attempts to reach the daemon of one COUNSEL_HOME; none of them blocks."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.home = run_paths.home(env)
        self.problem = ""  # why there is no daemon, when that is known
        self.error: OSError | None = None  # what kept us from starting one, when it was here that it failed
        self._lock: int | None = None
        self._locked_out = 0.0  # since when another door has been starting a daemon
        self._child = 0  # the process that starts the daemon and ends when it listens or has failed
        self._former: list[int] = []  # such processes that nobody waits for any more
        self._failures = 0  # in a row: starts, and daemons that died before they had answered anything
        self._stated = 0.0  # since when starts have failed and said why
        self._not_before = 0.0  # when to start the next one

    def attempt(self) -> socket_.socket | None:
        """A connection, or None: try again after `pause()`, unless it is time to give up (`hopeless`)."""
        try:
            found = self._attempt()
        except OSError as error:
            self.release()
            self.error = error
            self._failed(f"{error.strerror} ({error.filename})" if error.filename else str(error))
            return None
        if found is not None:
            self.error = None
            self.release()
        return found

    def _attempt(self) -> socket_.socket | None:
        found = self._reached()
        if found is None and self._may_start():
            found = self._reached()
            if found is None:
                self._spawn()
        return None if found is FULL else found

    def _may_start(self) -> bool:
        if self._starting() or time.monotonic() < self._not_before:
            return False
        return self.take_lock() or self._stuck()

    def pause(self) -> float:
        """Seconds until another attempt makes sense."""
        return min(max(RETRY, self._not_before - time.monotonic()), LOOK)

    def hopeless(self, since: float, limit: float, stated: float = STATED) -> bool:
        """Whether a call that has waited since then is told that there is no daemon.

        Starts that fail and say why for `stated` seconds are enough: only somebody can mend that.
        """
        now = time.monotonic()
        if now - since > limit:
            return True
        often = bool(self._stated) and self._failures > STARTS
        return often and now - self._stated > stated and now - since > min(AT_LEAST, stated)

    def lost(self) -> None:
        """The daemon that we were connected to died. The next is started at once, the one after it with a pause."""
        self._pause()

    def greeted(self) -> None:
        """A daemon has started and talks to us."""
        self.problem, self._stated = "", 0.0

    def answered(self) -> None:
        """A daemon lives long enough to be of use: the next one that dies is the first again."""
        self.problem, self._failures, self._stated, self._not_before = "", 0, 0.0, 0.0

    def existing(self) -> socket_.socket | None:
        """A connection to a daemon that runs already; None where none does. Raises `OSError` when that cannot be told."""
        found = self._reached()
        if found is FULL:
            raise BlockingIOError(self.problem)
        connection: socket_.socket | None = found
        return connection

    def _reached(self) -> Any:
        """A connection; None where no daemon listens; `FULL` where one does and takes no more for now."""
        import socket  # noqa: PLC0415 - after the first answer: it costs milliseconds

        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(
            False
        )  # where the queue is full it would wait for as long as the daemon is suspended
        try:
            connection.connect(run_paths.socket(self.home))
        except BlockingIOError:
            connection.close()
            self.problem = self.silent()
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
        """Let another door try; forget the process that started the daemon."""
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
        self.problem = f"the daemon did not start: {reason}"
        self._stated = self._stated or time.monotonic()
        self._pause()

    def _pause(self) -> None:
        self._failures += 1
        if self._failures > 1:
            seconds = min(LONGEST_PAUSE, 0.05 * 2 ** min(self._failures - 2, 10))
            self._not_before = time.monotonic() + seconds

    def take_lock(self) -> bool:
        """True for the one door that may start a daemon now. Kept until it is connected.

        A door that replaces an older daemon takes it before it asks for the handover: the doors that lose that
        daemon, which may be of the older release themselves, then wait for this one's.
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
        """The door that starts the daemon may be suspended: then we start one, too. `daemon.lock` lets only one live."""
        waited = time.monotonic() - self._locked_out
        if waited > STARTER:
            self._locked_out = time.monotonic()
        return waited > STARTER

    def _spawn(self) -> None:
        devnull = os.open(os.devnull, os.O_RDWR)
        try:
            words = os.open(self.words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        except OSError:  # a full disk: its exit status says the rest
            words = os.dup(devnull)
        try:
            self._child = os.posix_spawn(
                COMMAND[0],
                COMMAND,
                {**environment.of_daemon(self.env), "COUNSEL_HOME": self.home},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, devnull, 0),
                    (os.POSIX_SPAWN_DUP2, words, 1),
                    (os.POSIX_SPAWN_DUP2, words, 2),
                ],
            )
        finally:
            os.close(devnull)
            os.close(words)

    def silent(self) -> str:
        """What to say of a daemon that takes a connection and does not answer: it is suspended, or worse."""
        pid = locks.holder(f"{run_paths.run_folder(self.home)}/daemon.lock")
        if pid is None:
            return "it does not answer"
        return f"process {pid} does not answer: `kill -CONT {pid}` wakes it up if it is suspended, `kill -9 {pid}` ends it, and its jobs go on in the next one"

    @property
    def words(self) -> str:
        """What a daemon says that cannot start. Its log proper is in COUNSEL_HOME/logs."""
        return f"{run_paths.run_folder(self.home)}/daemon.err"

    def _reason(self, number: int) -> str:
        """The daemon's last words; on a disk that takes none, the error that it ended with; none when it was killed."""
        try:
            with open(self.words, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                lines = [line.strip() for line in file if line.strip()]
        except OSError as error:
            lines = [] if number > 1 else [f"{self.words} cannot be read: {error.strerror}"]
        if lines:
            return lines[-1][:500]
        return f"{os.strerror(number)} ({self.home})" if number > 1 else ""

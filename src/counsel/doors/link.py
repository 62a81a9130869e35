"""A door's way to the daemon: connect, or start one. Any number of doors at once start exactly one.

Whoever holds `spawn.lock` starts the daemon, after looking once more whether one is there; the others try again. A
socket that refuses is what a killed daemon left behind. Standard library only: the front stands on this.
"""

from __future__ import annotations

import os
import sys

from counsel import __version__
from counsel.doors import environment, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as socket_
    from collections.abc import Mapping

RETRY = 0.01  # seconds between attempts while a daemon starts
# -P: a door is started in whatever folder an agent works in, and no module of that folder may be imported
COMMAND = [sys.executable, "-P", "-m", "counsel.doors.daemon"]


def older(version: str) -> bool:
    """Whether a daemon of that release must make room for ours. One that is newer serves us, too."""
    return _numbers(version) < _numbers(__version__)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


class Link:
    """Attempts to reach the daemon of one COUNSEL_HOME; none of them blocks."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.home = place.home(env)
        self._lock: int | None = None
        self._child = 0  # the process that starts the daemon and ends when it listens or has failed

    def attempt(self) -> socket_.socket | None:
        """A connection, or None: try again in `RETRY` seconds. Raises `OSError` when no daemon can be started."""
        found = self.existing()
        if found is None and not self._starting() and self.take_lock():
            found = self.existing()
            if found is None:
                self._spawn()
        if found is not None:
            self.release()
        return found

    def existing(self) -> socket_.socket | None:
        """A connection to a daemon that runs already."""
        import socket  # noqa: PLC0415 - after the first answer: it costs milliseconds

        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(place.socket(self.home))
        except OSError as error:
            connection.close()
            if isinstance(error, FileNotFoundError | ConnectionRefusedError | BlockingIOError):
                return None
            raise
        return connection

    def release(self) -> None:
        """Let another door try; forget the process that started the daemon."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if self._child:
            os.waitpid(self._child, 0)  # it ends once the daemon listens, and that is so or it has failed
            self._child = 0

    def _starting(self) -> bool:
        if not self._child:
            return False
        ended, status = os.waitpid(self._child, os.WNOHANG)
        if not ended:
            return True
        self._child = 0
        if status:
            self.release()
            raise OSError(f"the daemon did not start: {self._reason()}")
        return False

    def take_lock(self) -> bool:
        """True for the one door that may start a daemon now. Kept until it is connected.

        A door that replaces an older daemon takes it before it asks for the handover: the doors that lose that
        daemon, which may be of the older release themselves, then wait for this one's.
        """
        import fcntl  # noqa: PLC0415

        if self._lock is not None:
            return True
        lock = os.open(f"{place.run_folder(self.home)}/spawn.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    def _spawn(self) -> None:
        devnull = os.open(os.devnull, os.O_RDWR)
        words = os.open(self.words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
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
        import json  # noqa: PLC0415

        try:
            with open(f"{place.run_folder(self.home)}/daemon.lock", encoding="utf-8") as file:  # noqa: PTH123
                pid = json.load(file)["pid"]
        except (OSError, ValueError, KeyError):
            return "it does not answer"
        return f"process {pid} does not answer: `kill -CONT {pid}` wakes it up if it is suspended, `kill -9 {pid}` ends it, and its jobs go on in the next one"

    @property
    def words(self) -> str:
        """What a daemon says that cannot start. Its log proper is in COUNSEL_HOME/logs."""
        return f"{place.run_folder(self.home)}/daemon.err"

    def _reason(self) -> str:
        with open(self.words, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            lines = [line.strip() for line in file if line.strip()]
        return lines[-1][:500] if lines else f"it said nothing in {self.words}"

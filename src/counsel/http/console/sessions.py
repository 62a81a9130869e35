"""Sign-in to the console: one-time links, and the sessions that browsers get for them.

Each link or session is one private file below `COUNSEL_HOME/run/console`. Its name is an HMAC of the browser's secret,
keyed with the server's token: the folder alone lets nobody in, a changed token ends every session, and a lookup
compares nothing that could be timed. The file's time is its last use. So sessions survive a killed server, all servers
of one home share them, and a link works once because a file can be deleted only once.
"""

from __future__ import annotations

import hmac
import os
import secrets
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from counsel import paths, run_paths
from counsel.errors import AuthenticationFailed, OutOfResources, RateLimited
from counsel.lazy_dataclass import dataclass

LINK_SECONDS = 5 * 60
IDLE_SECONDS = 12 * 3600  # a session ends if it is not used for this long
LONGEST_SECONDS = 7 * 86400  # a session's longest life
MOST = 64  # sessions, and as many links: the oldest one is deleted for a new one
LONGEST_KEY = 1_000  # characters that the sign-in form takes
WRONG_TRIES = 10  # wrong tokens that may be tried within TRIES_SECONDS
TRIES_SECONDS = 60
TOUCH_SECONDS = 60  # between two writes of a session's last use
_LARGEST_FILE = 8 * 1024


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    path: Path
    expires_at: float

    def is_over(self) -> bool:
        """Whether the session has ended since it was looked up."""
        return not paths.exists(self.path)

    @property
    def project(self) -> str:
        """The folder in which `counsel console` was run; "" if the token was used to sign in."""
        return _content(self.path)


class ConsoleSessions:
    def __init__(self, home: Path, secret: str, clock: Callable[[], float] = time.time) -> None:
        self._home = home
        self._key = sha256(b"counsel console\0" + secret.encode()).digest()
        self._secret = secret.encode()
        self._clock = clock
        self._failures: deque[float] = deque(maxlen=WRONG_TRIES)
        # Cookies ignore ports: two servers of one machine would overwrite each other's.
        self.cookie = f"counsel_session_{self._name('cookie')[:8]}"

    # ── links ──

    def new_link(self, project: str = "") -> str:
        """Create a key that signs in once."""
        key = secrets.token_urlsafe(32)
        self._store("links", key, project, LINK_SECONDS)
        return key

    def sign_in(self, key: str) -> str:
        """Start a session for a link's key or the token; return the cookie's value. Raises `AuthenticationFailed`."""
        project = self._use_link(key)
        if project is None and not self._is_token(key):
            raise AuthenticationFailed(
                "This link or token is not valid: a link works once, and for five minutes.",
                hint="Run `counsel console` for a new link.",
            )
        value = f"{int(self._clock()):x}.{secrets.token_urlsafe(32)}"
        self._store("sessions", value, project or "", IDLE_SECONDS)
        return value

    def _use_link(self, key: str) -> str | None:
        """Return the link's project, or None if there is no such link. Deleting its file uses it up."""
        path = self._path("links", key)
        try:
            age = self._clock() - path.stat().st_mtime
            project = _content(path)
            path.unlink()
        except OSError:
            return None
        return project if age <= LINK_SECONDS else None

    def _is_token(self, key: str) -> bool:
        """Whether the key is the token.

        A link's key is too long to guess; a token may be short, so tries are limited.
        """
        now = self._clock()
        if len(self._failures) == WRONG_TRIES and 0 <= now - self._failures[0] < TRIES_SECONDS:
            raise RateLimited(
                "Too many wrong tokens.",
                hint="Try again in a minute, or run `counsel console` for a link.",
                retry_after=TRIES_SECONDS - (now - self._failures[0]),
            )
        if hmac.compare_digest(key.encode(errors="replace"), self._secret):
            return True
        self._failures.append(now)
        return False

    # ── sessions ──

    def find(self, value: str) -> ConsoleSession | None:
        path = self._path("sessions", value)
        try:
            last_use = path.stat().st_mtime
            start = int(value.partition(".")[0], 16)
        except (OSError, ValueError):
            return None
        now = self._clock()
        if now - last_use > IDLE_SECONDS or now - start > LONGEST_SECONDS:
            return None
        if now - last_use > TOUCH_SECONDS:
            with suppress(OSError):
                os.utime(path, (now, now))
        return ConsoleSession(path, min(start + LONGEST_SECONDS, now + IDLE_SECONDS))

    def end(self, session: ConsoleSession) -> None:
        session.path.unlink(missing_ok=True)

    # ── files ──

    def _name(self, value: str) -> str:
        return hmac.new(self._key, value.encode(errors="replace"), sha256).hexdigest()

    def _folder(self, kind: str) -> Path:
        return Path(run_paths.run_folder(str(self._home))) / "console" / kind

    def _path(self, kind: str, value: str) -> Path:
        return self._folder(kind) / self._name(f"{kind} {value}")

    def _store(self, kind: str, value: str, content: str, seconds: float) -> None:
        path, now = self._path(kind, value), self._clock()
        try:
            paths.private_folder(path.parent)
            self._make_room(path.parent, now - seconds)
            paths.write_private(str(path), os.fsencode(content)[:_LARGEST_FILE], replace=False)
            os.utime(path, (now, now))
        except OSError as error:
            raise OutOfResources(
                f"You cannot sign in: counsel cannot write to {path.parent} ({error.strerror}).",
                hint="`counsel doctor` checks the folder and the disk.",
            ) from error

    def _make_room(self, folder: Path, oldest: float) -> None:
        files = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(folder))
        excess = max(0, len(files) + 1 - MOST)
        for number, (last_use, path) in enumerate(files):
            if number < excess or last_use < oldest:
                with suppress(FileNotFoundError):
                    Path(path).unlink()


def _content(path: Path) -> str:
    try:
        return os.fsdecode(path.read_bytes()[:_LARGEST_FILE])
    except OSError:
        return ""

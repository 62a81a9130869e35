"""Where the daemon is found: the private run folder, its socket and its locks, as plain strings.

The front imports this at every start of an agent window, so it stands on `os` alone. `settings.default_home` says the
same about COUNSEL_HOME; a test keeps the two together.
"""

from __future__ import annotations

import os
import sys

from counsel.envvars import is_unexpanded
from counsel.paths import private_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = (
    100  # bytes of a socket's path: the kernel takes 107 (Linux) or 103 (macOS), and binding needs a few more
)


def home(env: Mapping[str, str]) -> str:
    given = env.get("COUNSEL_HOME")
    if given and not is_unexpanded("COUNSEL_HOME", given):
        path = os.path.expanduser(given)  # noqa: PTH111 - pathlib costs milliseconds
        return path if path.startswith("/") else f"{os.getcwd()}/{path}"  # noqa: PTH109
    user = env.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
    if sys.platform == "darwin":
        return f"{user}/Library/Application Support/counsel"
    data = env.get("XDG_DATA_HOME", "")
    return f"{data if data.startswith('/') else user + '/.local/share'}/counsel"


def run_folder(of: str) -> str:
    """COUNSEL_HOME/run, made private; where nothing can be written there, a folder of this user's in /tmp."""
    inside = f"{of}/run"
    try:
        private_folder(of)
        private(inside)
    except OSError:
        inside = ""
    if inside and os.access(inside, os.W_OK):
        return inside
    return _elsewhere(of)


def socket(of: str, name: str = "daemon.sock") -> str:
    """The daemon's socket: in the run folder, or under a short name in /tmp when that path is too long to bind."""
    path = f"{run_folder(of)}/{name}"
    return path if len(os.fsencode(path)) <= LONGEST else f"{_elsewhere(of)}/{name}"


def ask_socket(of: str, session: str) -> str:
    """A session's askModel socket. A long name that would not fit even in /tmp is shortened to its hash."""
    from hashlib import sha256  # noqa: PLC0415

    path = socket(of, f"ask-{session}.sock")
    short = f"ask-{sha256(session.encode()).hexdigest()[:24]}.sock"
    return path if len(os.fsencode(path)) <= LONGEST else socket(of, short)


def _elsewhere(of: str) -> str:
    from hashlib import sha256  # noqa: PLC0415 - rarely needed

    mine = f"/tmp/counsel-{os.getuid()}"  # noqa: S108 - made private and checked, and TMPDIR differs between windows
    private(mine)
    folder = f"{mine}/{sha256(os.fsencode(of)).hexdigest()[:16]}"
    private(folder)
    return folder


def private(folder: str) -> None:
    """Make a folder that only this user can enter, or refuse one that somebody else prepared."""
    try:
        os.mkdir(folder, 0o700)  # noqa: PTH102
    except FileExistsError:
        found = os.lstat(folder)
        if found.st_uid != os.getuid() or not _is_folder(found.st_mode):
            raise PermissionError(f"{folder} belongs to somebody else") from None
        if found.st_mode & 0o077:
            os.chmod(folder, 0o700)  # noqa: PTH101


def _is_folder(mode: int) -> bool:
    return mode & 0o170000 == 0o040000

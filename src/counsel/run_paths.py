"""The daemon's private run folder, its socket and its locks, as plain strings.

Every front imports this when it starts, so it uses only `os`. `settings.default_home` computes the same COUNSEL_HOME; a
test compares the two.
"""

from __future__ import annotations

import os
import sys

from counsel.envvars import is_unexpanded
from counsel.paths import exists, private_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Bytes of a socket's path: the kernel's limit is 107 (Linux) or 103 (macOS), and binding needs a few more.
LONGEST = 100


def home(env: Mapping[str, str]) -> str:
    setting = env.get("COUNSEL_HOME")
    if setting and not is_unexpanded("COUNSEL_HOME", setting):
        path = os.path.expanduser(setting)  # pathlib costs milliseconds
        return path if path.startswith("/") else f"{os.getcwd()}/{path}"
    user = env.get("HOME") or os.path.expanduser("~")
    if sys.platform == "darwin":
        return f"{user}/Library/Application Support/counsel"
    data = env.get("XDG_DATA_HOME", "")
    return f"{data if data.startswith('/') else user + '/.local/share'}/counsel"


def home_problem(env: Mapping[str, str]) -> str:
    """Why the folder in COUNSEL_HOME cannot be used; "" if it can, or if none is set. Creates nothing.

    A default folder that is not writable, as in a container, is not a problem: nothing is stored, and answers say so.
    """
    setting = env.get("COUNSEL_HOME")
    if not setting or is_unexpanded("COUNSEL_HOME", setting):
        return ""
    path = home(env)
    if path == home({name: value for name, value in env.items() if name != "COUNSEL_HOME"}):
        return ""
    reason = _folder_problem(setting, path)
    return f"COUNSEL_HOME is {_shortened(setting)}: {reason}." if reason else ""


HOME_HINT = "Set COUNSEL_HOME to a folder that you can write to, or unset it to use the default."


def _folder_problem(setting: str, path: str) -> str:
    if setting.startswith("~") and not os.path.expanduser(setting).startswith("/"):
        return f"there is no user {setting.partition('/')[0][1:]}"
    if not setting.startswith(("/", "~")):
        return "it must be an absolute path, so that it does not depend on the current folder"
    folder = path
    while True:
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            if os.path.islink(path):
                return f"{_shortened(path)} is a link to something that does not exist"
            path = os.path.dirname(path.rstrip("/")) or "/"
            continue
        except NotADirectoryError:
            path = os.path.dirname(path.rstrip("/"))
            continue
        except OSError as error:
            return f"it cannot be opened ({error.strerror})"
        if not _is_folder(mode):
            return f"{_shortened(path)} is a file, not a folder"
        return "" if path == folder else _creation_problem(path)


def _creation_problem(parent: str) -> str:
    if parent.startswith(("/proc", "/sys")) or not os.access(parent, os.W_OK | os.X_OK):
        return f"it does not exist, and no folder can be made in {_shortened(parent)}"
    return ""


def _shortened(path: str) -> str:
    return path if len(path) <= 120 else f"{path[:60]}…{path[-50:]} ({len(path)} characters)"


def run_folder(home: str) -> str:
    """COUNSEL_HOME/run, with private mode; if it is not writable, a folder of this user in /tmp."""
    folder = f"{home}/run"
    try:
        private_folder(home)
        own_folder(folder)
    except OSError:
        folder = ""
    if folder and os.access(folder, os.W_OK):
        return folder
    return _folder_in_tmp(home)


def socket(home: str, name: str = "daemon.sock") -> str:
    """The path of the daemon's socket: in the run folder, or in /tmp if that path is too long to bind."""
    path = f"{run_folder(home)}/{name}"
    return path if len(os.fsencode(path)) <= LONGEST else f"{_folder_in_tmp(home)}/{name}"


def ask_socket(home: str, session: str) -> str:
    """The path of a session's askModel socket. A name that is too long even for /tmp is replaced by its hash."""
    from hashlib import sha256

    path = socket(home, f"ask-{session}.sock")
    short = f"ask-{sha256(session.encode()).hexdigest()[:24]}.sock"
    return path if len(os.fsencode(path)) <= LONGEST else socket(home, short)


def existing_socket(home: str) -> str | None:
    """The daemon's socket, at one of the two paths that it can have. Creates nothing."""
    if exists(path := f"{home}/run/daemon.sock"):
        return path
    if exists(_parent_in_tmp()) and exists(path := f"{_in_tmp(home)[1]}/daemon.sock"):
        return path
    return None


def _in_tmp(home: str) -> tuple[str, str]:
    from hashlib import sha256  # rarely needed

    return _parent_in_tmp(), f"{_parent_in_tmp()}/{sha256(os.fsencode(home)).hexdigest()[:16]}"


def _parent_in_tmp() -> str:
    return f"/tmp/counsel-{os.getuid()}"  # noqa: S108 - made private and checked; TMPDIR differs between clients


def _folder_in_tmp(home: str) -> str:
    parent, folder = _in_tmp(home)
    own_folder(parent)
    own_folder(folder)
    return folder


def own_folder(folder: str) -> None:
    """Create a folder that only this user can enter. Raises PermissionError if another user has created it."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        status = os.lstat(folder)
        if status.st_uid != os.getuid() or not _is_folder(status.st_mode):
            raise PermissionError(f"{folder} belongs to another user") from None
        if status.st_mode & 0o077:
            os.chmod(folder, 0o700)


def _is_folder(mode: int) -> bool:
    return mode & 0o170000 == 0o040000

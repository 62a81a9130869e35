"""Starts programs safely while the user works in an untrusted folder: in another folder, with no variable leading back.

Standard library only: the stdio front imports `absolute_paths`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Lists of folders that are searched for programs and libraries. A relative entry, and an empty one (as in `PATH=$PATH:`
# or `PYTHONPATH=:/x`), means the current folder.
SEARCH_PATHS = (
    "PATH",
    "PYTHONPATH",
    "NODE_PATH",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    "PERL5LIB",
    "RUBYLIB",
)
# Variables that lead a program to the untrusted folder, whatever its working folder is.
POINTERS = ("OLDPWD", "INIT_CWD", "CLAUDE_PROJECT_DIR", "CLIENT_CWD")


def absolute_paths(env: Mapping[str, str]) -> dict[str, str]:
    """The variables without relative entries in search paths; a path without absolute entries is left out."""
    cleaned = dict(env)
    for name in SEARCH_PATHS:
        if name in cleaned:
            absolute = [entry for entry in cleaned[name].split(":") if entry.startswith("/")]
            cleaned[name] = ":".join(absolute)
            if not absolute:
                del cleaned[name]
    return cleaned


def elsewhere(env: Mapping[str, str], folder: str) -> dict[str, str]:
    """The variables for a program that starts in `folder` and must not learn where the caller works."""
    remaining = {name: value for name, value in absolute_paths(env).items() if name not in POINTERS}
    return {**remaining, "PWD": folder}


def run_folder(env: Mapping[str, str]) -> str:
    """The caller's COUNSEL_HOME/run."""
    from counsel import run_paths  # the front imports this module and needs no folder

    return run_paths.run_folder(run_paths.home(env))


def empty_folder(env: Mapping[str, str]) -> str:
    """An empty, read-only folder of counsel's own.

    Not in /tmp: npm also uses `node_modules` of parent folders, where any user could put one. Not the home folder and
    not `/`: many servers offer the files of their working folder to a model.
    """
    run = run_folder(env)
    number = 0
    while True:
        folder = f"{run}/empty{number or ''}"
        if not os.path.lexists(folder):
            os.makedirs(folder, 0o500, exist_ok=True)
        if not os.path.islink(folder) and os.path.isdir(folder) and not os.listdir(folder):
            return folder
        number += 1  # root can write into it all the same

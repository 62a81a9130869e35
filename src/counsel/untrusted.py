"""Start programs safely while the user works in an untrusted folder: elsewhere, without variables that lead back.

Standard library only: the stdio front imports `absolute_paths`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Lists of folders in which programs and libraries are searched. A relative or empty entry (as in `PATH=$PATH:` or
# `PYTHONPATH=:/x`) depends on the current folder.
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
    variables = dict(env)
    for name in SEARCH_PATHS:
        if name in variables:
            absolute = [entry for entry in variables[name].split(":") if entry.startswith("/")]
            variables[name] = ":".join(absolute)
            if not absolute:
                del variables[name]
    return variables


def env_in_folder(env: Mapping[str, str], folder: str) -> dict[str, str]:
    """The variables for a program that starts in `folder` and must not learn where the caller works."""
    remaining = {name: value for name, value in absolute_paths(env).items() if name not in POINTERS}
    return {**remaining, "PWD": folder}


def run_folder(env: Mapping[str, str]) -> str:
    """The caller's COUNSEL_HOME/run."""
    from counsel import run_paths  # the front imports this module and needs no folder

    return run_paths.run_folder(run_paths.home(env))


def empty_folder(env: Mapping[str, str]) -> str:
    """An empty, read-only folder that belongs to counsel.

    It is not in /tmp: npm also uses `node_modules` of parent folders, where any user could put one. Nor is it the home
    folder or `/`: many servers offer the files of their working folder to a model.
    """
    parent = run_folder(env)
    number = 0
    while True:
        folder = f"{parent}/empty{number or ''}"
        if not os.path.lexists(folder):
            os.makedirs(folder, 0o500, exist_ok=True)
        if not os.path.islink(folder) and os.path.isdir(folder) and not os.listdir(folder):
            return folder
        number += 1  # not empty after all: root can write into a read-only folder

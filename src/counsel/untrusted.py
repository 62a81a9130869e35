"""Starting programs from a folder that nobody trusts: somewhere else to start them, and no way back through a variable.

Standard library only: the stdio front stands on `absolute_paths`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Lists of folders in which programs and libraries are looked for. A relative entry, and an empty one (as in
# `PATH=$PATH:` or `PYTHONPATH=:/x`), means the folder that a program happens to be started in.
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
# Variables by which a program finds its way to the folder, whatever its working folder is.
POINTERS = ("OLDPWD", "INIT_CWD", "CLAUDE_PROJECT_DIR", "CLIENT_CWD")


def absolute_paths(env: Mapping[str, str]) -> dict[str, str]:
    """The same variables without relative entries in search paths; one that has no other is left out."""
    found = dict(env)
    for name in SEARCH_PATHS:
        if name in found:
            kept = [entry for entry in found[name].split(":") if entry.startswith("/")]
            found[name] = ":".join(kept)
            if not kept:
                del found[name]
    return found


def elsewhere(env: Mapping[str, str], folder: str) -> dict[str, str]:
    """The variables for a program that is started in `folder` and not told from where."""
    kept = {name: value for name, value in absolute_paths(env).items() if name not in POINTERS}
    return {**kept, "PWD": folder}


def run_folder(env: Mapping[str, str]) -> str:
    """The caller's COUNSEL_HOME/run."""
    from counsel.front import run_paths  # noqa: PLC0415 - the front imports this module and has its own way there

    return run_paths.run_folder(run_paths.home(env))


def empty_folder(env: Mapping[str, str]) -> str:
    """A folder of counsel's own that holds nothing and into which nothing can be written.

    Not in /tmp: npm takes `node_modules` of the folders above, too, and there anybody could put one. Not the home
    folder and not `/`: many servers offer what lies in their working folder to a model.
    """
    run = run_folder(env)
    number = 0
    while True:
        folder = f"{run}/empty{number or ''}"
        if not os.path.lexists(folder):
            os.makedirs(folder, 0o500, exist_ok=True)
        if not os.path.islink(folder) and os.path.isdir(folder) and not os.listdir(folder):
            return folder
        number += 1  # root is not kept from writing there

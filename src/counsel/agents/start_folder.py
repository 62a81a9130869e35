"""Where an agent is started: in the project, or, when nobody trusts that folder, in an empty one of counsel's own.

Agents look for settings, hooks, skills, commands, subagents, servers and `.env` files from their working folder upwards, and
each release looks for more. Started elsewhere they find none of them, whatever they are called. So do the user's own
servers and hooks, which an agent starts where it works: `npx` and `python -m` prefer what lies there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from counsel import paths, untrusted
from counsel.agents import trust
from counsel.agents.definitions import AgentName, Workspace

# git runs programs that a repository's own config names, `git status` already does. Agents ask git about folders.
_GIT = {"core.fsmonitor": "false", "core.hooksPath": "/dev/null"}


def trusted(agent: AgentName, workspace: Workspace) -> bool:
    """Whether the agent may be started there: it was told to trust the folder, or another was and it was not told not to."""
    own = trust.by(agent, workspace)
    return trust.trusted(workspace) if own is None else own


def empty(workspace: Workspace, agent: AgentName) -> Path:
    """The same folder for each call about this project: agents keep their sessions by folder."""
    dotenv = _dotenv(workspace)
    known = hashlib.sha256(b"\0".join(map(os.fsencode, (workspace.project, dotenv)))).hexdigest()[:16]
    above = Path(untrusted.run_folder(workspace.env)) / "agents" / agent
    paths.private_folder(above)
    for number in count():
        folder = above / (known if number == 0 else f"{known}-{number}")
        _make(folder, dotenv)
        if _untouched(folder):  # root is not kept from writing there
            return folder
    raise AssertionError  # pragma: no cover - `count` has no end


def _dotenv(workspace: Workspace) -> Path:
    """Gemini CLI takes the first `.env` on its way up, and COUNSEL_HOME/.env is above: the user's own comes first here."""
    own = (workspace.gemini_dir() / ".env", workspace.home / ".env")
    return next((path for path in own if path.is_file()), Path(os.devnull))


def _make(folder: Path, dotenv: Path) -> None:
    if os.path.lexists(folder):
        return
    (folder / ".gemini").mkdir(mode=0o700, parents=True)
    (folder / ".gemini" / ".env").symlink_to(dotenv)
    (folder / ".gemini").chmod(0o500)
    folder.chmod(0o500)


def _untouched(folder: Path) -> bool:
    held = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    return not folder.is_symlink() and held == [".gemini", ".gemini/.env"]


def link(workspace: Workspace, folder: Path) -> Path:
    """Another name for a folder, without the commas and blanks that Gemini CLI splits and trims its arguments at."""
    run = Path(untrusted.run_folder(workspace.env)) / "agents" / "links"
    paths.private_folder(run)
    made = run / hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    if not made.is_symlink():
        partial = made.with_name(f".{made.name}.{os.getpid()}.{os.urandom(4).hex()}")
        partial.symlink_to(folder)
        partial.replace(made)
    return made


def environment(env: Mapping[str, str], start: Path, workspace: Workspace) -> dict[str, str]:
    """No way back to the project through a variable, and no program of the repository's through git."""
    kept = untrusted.elsewhere(env, str(start))
    if "PATH" in kept:
        kept["PATH"] = ":".join(
            entry for entry in kept["PATH"].split(":") if not _of_project(entry, workspace)
        )
    given = kept.get("GIT_CONFIG_COUNT", "")
    first = int(given) if given.isdigit() else 0
    kept["GIT_CONFIG_COUNT"] = str(first + len(_GIT))
    for number, (name, value) in enumerate(_GIT.items(), first):
        kept |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return kept


def _of_project(entry: str, workspace: Workspace) -> bool:
    """A folder of the project's, as its `node_modules/.bin`. The home folder and those above it hold everything."""
    home = Path(os.path.realpath(workspace.home))
    return not home.is_relative_to(workspace.project) and Path(os.path.realpath(entry)).is_relative_to(
        workspace.project
    )

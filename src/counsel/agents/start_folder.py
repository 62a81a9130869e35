"""Where an agent is started: in the project, or in an empty folder of counsel's if the project is not trusted.

Agents look for settings, hooks, skills, commands, subagents, servers and `.env` files from their working folder
upwards, and each release looks for more. In an empty folder they find none of these. Nor do the user's own servers and
hooks, which an agent starts in its working folder: `npx` and `python -m` prefer files there.
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

# git runs programs that a repository's config names, even for `git status`, and agents run git.
_GIT = {"core.fsmonitor": "false", "core.hooksPath": "/dev/null"}


def trusted(agent: AgentName, workspace: Workspace) -> bool:
    """Whether the agent may start in the project: the user trusts the project in this agent, or in another agent
    without having answered this one."""
    own = trust.by_agent(agent, workspace)
    return trust.trusted(workspace) if own is None else own


def empty_folder(workspace: Workspace, agent: AgentName) -> Path:
    """The empty folder for this project, always the same one: agents store sessions by folder."""
    dotenv = _dotenv(workspace)
    digest = hashlib.sha256(b"\0".join(map(os.fsencode, (workspace.project, dotenv)))).hexdigest()[:16]
    parent = Path(untrusted.run_folder(workspace.env)) / "agents" / agent
    paths.private_folder(parent)
    for number in count():
        folder = parent / (digest if number == 0 else f"{digest}-{number}")
        _make(folder, dotenv)
        if _is_intact(folder):  # root can write to it in spite of its mode
            return folder
    raise AssertionError  # pragma: no cover - `count` has no end


def _dotenv(workspace: Workspace) -> Path:
    """The user's own `.env`, to be linked here: Gemini CLI reads the first one upwards, which would otherwise be
    COUNSEL_HOME/.env."""
    candidates = (workspace.gemini_dir() / ".env", workspace.home / ".env")
    return next((path for path in candidates if path.is_file()), Path(os.devnull))


def _make(folder: Path, dotenv: Path) -> None:
    if os.path.lexists(folder):
        return
    (folder / ".gemini").mkdir(mode=0o700, parents=True)
    (folder / ".gemini" / ".env").symlink_to(dotenv)
    (folder / ".gemini").chmod(0o500)
    folder.chmod(0o500)


def _is_intact(folder: Path) -> bool:
    entries = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    return not folder.is_symlink() and entries == [".gemini", ".gemini/.env"]


def link(workspace: Workspace, folder: Path) -> Path:
    """Another path to a folder, without the commas and blanks at which Gemini CLI splits and trims arguments."""
    links = Path(untrusted.run_folder(workspace.env)) / "agents" / "links"
    paths.private_folder(links)
    path = links / hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    if not path.is_symlink():
        partial = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
        partial.symlink_to(folder)
        partial.replace(path)
    return path


def environment(env: Mapping[str, str], start: Path, workspace: Workspace) -> dict[str, str]:
    """The environment without variables that lead back to the project; git runs no programs that a repository names."""
    safe_env = untrusted.env_in_folder(env, str(start))
    if "PATH" in safe_env:
        safe_env["PATH"] = ":".join(
            entry for entry in safe_env["PATH"].split(":") if not _is_in_project(entry, workspace)
        )
    count_text = safe_env.get("GIT_CONFIG_COUNT", "")
    first = int(count_text) if count_text.isdigit() else 0
    safe_env["GIT_CONFIG_COUNT"] = str(first + len(_GIT))
    for number, (name, value) in enumerate(_GIT.items(), first):
        safe_env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return safe_env


def _is_in_project(entry: str, workspace: Workspace) -> bool:
    """Whether it is a folder of the project, such as `node_modules/.bin`; never if the project contains the home
    folder."""
    home = Path(os.path.realpath(workspace.home))
    return not home.is_relative_to(workspace.project) and Path(os.path.realpath(entry)).is_relative_to(
        workspace.project
    )

"""The agents on this machine at one look: here, logged in, with which files, servers and skills.

Files are read; no agent is started. Only a program that no file gives a version for is asked `--version`, once
per release.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from counsel import paths, untrusted
from counsel.agents import registry
from counsel.agents.definitions import WITH_SKILLS, Workspace, workspace_of
from counsel.agents.detect import Installed, read_json
from counsel.caller import Caller
from counsel.errors import CounselError
from counsel.types import Json

# Where an agent's own settings may be, the user's first, when that is more than its servers' files.
CONFIG_FILES: dict[str, Callable[[Workspace], tuple[Path, ...]]] = {
    "claude": lambda at: (
        at.claude_json(),
        at.claude_dir() / "settings.json",
        at.project / ".mcp.json",
        at.project / ".claude" / "settings.json",
        at.project / ".claude" / "settings.local.json",
    ),
    "codex": lambda at: (at.codex_dir() / "config.toml", at.project / ".codex" / "config.toml"),
    "gemini": lambda at: (at.gemini_dir() / "settings.json", at.project / ".gemini" / "settings.json"),
    "cursor": lambda at: (
        at.cursor_dir() / "mcp.json",
        at.cursor_dir() / "cli-config.json",
        at.project / ".cursor" / "mcp.json",
    ),
}
_ASKED_WITHIN = 0.7  # seconds for `--version`
_NUMBER = re.compile(r"\d+\.\d+[\w.+-]*").search


def roster(caller: Caller) -> list[Json]:
    """One row for each agent that counsel knows."""
    askable_agents = registry.askable_agents()
    with ThreadPoolExecutor(len(askable_agents)) as pool:
        found = dict(
            zip(
                askable_agents,
                pool.map(lambda each: _probe(each, caller), askable_agents.values()),
                strict=True,
            )
        )
    servers, skills = _counts(_servers, caller), _counts(_skills, caller)
    at = workspace_of(caller.env, caller.cwd)
    return [
        {
            "agent": name,
            "label": driver.agent.label,
            "installed": found[name].path is not None,
            "path": str(found[name].path) if found[name].path else None,
            "version": found[name].version,
            "logged_in": found[name].logged_in if found[name].path else False,
            "usable": found[name].usable,
            "reason": found[name].reason,
            "install": driver.agent.install,
            "login": driver.agent.login,
            "config_files": [str(path) for path in _config_files(name, at) if paths.isfile(path)],
            "servers": servers.get(name, 0) if servers is not None else None,
            "skills": skills.get(name, 0) if skills is not None and name in WITH_SKILLS else None,
        }
        for name, driver in askable_agents.items()
    ]


def _config_files(name: str, at: Workspace) -> tuple[Path, ...]:
    """By default the files that hold its servers."""
    if name in CONFIG_FILES:
        return CONFIG_FILES[name](at)
    from counsel.servers.formats import FORMATS

    return tuple(dict.fromkeys(table.target.path for table in FORMATS[name].tables(at)))


def _probe(driver: registry.AskableAgent, caller: Caller) -> Installed:
    found = driver.probe(caller)
    if found.path is None or found.version is not None:
        return found
    return replace(found, version=_asked(found.path, caller))


# ── what other rooms know ────────────────────────────────────────────────────────────────────────────


def _counts(ask: Callable[[Caller], list[str]], caller: Caller) -> dict[str, int] | None:
    """How often each agent is named; None when it cannot be told."""
    try:
        named = ask(caller)
    except (CounselError, OSError):
        return None
    return {agent: named.count(agent) for agent in named}


def _servers(caller: Caller) -> list[str]:
    from counsel.servers import Servers

    return [found.agent for found in Servers.here(caller.cwd, caller.env).listing().servers]


def _skills(caller: Caller) -> list[str]:
    from counsel.skills import list_skills

    return [skill.agent for skill in list_skills(project=caller.cwd, env=caller.env).skills]


# ── versions that no file tells ──────────────────────────────────────────────────────────────────────


def _asked(program: Path, caller: Caller) -> str | None:
    """`--version`, remembered for as long as the program's file stays the same."""
    kept = caller.settings.home / "run" / "versions" / f"{program.name}.json"
    try:
        state = program.stat()
    except OSError:
        return None
    same = {"path": str(program), "size": state.st_size, "modified": state.st_mtime_ns}
    held = read_json(kept)
    if {name: held.get(name) for name in same} == same:
        return held.get("version")
    version = _run_version(program, caller)
    if version:
        _remember(kept, {**same, "version": version})
    return version


def _run_version(program: Path, caller: Caller) -> str | None:
    try:
        empty = untrusted.empty_folder(caller.env)
        said = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASKED_WITHIN,
            env=untrusted.elsewhere(caller.env, empty),
            cwd=empty,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _NUMBER(said)
    return found[0] if found else None


def _remember(path: Path, held: Json) -> None:
    try:
        paths.private_folder(path.parent)
        path.write_text(json.dumps(held))
    except OSError:
        return  # asked again next time

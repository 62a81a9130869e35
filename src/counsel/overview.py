"""Summary of the agents on this machine: whether each is installed and logged in, and its files, servers and skills.

Reads files and starts no agent; only a program whose version is in no file runs with `--version`, once per release.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from counsel import paths, untrusted
from counsel.agents import registry
from counsel.agents.definitions import WITH_SKILLS, Workspace, workspace_of
from counsel.agents.detect import Installed, read_json
from counsel.caller import Caller
from counsel.errors import CounselError

# The settings files of agents that have more than those with their servers; the user's files come first.
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
_VERSION_TIMEOUT = 0.7  # seconds for `--version`
_NUMBER = re.compile(r"\d+\.\d+[\w.+-]*").search


def agents_overview(caller: Caller) -> list[dict[str, object]]:
    """One row for each known agent."""
    agents = registry.askable_agents()
    probes = _with_versions({name: agent.probe(caller) for name, agent in agents.items()}, caller)
    servers, skills = _counts(_servers, caller), _counts(_skills, caller)
    workspace = workspace_of(caller.env, caller.cwd)
    return [
        {
            "agent": name,
            "label": askable.agent.label,
            "installed": probes[name].path is not None,
            "path": str(probes[name].path) if probes[name].path else None,
            "version": probes[name].version,
            "logged_in": probes[name].logged_in if probes[name].path else False,
            "usable": probes[name].usable,
            "reason": probes[name].reason,
            "install": askable.agent.install,
            "login": askable.agent.login,
            "config_files": [str(path) for path in _config_files(name, workspace) if paths.isfile(path)],
            "servers": servers.get(name, 0) if servers is not None else None,
            "skills": skills.get(name, 0) if skills is not None and name in WITH_SKILLS else None,
        }
        for name, askable in agents.items()
    ]


def _config_files(name: str, workspace: Workspace) -> tuple[Path, ...]:
    """The agent's settings files; by default the files with its servers."""
    if name in CONFIG_FILES:
        return CONFIG_FILES[name](workspace)
    from counsel.servers.formats import FORMATS

    return tuple(dict.fromkeys(table.target.path for table in FORMATS[name].tables(workspace)))


# ── servers and skills ────────────────────────────────────────────────────────────────────────────


def _counts(names: Callable[[Caller], list[str]], caller: Caller) -> dict[str, int] | None:
    """How often each agent occurs in `names`; None after an error."""
    try:
        agents = names(caller)
    except (CounselError, OSError):
        return None
    return {agent: agents.count(agent) for agent in agents}


def _servers(caller: Caller) -> list[str]:
    from counsel.servers import Servers

    return [row.agent for row in Servers.here(caller.cwd, caller.env).listing().servers]


def _skills(caller: Caller) -> list[str]:
    from counsel.skills import list_skills

    return [skill.agent for skill in list_skills(project=caller.cwd, env=caller.env).skills]


# ── versions that are in no file ──────────────────────────────────────────────────────────────────────


def _with_versions(probes: dict[str, Installed], caller: Caller) -> dict[str, Installed]:
    """The probes with missing versions filled in; programs whose version is not cached run at the same time."""
    unknown = [probe.path for probe in probes.values() if probe.path and probe.version is None]
    versions = {program: _cached_version(program, caller) for program in unknown}
    missing = [program for program, version in versions.items() if version is None]
    if missing:
        from concurrent.futures import ThreadPoolExecutor  # 8 ms, once per release of an agent

        with ThreadPoolExecutor(len(missing)) as pool:
            versions |= zip(
                missing, pool.map(lambda program: _ask_version(program, caller), missing), strict=True
            )
    return {
        name: probe.replaced(version=versions[probe.path]) if probe.path in versions else probe
        for name, probe in probes.items()
    }


def _cached_version(program: Path, caller: Caller) -> str | None:
    """The version that the program printed, if its file is unchanged since."""
    key = _file_state(program)
    entry = read_json(_cache_file(program, caller)) if key else {}
    return entry.get("version") if key and key.items() <= entry.items() else None


def _ask_version(program: Path, caller: Caller) -> str | None:
    # Before the run: if the program is updated meanwhile, it runs again next time.
    key = _file_state(program)
    version = _run_version(program, caller) if key else None
    if key and version:
        _store(_cache_file(program, caller), {**key, "version": version})
    return version


def _cache_file(program: Path, caller: Caller) -> Path:
    return caller.settings.home / "run" / "versions" / f"{program.name}.json"


def _file_state(program: Path) -> dict[str, object] | None:
    try:
        state = program.stat()
    except OSError:
        return None
    return {"path": str(program), "size": state.st_size, "modified": state.st_mtime_ns}


def _run_version(program: Path, caller: Caller) -> str | None:
    import subprocess

    try:
        empty = untrusted.empty_folder(caller.env)
        output = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT,
            env=untrusted.env_in_folder(caller.env, empty),
            cwd=empty,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _NUMBER(output)
    return match[0] if match else None


def _store(path: Path, value: dict[str, object]) -> None:
    try:
        paths.private_folder(path.parent)
        path.write_text(json.dumps(value))
    except OSError:
        return  # run again next time

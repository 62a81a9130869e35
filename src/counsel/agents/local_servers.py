"""The user's MCP servers that an agent would start in its working folder, which it must not do if that is untrusted.

Measured with Claude Code 2.1.325, Codex 0.166.0 and Gemini CLI 0.61.0, at every level, read-only included: each starts
them in the folder, where `python3 -m x` imports the folder's `x.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from counsel.agents import self_entry
from counsel.agents.definitions import AGENTS, Workspace
from counsel.agents.server_format import ServerFormat, ServerTable
from counsel.configfiles.write.safewrite import Reader


def entries(
    fmt: ServerFormat, workspace: Workspace
) -> Iterator[tuple[ServerTable, str, Mapping[str, object]]]:
    """Every entry outside the project's files, unparsed: a broken one is still the user's."""
    reader = Reader()
    for table in (*fmt.tables(workspace), *fmt.others(workspace, reader)):
        document = None if table.entries is not None else reader.read_quietly(table.target)
        servers: object = table.entries if document is None else document.get(table.keys)
        if table.scope != "project" and isinstance(servers, Mapping):
            yield from (
                (table, str(name), entry) for name, entry in servers.items() if isinstance(entry, Mapping)
            )


def starts(entry: Mapping[str, object]) -> bool:
    """Whether the server starts in the agent's working folder and may load files there: all but remote servers and
    counsel."""
    return bool(entry.get("command")) and not _is_isolated(entry)


def _is_isolated(entry: Mapping[str, object]) -> bool:
    return self_entry.is_isolated(entry.get("command"), entry.get("args"))


def own_entries(fmt: ServerFormat, workspace: Workspace) -> dict[str, object]:
    """counsel's own entries without their variables, which may be secrets; the agent passes on its own variables."""
    return {
        name: {
            "command": entry["command"],
            "args": entry["args"],
            "env": _home_variable(entry),
        }
        for _, name, entry in entries(fmt, workspace)
        if _is_isolated(entry)
    }


def _home_variable(entry: Mapping[str, object]) -> dict[str, str]:
    env = entry.get("env")
    home = env.get("COUNSEL_HOME") if isinstance(env, Mapping) else None
    return {"COUNSEL_HOME": home} if isinstance(home, str) else {}


def note(agent: str, names: list[str], folder: Path) -> str:
    """The notice about servers that are left out."""
    server_names = ", ".join(dict.fromkeys(names))
    label, command = AGENTS[agent].label, AGENTS[agent].command
    return (
        f"{label} has not been told to trust {folder}: your MCP servers that would start there ({server_names}) were left out. "
        f"Run `{command}` there once to trust it."
    )

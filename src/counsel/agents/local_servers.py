"""The user's MCP servers that an agent would start in its working folder, which it must not do in an untrusted one.

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
    """Every entry outside of the project's files, unparsed: a broken one is still the user's."""
    reader = Reader()
    for table in (*fmt.tables(workspace), *fmt.others(workspace, reader)):
        document = None if table.entries is not None else reader.quiet(table.target)
        servers: object = table.entries if document is None else document.get(table.keys)
        if table.scope != "project" and isinstance(servers, Mapping):
            yield from (
                (table, str(name), entry) for name, entry in servers.items() if isinstance(entry, Mapping)
            )


def starts(entry: Mapping[str, object]) -> bool:
    """Whether it is started where the agent works, and may take something from there: all but remote ones and counsel."""
    return bool(entry.get("command")) and not _is_isolated(entry)


def _is_isolated(entry: Mapping[str, object]) -> bool:
    return self_entry.is_isolated(entry.get("command"), entry.get("args"))


def kept_of_ours(fmt: ServerFormat, workspace: Workspace) -> dict[str, object]:
    """counsel's entries without their variables, which may be secrets; the agent hands on its own."""
    return {
        name: {
            "command": entry["command"],
            "args": entry["args"],
            "env": _where_counsel_keeps_its_files(entry),
        }
        for _, name, entry in entries(fmt, workspace)
        if _is_isolated(entry)
    }


def _where_counsel_keeps_its_files(entry: Mapping[str, object]) -> dict[str, str]:
    env = entry.get("env")
    home = env.get("COUNSEL_HOME") if isinstance(env, Mapping) else None
    return {"COUNSEL_HOME": home} if isinstance(home, str) else {}


def note(agent: str, names: list[str], folder: Path) -> str:
    """The notice about servers that were left out."""
    shown = ", ".join(dict.fromkeys(names))
    label, command = AGENTS[agent].label, AGENTS[agent].command
    return (
        f"{label} was not told to trust {folder}: your MCP servers that would start there ({shown}) were left out. "
        f"Run `{command}` there once to trust it."
    )

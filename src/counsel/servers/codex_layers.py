"""Codex and OpenCode read their files as layers: they merge servers of one name field by field, stronger files first.

So an entry may be only part of a server (`enabled = false` over the user's), and two valid entries can merge into one
that makes every codex command fail (a command in one file, a url in the other).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from counsel.agents.definitions import AGENTS, Workspace
from counsel.agents.server_format import ServerFormat, ServerTable, Unreadable
from counsel.configfiles.edits import MISSING, lookup
from counsel.configfiles.write.safewrite import Reader
from counsel.errors import InvalidArgument
from counsel.servers.formats import tables


def weakest_first(fmt: ServerFormat, places: Iterable[ServerTable]) -> list[ServerTable]:
    """The tables that are layers, weakest first. In one scope, the nearer table is stronger. Plugins are not layers."""
    layers = [table for table in places if table.scope != "plugin"]
    return sorted(layers, key=lambda table: rank(fmt, table))[::-1]


def rank(fmt: ServerFormat, table: ServerTable) -> tuple[int, int]:
    """A table's position: lower is stronger."""
    scopes = fmt.precedence
    return -table.strength, scopes.index(table.scope) if table.scope in scopes else 0


def weaker_servers(
    fmt: ServerFormat, workspace: Workspace, places: Iterable[ServerTable], reader: Reader
) -> dict[Path, Mapping[str, object]]:
    """For each file, the merged servers of the weaker files, except files that the client does not read yet."""
    merged_below: dict[Path, Mapping[str, object]] = {}
    below: Mapping[str, object] = {}
    for table in weakest_first(fmt, places):
        merged_below[table.target.path] = below
        if fmt.waits_for(workspace, table, reader)("") == "trust":
            continue
        document = reader.read_quietly(table.target)
        entries = MISSING if document is None else document.get(table.keys)
        below = merged(below, entries) if isinstance(entries, Mapping) else below
    return merged_below


def merged(weaker: object, stronger: object) -> Any:
    if not isinstance(weaker, Mapping) or not isinstance(stronger, Mapping):
        return weaker if stronger is MISSING else stronger
    return {**weaker, **{key: merged(weaker.get(key, MISSING), value) for key, value in stronger.items()}}


def refusal(
    fmt: ServerFormat, workspace: Workspace, reader: Reader, name: str, after: Mapping[str, object]
) -> InvalidArgument | None:
    """Why a change is refused. `after`: the new entry of this name, by file."""
    layers = weakest_first(fmt, [*tables(fmt, workspace), *fmt.others(workspace, reader)])
    before = {str(table.target.path): _entry(table, name, reader) for table in layers}
    entries_after = {**before, **after}
    problem = _read_error(fmt, name, entries_after.values())
    if not problem or _read_error(fmt, name, before.values()):
        return None
    label = AGENTS[fmt.agent].label
    files = ", ".join(path for path, entry in entries_after.items() if entry is not MISSING)
    return InvalidArgument(
        f"{label} merges the servers named {name!r} from all its files ({files}), and could not use the result: "
        f"{problem}.",
        hint="Choose another name, or change the other file first.",
    )


def _entry(table: ServerTable, name: str, reader: Reader) -> object:
    document = reader.read_quietly(table.target)
    return MISSING if document is None else lookup(document.value, (*table.keys, name))


def _read_error(fmt: ServerFormat, name: str, entries: Iterable[object]) -> str:
    merged_entry: Any = MISSING
    for entry in entries:
        merged_entry = merged(merged_entry, entry)
    if merged_entry is MISSING:
        return ""
    try:
        fmt.read(name, merged_entry)
    except Unreadable as error:
        return str(error)
    return ""

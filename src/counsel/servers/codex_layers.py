"""Codex and OpenCode read their files as layers: servers of one name are merged field by field, the stronger file over the weaker.

So an entry may be only part of a server (`enabled = false` over the user's), and two valid entries can merge into one
that breaks every codex command (a command in one file, a url in the other).
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
    """Of two tables in one scope the first, nearer one is stronger. Plugins are not layers."""
    layers = [table for table in places if table.scope != "plugin"]
    return sorted(layers, key=lambda table: fmt.precedence.index(table.scope))[::-1]


def beneath(
    fmt: ServerFormat, places: Iterable[ServerTable], reader: Reader
) -> dict[Path, Mapping[str, object]]:
    """For each file, the merged servers of the weaker files."""
    merged_below: dict[Path, Mapping[str, object]] = {}
    below: Mapping[str, object] = {}
    for table in weakest_first(fmt, places):
        merged_below[table.target.path] = below
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
    """Why a change must not be made. `after`: the new entry of this name, by file."""
    layers = weakest_first(fmt, [*tables(fmt, workspace), *fmt.others(workspace, reader)])
    before = {str(table.target.path): _entry(table, name, reader) for table in layers}
    becomes = {**before, **after}
    why = _broken(fmt, name, becomes.values())
    if not why or _broken(fmt, name, before.values()):
        return None
    label = AGENTS[fmt.agent].label
    files = ", ".join(path for path, entry in becomes.items() if entry is not MISSING)
    return InvalidArgument(
        f"{label} merges the servers named {name!r} of all its files ({files}), and the result could not be used: "
        f"{why}.",
        hint="Choose another name, or change the other file first.",
    )


def _entry(table: ServerTable, name: str, reader: Reader) -> object:
    document = reader.read_quietly(table.target)
    return MISSING if document is None else lookup(document.value, (*table.keys, name))


def _broken(fmt: ServerFormat, name: str, entries: Iterable[object]) -> str:
    whole: Any = MISSING
    for entry in entries:
        whole = merged(whole, entry)
    if whole is MISSING:
        return ""
    try:
        fmt.read(name, whole)
    except Unreadable as error:
        return str(error)
    return ""

"""Codex reads its files as layers: servers of one name are merged, field by field, the stronger file over the weaker.

So an entry may be only a part of a server (`enabled = false` over the user's), and two entries that are fine by
themselves can make one that breaks every codex command (a command in one file, a url in the other).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from counsel.agents.definitions import AGENTS, Place
from counsel.agents.server_format import Format, Home, Unreadable
from counsel.configfiles.edits import MISSING, lookup
from counsel.configfiles.write.safewrite import Reader
from counsel.errors import InvalidArgument
from counsel.servers.formats import homes


def weakest_first(form: Format, places: Iterable[Home]) -> list[Home]:
    """Of two in one scope the first, the nearer one, is the stronger. What plugins bring is no layer."""
    layers = [home for home in places if home.scope != "plugin"]
    return sorted(layers, key=lambda home: form.precedence.index(home.scope))[::-1]


def beneath(form: Format, places: Iterable[Home], reader: Reader) -> dict[Path, Mapping[str, Any]]:
    """For each file the servers of the weaker files, merged."""
    found: dict[Path, Mapping[str, Any]] = {}
    so_far: Mapping[str, Any] = {}
    for home in weakest_first(form, places):
        found[home.target.path] = so_far
        document = reader.quiet(home.target)
        entries = MISSING if document is None else document.get(home.keys)
        so_far = merged(so_far, entries) if isinstance(entries, Mapping) else so_far
    return found


def merged(weaker: Any, stronger: Any) -> Any:
    if not isinstance(weaker, Mapping) or not isinstance(stronger, Mapping):
        return weaker if stronger is MISSING else stronger
    return {**weaker, **{key: merged(weaker.get(key, MISSING), value) for key, value in stronger.items()}}


def refusal(
    form: Format, place: Place, reader: Reader, name: str, after: Mapping[str, Any]
) -> InvalidArgument | None:
    """Why a change must not be made: `after` is what the entry of this name becomes, by file."""
    layers = weakest_first(form, [*homes(form, place), *form.others(place, reader)])
    was = {str(home.target.path): _entry(home, name, reader) for home in layers}
    becomes = {**was, **after}
    why = _broken(form, name, becomes.values())
    if not why or _broken(form, name, was.values()):
        return None
    label = AGENTS[form.agent].label
    held = ", ".join(path for path, entry in becomes.items() if entry is not MISSING)
    return InvalidArgument(
        f"{label} merges the servers called {name!r} of all its files ({held}), and what would come out cannot be "
        f"used: {why}.",
        hint="Choose another name, or change it in the other file first.",
    )


def _entry(home: Home, name: str, reader: Reader) -> Any:
    document = reader.quiet(home.target)
    return MISSING if document is None else lookup(document.value, (*home.keys, name))


def _broken(form: Format, name: str, entries: Iterable[Any]) -> str:
    together: Any = MISSING
    for entry in entries:
        together = merged(together, entry)
    if together is MISSING:
        return ""
    try:
        form.read(name, together)
    except Unreadable as error:
        return str(error)
    return ""

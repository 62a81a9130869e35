"""The changes to one table of servers, as steps of a plan: add, update, rename, remove, switch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from counsel.agents.definitions import AGENTS
from counsel.agents.references import Untranslatable
from counsel.agents.server_format import Entry, Server, ServerFormat, ServerTable, Switch, Unreadable
from counsel.configfiles.document import Meaning
from counsel.configfiles.edits import MISSING, Drop, Edit, Put, Rename, alike, intended, patch
from counsel.configfiles.write import safewrite
from counsel.configfiles.write.safewrite import Target
from counsel.errors import ConfigInvalid, Conflict, CounselError, InvalidArgument, NotFound
from counsel.servers import fields
from counsel.servers.adapt import fit, refuse_name, refuse_unusable, untranslatable
from counsel.servers.formats import FORMATS
from counsel.servers.listing import ListedServer
from counsel.servers.plan import EditsOf, Planner


def add(
    planner: Planner,
    table: ServerTable,
    server: Server,
    *,
    replaces: bool = False,
    origin: str | None = None,
    notes: Sequence[str] = (),
    copied: bool = False,
) -> None:
    """`origin` is the agent whose own fields (`extras`) the server carries; other agents do not get these."""
    fmt = FORMATS[table.agent]
    try:
        fields.refuse_unusable(server)
        fitted, warnings = fit(fmt, table, server, origin, name="copied" if copied else "new")
        entry = fmt.write(fitted)
        refuse_unusable(fmt, server.name, entry)
    except Untranslatable as error:
        planner.refuse(table, server.name, untranslatable(table, server.name, error))
        return
    except CounselError as error:
        planner.refuse(table, server.name, error)
        return
    off = fmt.off(planner.workspace, table, planner.reader)(server.name)
    on = fmt.read(server.name, entry).enabled and not off
    warnings += _switch_words(fmt, server, on=on) + fmt.notes(planner.workspace, table, planner.reader)
    present = _entry_at(planner, table, server.name)
    action = "added" if present is MISSING else "replaced"
    edits = {table.target: _adder(table, server.name, entry, replaces=replaces)}
    planner.step(table, server.name, action, edits, [*notes, *warnings])


def _switch_words(fmt: ServerFormat, server: Server, *, on: bool) -> list[str]:
    label, command = AGENTS[fmt.agent].label, f"{server.name} --agent {fmt.agent}"
    if on == server.enabled:
        return []
    if not on:
        return [
            f"It is switched off in {label}, by its name; `counsel servers enable {command}` switches it on."
        ]
    if fmt.no_switch:
        return [f"It is switched on in {label}. {fmt.no_switch}."]
    return [f"It is switched on in {label}; `counsel servers disable {command}` switches it off."]


def _entry_at(planner: Planner, table: ServerTable, name: str) -> Any:
    document = planner.reader.quiet(table.target)
    return MISSING if document is None else document.get((*table.keys, name))


def _adder(table: ServerTable, name: str, entry: Entry, *, replaces: bool) -> EditsOf:
    def edits(document: Meaning) -> list[Edit]:
        held = _held(document, table)
        old = held.get(name, MISSING)
        if old is not MISSING and alike(old, entry):
            return []
        if old is not MISSING and not replaces:
            raise Conflict(
                f"{AGENTS[table.agent].label} already has a server {name!r} ({table.scope}, {table.target.path}).",
                hint="`counsel servers update` changes it, --replace puts the new one in its place.",
                file=str(table.target.path),
            )
        if table.frame is not None and document.get(table.keys[:-1]) is MISSING:
            return [Put(table.keys[:-1], {**table.frame, table.keys[-1]: {name: entry}})]
        return [Put((*table.keys, name), entry)]

    return edits


def _held(document: Meaning, table: ServerTable) -> Mapping[str, Any]:
    held: Mapping[str, Any] = {}
    for depth in range(1, len(table.keys) + 1):
        inner = document.get(table.keys[:depth])
        if inner is MISSING:
            return {}
        if not isinstance(inner, Mapping):
            raise ConfigInvalid(
                f"{table.target.path}: {'.'.join(table.keys[:depth])} is not an object; nothing was written.",
                hint="Correct it by hand and try again.",
                file=str(table.target.path),
            )
        held = inner
    return held


# ── changing ─────────────────────────────────────────────────────────────────────────────────────────


def update(
    planner: Planner, found: ListedServer, change: Callable[[Server], Server], notes: Sequence[str] = ()
) -> None:
    """Only the fields whose written form changes are touched; all others stay as they stand."""
    fmt, table = FORMATS[found.agent], found.table
    old = fmt.read(found.server.name, found.entry)
    try:
        wanted = change(old)
        _refuse_renaming(old, wanted)
        fields.refuse_unusable(wanted, old)
        fitted, warnings = fit(fmt, table, wanted, origin=fmt.agent, name="there")
        delta = patch((), fmt.write(old), fmt.write(fitted))
    except Untranslatable as error:
        planner.refuse(table, old.name, untranslatable(table, old.name, error))
        return
    except CounselError as error:
        planner.refuse(table, old.name, error)
        return

    def edits(document: Meaning) -> list[Edit]:
        entry = document.get((*table.keys, old.name))
        if entry is MISSING:
            raise NotFound(f"{old.name!r} is no longer in {table.target.path}.", file=str(table.target.path))
        return [
            placed for edit in delta if (placed := _placed(edit, fmt, table, old.name, entry)) is not None
        ]

    planner.step(table, old.name, "updated", {table.target: edits}, [*notes, *warnings])


def _refuse_renaming(old: Server, wanted: Server) -> None:
    if wanted.name != old.name:
        raise InvalidArgument(
            f"{old.name!r} cannot become {wanted.name!r} by an update.",
            hint="`counsel servers rename` gives it another name.",
        )


def _placed(edit: Edit, fmt: ServerFormat, table: ServerTable, name: str, entry: Entry) -> Edit | None:
    key, rest = edit.path[0], edit.path[1:]
    key = next((alias for alias in fmt.aliases.get(key, ()) if alias in entry), key)
    path = (*table.keys, name, key, *rest)
    if isinstance(edit, Drop):
        return Drop(path) if key in entry else None
    assert isinstance(edit, Put)  # noqa: S101 - `patch` makes no other
    return Put(path, edit.value)


def rename(planner: Planner, found: ListedServer, to: str) -> None:
    """The entry stays where and as it is; what switches it off by its name goes along."""
    fmt, table, name = FORMATS[found.agent], found.table, found.server.name
    try:
        refuse_name(fmt, to)
    except CounselError as error:
        planner.refuse(table, name, error)
        return

    def edits(document: Meaning) -> list[Edit]:
        held = _held(document, table)
        if to in held:
            raise Conflict(
                f"{AGENTS[table.agent].label} already has a server {to!r} ({table.scope}, {table.target.path}).",
                hint="Choose another name, or remove that one first.",
                file=str(table.target.path),
            )
        return [Rename((*table.keys, name), to)] if name in held else []

    changes: dict[Target, EditsOf] = {table.target: edits}
    if fmt.off(planner.workspace, table, planner.reader)(name):
        for one in fmt.switches(planner.workspace, table):
            changes[one.target] = _also(changes.get(one.target), _moved_switch(one, name, to))
    warnings = [f"{words}." for words in fmt.warns(found.server.replaced(name=to))]
    planner.step(table, name, "renamed", changes, warnings, becomes=to)


def _also(first: EditsOf | None, then: EditsOf) -> EditsOf:
    def both(document: Meaning) -> list[Edit]:
        edits = first(document) if first else []
        return edits + then(Meaning(intended(document.value, edits)))

    return both


def _moved_switch(one: Switch, name: str, to: str) -> EditsOf:
    """Off under the new name, no longer under the old one."""

    def edits(document: Meaning) -> list[Edit]:
        on = one.edits(document, name, True)
        return on + one.edits(Meaning(intended(document.value, on)), to, False)

    return edits


def remove(planner: Planner, table: ServerTable, name: str) -> None:
    def edits(document: Meaning) -> list[Edit]:
        return [Drop((*table.keys, name))] if name in _held(document, table) else []

    planner.step(table, name, "removed", {table.target: edits})


def switch(planner: Planner, found: ListedServer, *, enabled: bool) -> None:
    fmt, table, name = FORMATS[found.agent], found.table, found.server.name
    if fmt.no_switch:
        planner.refuse(
            table, name, InvalidArgument(f"{fmt.no_switch}.", hint="Switch it there, or remove the server.")
        )
        return
    switches = fmt.switches(planner.workspace, table)
    edits = {one.target: _switcher(one.edits, name, enabled=enabled) for one in switches}
    notes = [one.note for one in switches if one.note and _has_work(planner, one, name, enabled=enabled)]
    planner.step(table, name, "enabled" if enabled else "disabled", edits, notes)


def _has_work(planner: Planner, one: Switch, name: str, *, enabled: bool) -> bool:
    document = planner.reader.quiet(one.target) or safewrite.document(None, one.target.kind, one.target.path)
    return bool(one.edits(document, name, enabled))


def _switcher(make: Callable[[Meaning, str, bool], list[Edit]], name: str, *, enabled: bool) -> EditsOf:
    return lambda document: make(document, name, enabled)


def readable(found: ListedServer) -> Server:
    """The server as its agent reads it, `enabled` as listed."""
    try:
        server = FORMATS[found.agent].read(found.server.name, found.entry)
    except Unreadable as error:
        raise ConfigInvalid(f"{found.server.name!r} in {found.table.target.path}: {error}.") from None
    return server.replaced(enabled=found.server.enabled)

"""The changes to one table of servers, as steps of a plan: add, update, rename, remove, switch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from counsel.agents.definitions import AGENTS
from counsel.agents.references import Untranslatable
from counsel.agents.server_format import Entry, Mention, Server, ServerFormat, ServerTable, Switch, Unreadable
from counsel.configfiles.document import Meaning
from counsel.configfiles.edits import MISSING, Drop, Edit, Put, Rename, alike, patch, value_after
from counsel.configfiles.write import safewrite
from counsel.configfiles.write.safewrite import Target
from counsel.errors import ConfigInvalid, Conflict, CounselError, InvalidArgument, NotFound
from counsel.servers import fields
from counsel.servers.adapt import fit, refuse_name, refuse_unusable, untranslatable
from counsel.servers.formats import FORMATS
from counsel.servers.kept_text import KeptText
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
    source: ListedServer | None = None,
) -> None:
    """`origin` is the agent whose own fields (`extras`) the server has; other agents do not get these.

    `source`: what it is a copy of.
    """
    fmt = FORMATS[table.agent]
    try:
        fields.refuse_unusable(server)
        fitted, warnings = fit(fmt, table, server, origin, name="copied" if source else "new")
        entry = _copied(fmt, server, fitted, source) if source else fmt.write(fitted)
        refuse_unusable(fmt, server.name, entry)
    except Untranslatable as error:
        refusal = untranslatable(table, server.name, error, copied=source is not None)
        planner.refuse(table, server.name, refusal)
        return
    except CounselError as error:
        planner.refuse(table, server.name, error)
        return
    off = fmt.off(planner.workspace, table, planner.reader)(server.name)
    on = fmt.read(server.name, entry).enabled and not off
    warnings += _switch_notes(fmt, server, on=on) + fmt.notes(planner.workspace, table, planner.reader)
    existing = _entry_at(planner, table, server.name)
    action = "added" if existing is MISSING else "replaced"
    edits = {table.target: _adder(table, server.name, entry, replaces=replaces)}
    planner.step(table, server.name, action, edits, [*notes, *warnings])


def _copied(fmt: ServerFormat, server: Server, fitted: Server, source: ListedServer) -> dict[str, object]:
    """A copy within one client has every value as it is in the source's file."""
    if source.agent != fmt.agent:
        return fmt.write(fitted)
    kept = KeptText(fmt, source.entry, server)
    return dict(kept.restored(fmt.write(kept.marked(fitted))))


def _switch_notes(fmt: ServerFormat, server: Server, *, on: bool) -> list[str]:
    label, command = AGENTS[fmt.agent].label, f"{server.name} --agent {fmt.agent}"
    if on == server.enabled:
        return []
    if not on:
        return [f"It is disabled in {label}, by its name; `counsel servers enable {command}` enables it."]
    if fmt.no_switch:
        return [f"It is enabled in {label}. {fmt.no_switch}."]
    return [f"It is enabled in {label}; `counsel servers disable {command}` disables it."]


def _entry_at(planner: Planner, table: ServerTable, name: str) -> object:
    document = planner.reader.read_quietly(table.target)
    return MISSING if document is None else document.get((*table.keys, name))


def _adder(table: ServerTable, name: str, entry: Entry, *, replaces: bool) -> EditsOf:
    def edits(document: Meaning) -> list[Edit]:
        servers = _servers_in(document, table)
        old = servers.get(name, MISSING)
        if old is not MISSING and alike(old, entry):
            return []
        if old is not MISSING and not replaces:
            raise Conflict(
                f"{AGENTS[table.agent].label} already has a server {name!r} ({table.scope}, {table.target.path}).",
                hint="Change it with `counsel servers update`, or replace it with --replace.",
                file=str(table.target.path),
            )
        if table.frame is not None and document.get(table.keys[:-1]) is MISSING:
            return [Put(table.keys[:-1], {**table.frame, table.keys[-1]: {name: entry}})]
        return [Put((*table.keys, name), entry)]

    return edits


def _servers_in(document: Meaning, table: ServerTable) -> Mapping[str, object]:
    servers: Mapping[str, object] = {}
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
        servers = inner
    return servers


# ── changing ─────────────────────────────────────────────────────────────────────────────────────────


def update(
    planner: Planner, row: ListedServer, change: Callable[[Server], Server], notes: Sequence[str] = ()
) -> None:
    """Changes only the fields whose written form differs; all others stay as they are."""
    fmt, table = FORMATS[row.agent], row.table
    old = fmt.read(row.server.name, row.entry)
    try:
        wanted = change(old)
        _refuse_renaming(old, wanted)
        fields.refuse_unusable(wanted, old)
        fitted, warnings = fit(fmt, table, wanted, origin=fmt.agent, name="existing")
        kept = KeptText(fmt, row.entry, old)
        edited = patch((), fmt.write(kept.marked(old)), fmt.write(kept.marked(fitted)))
        delta = [
            Put(edit.path, kept.restored(edit.value)) if isinstance(edit, Put) else edit for edit in edited
        ]
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
            placed for edit in delta if (placed := _at_entry(edit, fmt, table, old.name, entry)) is not None
        ]

    planner.step(table, old.name, "updated", {table.target: edits}, [*notes, *warnings])


def _refuse_renaming(old: Server, wanted: Server) -> None:
    if wanted.name != old.name:
        raise InvalidArgument(
            f"An update cannot rename {old.name!r} to {wanted.name!r}.",
            hint="Use `counsel servers rename`.",
        )


def _at_entry(edit: Edit, fmt: ServerFormat, table: ServerTable, name: str, entry: Entry) -> Edit | None:
    key, rest = edit.path[0], edit.path[1:]
    key = next((alias for alias in fmt.aliases.get(key, ()) if alias in entry), key)
    path = (*table.keys, name, key, *rest)
    if isinstance(edit, Drop):
        return Drop(path) if key in entry else None
    assert isinstance(edit, Put)  # `patch` makes no other
    return Put(path, edit.value)


def rename(planner: Planner, row: ListedServer, to: str) -> None:
    """The entry keeps its position and content; a switch that names it is renamed, too."""
    fmt, table, name = FORMATS[row.agent], row.table, row.server.name
    try:
        refuse_name(fmt, to)
    except CounselError as error:
        planner.refuse(table, name, error)
        return

    def edits(document: Meaning) -> list[Edit]:
        servers = _servers_in(document, table)
        if to in servers:
            raise Conflict(
                f"{AGENTS[table.agent].label} already has a server {to!r} ({table.scope}, {table.target.path}).",
                hint="Choose another name, or remove that server first.",
                file=str(table.target.path),
            )
        return [Rename((*table.keys, name), to)] if name in servers else []

    changes: dict[Target, EditsOf] = {table.target: edits}
    renamed = row.server.replaced(name=to)
    warnings = [f"{warning}." for warning in fmt.warns(renamed)]
    off = fmt.off(planner.workspace, table, planner.reader)
    if off(name):
        for its_switch in fmt.switches(planner.workspace, table):
            changes[its_switch.target] = _also(
                changes.get(its_switch.target), _moved_switch(its_switch, name, to)
            )
    mentions = [
        mention for mention in fmt.mentions(planner.workspace, table) if _names(planner, mention, name, to)
    ]
    for mention in mentions:
        changes[mention.target] = _also(changes.get(mention.target), _mentioner(mention, name, to))
    if off(to) and not off(name) and not mentions:
        warnings += _switch_notes(fmt, renamed, on=False)
    planner.step(table, name, "renamed", changes, warnings, becomes=to)


def _names(planner: Planner, mention: Mention, name: str, to: str) -> bool:
    document = planner.reader.read_quietly(mention.target)
    return document is not None and bool(mention.edits(document, name, to))


def _mentioner(mention: Mention, name: str, to: str) -> EditsOf:
    return lambda document: mention.edits(document, name, to)


def _also(first: EditsOf | None, then: EditsOf) -> EditsOf:
    def both(document: Meaning) -> list[Edit]:
        edits = first(document) if first else []
        return edits + then(Meaning(value_after(document.value, edits)))

    return both


def _moved_switch(switch_: Switch, name: str, to: str) -> EditsOf:
    """Disabled under the new name, no longer under the old one."""

    def edits(document: Meaning) -> list[Edit]:
        on = switch_.edits(document, name, True)
        return on + switch_.edits(Meaning(value_after(document.value, on)), to, False)

    return edits


def remove(planner: Planner, table: ServerTable, name: str) -> None:
    def edits(document: Meaning) -> list[Edit]:
        return [Drop((*table.keys, name))] if name in _servers_in(document, table) else []

    planner.step(table, name, "removed", {table.target: edits})


def switch(planner: Planner, row: ListedServer, *, enabled: bool) -> None:
    fmt, table, name = FORMATS[row.agent], row.table, row.server.name
    if fmt.no_switch:
        planner.refuse(
            table, name, InvalidArgument(f"{fmt.no_switch}.", hint="Switch it there, or remove the server.")
        )
        return
    switches = fmt.switches(planner.workspace, table)
    edits = {each.target: _switcher(each.edits, name, enabled=enabled) for each in switches}
    notes = [
        each.note for each in switches if each.note and _would_change(planner, each, name, enabled=enabled)
    ]
    if enabled and row.unloaded:
        notes.append(f"It is not loaded: {row.unloaded}.")
    planner.step(table, name, "enabled" if enabled else "disabled", edits, notes)


def _would_change(planner: Planner, switch_: Switch, name: str, *, enabled: bool) -> bool:
    document = planner.reader.read_quietly(switch_.target) or safewrite.document(
        None, switch_.target.kind, switch_.target.path
    )
    return bool(switch_.edits(document, name, enabled))


def _switcher(make: Callable[[Meaning, str, bool], list[Edit]], name: str, *, enabled: bool) -> EditsOf:
    return lambda document: make(document, name, enabled)


def readable(row: ListedServer) -> Server:
    """The server as its agent reads it, `enabled` as in the listing."""
    try:
        server = FORMATS[row.agent].read(row.server.name, row.entry)
    except Unreadable as error:
        raise ConfigInvalid(f"{row.server.name!r} in {row.table.target.path}: {error}.") from None
    return server.replaced(enabled=row.server.enabled)

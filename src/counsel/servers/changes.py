"""Changes to one table of servers, as steps of a plan: add, update, rename, remove, switch."""

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
from counsel.servers.listing import ListedServer
from counsel.servers.original_text import OriginalText
from counsel.servers.plan import EditMaker, Planner


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
    """Plan a new server. `origin` is the agent whose own fields (`extras`) it has; other agents do not get these.

    `source`: the server that it is a copy of.
    """
    fmt = FORMATS[table.agent]
    try:
        fields.refuse_unusable(server)
        agent_server, warnings = fit(fmt, table, server, origin, name_kind="copied" if source else "new")
        entry = _copied(fmt, server, agent_server, source) if source else fmt.write(agent_server)
        refuse_unusable(fmt, server.name, entry)
    except Untranslatable as error:
        refusal = untranslatable(table, server.name, error, copied=source is not None)
        planner.refuse(table, server.name, refusal)
        return
    except CounselError as error:
        planner.refuse(table, server.name, error)
        return
    off = fmt.is_disabled(planner.workspace, table, planner.reader)(server.name)
    on = fmt.read(server.name, entry).enabled and not off
    warnings += _switch_notes(fmt, server, on=on) + fmt.notes(planner.workspace, table, planner.reader)
    existing = _entry_at(planner, table, server.name)
    action = "added" if existing is MISSING else "replaced"
    edits = {table.target: _adder(table, server.name, entry, replaces=replaces)}
    planner.step(table, server.name, action, edits, [*notes, *warnings])


def _copied(
    fmt: ServerFormat, server: Server, agent_server: Server, source: ListedServer
) -> dict[str, object]:
    """The entry of a copy; within one client, every value is written as in the source's file."""
    if source.agent != fmt.agent:
        return fmt.write(agent_server)
    original = OriginalText(fmt, source.entry, server)
    return dict(original.restored(fmt.write(original.with_marks(agent_server))))


def _switch_notes(fmt: ServerFormat, server: Server, *, on: bool) -> list[str]:
    label, command = AGENTS[fmt.agent].label, f"{server.name} --agent {fmt.agent}"
    if on == server.enabled:
        return []
    if not on:
        return [
            f"It is disabled in {label}, where this name is off; `counsel servers enable {command}` enables it."
        ]
    if fmt.no_switch:
        return [f"It is enabled in {label}. {fmt.no_switch}."]
    return [f"It is enabled in {label}; `counsel servers disable {command}` disables it."]


def _entry_at(planner: Planner, table: ServerTable, name: str) -> object:
    document = planner.reader.read_quietly(table.target)
    return MISSING if document is None else document.get((*table.keys, name))


def _adder(table: ServerTable, name: str, entry: Entry, *, replaces: bool) -> EditMaker:
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
    """Plan a change of the fields whose written form differs; all others stay as they are."""
    fmt, table = FORMATS[row.agent], row.table
    old = fmt.read(row.server.name, row.entry)
    try:
        new = change(old)
        _refuse_renaming(old, new)
        fields.refuse_unusable(new, old)
        agent_server, warnings = fit(fmt, table, new, origin=fmt.agent, name_kind="existing")
        original = OriginalText(fmt, row.entry, old)
        changes = patch((), fmt.write(original.with_marks(old)), fmt.write(original.with_marks(agent_server)))
        entry_edits = [
            Put(edit.path, original.restored(edit.value)) if isinstance(edit, Put) else edit
            for edit in changes
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
            raise NotFound(
                f"{old.name!r} is no longer in {table.target.path}.",
                hint="`counsel servers list` shows what is there now.",
                file=str(table.target.path),
            )
        return [
            placed_edit
            for edit in entry_edits
            if (placed_edit := _at_entry(edit, fmt, table, old.name, entry)) is not None
        ]

    planner.step(table, old.name, "updated", {table.target: edits}, [*notes, *warnings])


def _refuse_renaming(old: Server, new: Server) -> None:
    if new.name != old.name:
        raise InvalidArgument(
            f"An update cannot rename {old.name!r} to {new.name!r}.",
            hint="Use `counsel servers rename`.",
        )


def _at_entry(edit: Edit, fmt: ServerFormat, table: ServerTable, name: str, entry: Entry) -> Edit | None:
    key, rest = edit.path[0], edit.path[1:]
    key = next((alias for alias in fmt.aliases.get(key, ()) if alias in entry), key)
    path = (*table.keys, name, key, *rest)
    if isinstance(edit, Drop):
        return Drop(path) if key in entry else None
    assert isinstance(edit, Put)  # `patch` returns only these two
    return Put(path, edit.value)


def rename(planner: Planner, row: ListedServer, new_name: str) -> None:
    """Plan a rename: the entry keeps its position and content; settings that name the server are changed, too."""
    fmt, table, name = FORMATS[row.agent], row.table, row.server.name
    try:
        refuse_name(fmt, new_name)
    except CounselError as error:
        planner.refuse(table, name, error)
        return

    def edits(document: Meaning) -> list[Edit]:
        servers = _servers_in(document, table)
        if new_name in servers:
            raise Conflict(
                f"{AGENTS[table.agent].label} already has a server {new_name!r} ({table.scope}, {table.target.path}).",
                hint="Choose another name, or remove that server first.",
                file=str(table.target.path),
            )
        return [Rename((*table.keys, name), new_name)] if name in servers else []

    changes: dict[Target, EditMaker] = {table.target: edits}
    new_server = row.server.replaced(name=new_name)
    warnings = [f"{warning}." for warning in fmt.warns(new_server)]
    is_off = fmt.is_disabled(planner.workspace, table, planner.reader)
    if is_off(name):
        for file_switch in fmt.switches(planner.workspace, table):
            changes[file_switch.target] = _in_sequence(
                changes.get(file_switch.target), _switch_edits(file_switch, name, new_name)
            )
    mentions = [
        mention
        for mention in fmt.mentions(planner.workspace, table)
        if _has_mention(planner, mention, name, new_name)
    ]
    for mention in mentions:
        changes[mention.target] = _in_sequence(
            changes.get(mention.target), _mention_edits(mention, name, new_name)
        )
    if is_off(new_name) and not is_off(name) and not mentions:
        warnings += _switch_notes(fmt, new_server, on=False)
    planner.step(table, name, "renamed", changes, warnings, new_name=new_name)


def _has_mention(planner: Planner, mention: Mention, name: str, new_name: str) -> bool:
    document = planner.reader.read_quietly(mention.target)
    return document is not None and bool(mention.edits(document, name, new_name))


def _mention_edits(mention: Mention, name: str, new_name: str) -> EditMaker:
    return lambda document: mention.edits(document, name, new_name)


def _in_sequence(first: EditMaker | None, second: EditMaker) -> EditMaker:
    def both(document: Meaning) -> list[Edit]:
        edits = first(document) if first else []
        return edits + second(Meaning(value_after(document.value, edits)))

    return both


def _switch_edits(file_switch: Switch, name: str, new_name: str) -> EditMaker:
    """Edits that disable the new name and no longer the old one."""

    def edits(document: Meaning) -> list[Edit]:
        enabling = file_switch.edits(document, name, True)
        return enabling + file_switch.edits(Meaning(value_after(document.value, enabling)), new_name, False)

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
    edits = {
        file_switch.target: _switcher(file_switch.edits, name, enabled=enabled) for file_switch in switches
    }
    notes = [
        file_switch.note
        for file_switch in switches
        if file_switch.note and _would_change(planner, file_switch, name, enabled=enabled)
    ]
    if enabled and row.unloaded:
        notes.append(f"It is not loaded: {row.unloaded}.")
    planner.step(table, name, "enabled" if enabled else "disabled", edits, notes)


def _would_change(planner: Planner, file_switch: Switch, name: str, *, enabled: bool) -> bool:
    document = planner.reader.read_quietly(file_switch.target) or safewrite.document(
        None, file_switch.target.kind, file_switch.target.path
    )
    return bool(file_switch.edits(document, name, enabled))


def _switcher(make: Callable[[Meaning, str, bool], list[Edit]], name: str, *, enabled: bool) -> EditMaker:
    return lambda document: make(document, name, enabled)


def readable(row: ListedServer) -> Server:
    """The server as its agent reads it, `enabled` as in the listing."""
    try:
        server = FORMATS[row.agent].read(row.server.name, row.entry)
    except Unreadable as error:
        raise ConfigInvalid(f"{row.server.name!r} in {row.table.target.path}: {error}.") from None
    return server.replaced(enabled=row.server.enabled)

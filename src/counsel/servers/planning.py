"""What would change: for every agent and scope the refusals and warnings first, then the edits as planned writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from counsel.agents.definitions import AGENTS, AgentName, Workspace
from counsel.agents.references import Untranslatable
from counsel.agents.server_format import Entry, Server, ServerFormat, ServerTable, Switch, Unreadable
from counsel.configfiles.document import Meaning
from counsel.configfiles.edits import MISSING, Drop, Edit, Put, Rename, alike, intended, lookup, patch
from counsel.configfiles.edits import Path as Keys
from counsel.configfiles.write import safewrite
from counsel.configfiles.write.safewrite import Planned, Reader, Target
from counsel.errors import ConfigInvalid, Conflict, CounselError, InvalidArgument, NotFound
from counsel.servers import codex_layers, fields
from counsel.servers.adapt import fit, refuse_name, refuse_unusable, untranslatable
from counsel.servers.formats import FORMATS
from counsel.servers.listing import ListedServer

EditsOf = Callable[[Meaning], list[Edit]]


class Result:
    """What happens at one place."""

    def __init__(self, table: ServerTable, name: str, action: str, warnings: Sequence[str] = ()) -> None:
        self.agent: str = table.agent
        self.scope: str = table.scope
        self.path = str(table.target.path)
        self.name = name
        # added, replaced, updated, renamed, removed, enabled, disabled, unchanged, absent, refused
        self.action = action
        self.names = {name}  # all that it concerns
        self.warnings = list(warnings)
        self.error: CounselError | None = None

    def refuse(self, error: CounselError) -> None:
        self.action, self.error = "refused", error

    def as_dict(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "agent": self.agent,
            "scope": self.scope,
            "path": self.path,
            "name": self.name,
            "action": self.action,
            "warnings": self.warnings,
        }
        return {**shown, "error": self.error.as_dict()} if self.error else shown


class Plan:
    """All of a command: a result per place, and the writes. `what` goes into the journal: no values, only names."""

    def __init__(self, what: str, results: list[Result], writes: list[Planned]) -> None:
        self.what = what
        self.results = results
        self.writes = writes

    def refuse_if_any_refused(self) -> None:
        refused = [result for result in self.results if result.error is not None]
        if not refused:
            return
        shown = [result.as_dict() for result in self.results]
        first = refused[0].error
        assert first is not None  # noqa: S101 - filtered above
        if len(self.results) == 1:
            raise first
        names = ", ".join(sorted({f"{result.agent} ({result.scope})" for result in refused}))
        errors = [result.error for result in refused if result.error is not None]
        hints = [*(error.hint for error in errors), self._without({result.agent for result in refused})]
        raise type(first)(
            f"Nothing was written: it cannot be done for {names}. {_once(error.message for error in errors)}",
            hint=_once(hints) or None,
            results=shown,
        )

    def _without(self, refused: set[str]) -> str:
        rest = dict.fromkeys(result.agent for result in self.results if result.agent not in refused)
        return f"Or leave it out: --agent {','.join(rest)}." if rest else ""

    def diffs(self) -> list[dict[str, str]]:
        from counsel.servers.diff import unified  # noqa: PLC0415 - only a dry run compares

        return [{"path": str(one.path), "diff": unified(one)} for one in self.writes if one.changes]

    def as_dict(self, *, dry_run: bool, operation: str | None = None) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "dry_run": dry_run,
            "id": operation,
            "results": [one.as_dict() for one in self.results],
        }
        return {**shown, "diffs": self.diffs()} if dry_run else shown


def _once(sentences: Iterable[str | None]) -> str:
    return " ".join(dict.fromkeys(filter(None, sentences)))


class Planner:
    """Collects steps, joins those of one file into one write."""

    def __init__(self, workspace: Workspace, reader: Reader) -> None:
        self.workspace = workspace
        self.reader = reader
        self._results: list[Result] = []
        self._edits: dict[Target, list[EditsOf]] = {}
        self._files: dict[str, Target] = {}  # links can make one file of two agents' files
        self._layers: dict[tuple[AgentName, str], dict[str, Any]] = {}
        self._steps: dict[tuple[str, Keys, str], ServerTable] = {}

    def step(
        self,
        table: ServerTable,
        name: str,
        action: str,
        edits: Mapping[Target, EditsOf],
        warnings: Sequence[str] = (),
        *,
        becomes: str | None = None,
    ) -> None:
        """One place's step; its edits are tried at once, so that a refusal is known before anything is written.

        `becomes`: the server's name after it, where that is another one.
        """
        result = Result(table, name, action, warnings)
        result.names.add(becomes or name)
        self._results.append(result)
        first = self._steps.setdefault((os.path.realpath(table.target.path), table.keys, name), table)
        if first is not table and edits.keys() == {table.target}:
            result.warnings.append(f"{first.target.path} is the same file; it is written once.")
            return
        try:
            changed = [
                self._try(table, {name, becomes or name}, target, make) for target, make in edits.items()
            ]
        except CounselError as error:
            result.refuse(error)
            return
        if not any(changed):
            result.action = "unchanged"
        for target, make in edits.items():
            file = self._files.setdefault(os.path.realpath(target.path), target)
            self._edits.setdefault(file, []).append(make)

    def _try(self, table: ServerTable, names: set[str], target: Target, make: EditsOf) -> bool:
        document = self.reader.read(target) or safewrite.document(None, target.kind, target.path)
        edits = [edit for edit in make(document) if not _done_already(document, edit)]
        if edits and FORMATS[table.agent].layered and target == table.target:
            after = intended(document.value, edits)
            for name in names:
                becomes = lookup(after, (*table.keys, name))
                self._layers.setdefault((table.agent, name), {})[str(target.path)] = becomes
        return bool(edits)

    def _refuse_broken_layers(self) -> None:
        """Once all steps are known: a server may be taken out of two files by one command."""
        for (agent, name), after in self._layers.items():
            error = codex_layers.refusal(FORMATS[agent], self.workspace, self.reader, name, after)
            for result in self._results:
                if error and result.agent == agent and name in result.names and result.path in after:
                    result.refuse(error)

    def refuse(self, table: ServerTable, name: str, error: CounselError) -> None:
        self.note(table, name, "refused")
        self._results[-1].error = error

    def note(self, table: ServerTable, name: str, action: str) -> None:
        self._results.append(Result(table, name, action))

    def plan(self, what: str) -> Plan:
        self._refuse_broken_layers()
        plan = Plan(what, self._results, [])
        if not any(result.error for result in self._results):
            plan.writes = [self._write(target, makers) for target, makers in self._edits.items()]
        return plan

    def _write(self, target: Target, makers: list[EditsOf]) -> Planned:
        def edits(document: Meaning) -> list[Edit]:
            found: list[Edit] = []
            for make in makers:
                more = make(document)
                found += more
                document = Meaning(intended(document.value, more))
            return found

        return safewrite.plan(safewrite.by_edits(target, edits, self.reader), self.reader.known(target))


def _done_already(document: Meaning, edit: Edit) -> bool:
    return isinstance(edit, Put) and alike(document.get(edit.path), edit.value)


# ── adding ───────────────────────────────────────────────────────────────────────────────────────────


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

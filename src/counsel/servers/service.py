"""The operations on MCP servers, for every door: plan first, then write all or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counsel import reach
from counsel.agents.definitions import AGENTS, OTHERS_SCOPES, SCOPES, WITH_SERVERS, Workspace, workspace_of
from counsel.agents.server_format import Server, ServerTable
from counsel.configfiles.edits import Path as Keys
from counsel.configfiles.edits import without_empty_parents
from counsel.configfiles.write import safewrite
from counsel.configfiles.write.content import whole
from counsel.configfiles.write.safewrite import Change, Planned, Reader, Target
from counsel.errors import CounselError, InvalidArgument, NotFound
from counsel.records import Record
from counsel.servers.formats import format_of, is_present, tables
from counsel.servers.listing import ListedServer, Listing, problem_words
from counsel.servers.listing import listing as list_servers

if TYPE_CHECKING:
    from counsel.configfiles.write.undo_log import Journal, Operation
    from counsel.servers.planning import Plan, Planner


class Applied(Record):
    """A plan and the id of what was written (None: nothing needed writing, or a dry run)."""

    plan: Plan
    id: str | None
    dry_run: bool
    left_out: tuple[str, ...] = ()  # clients that are not here, when no client was named

    def as_dict(self) -> dict[str, Any]:
        said = self.plan.as_dict(dry_run=self.dry_run, operation=self.id)
        return {**said, "left_out": list(self.left_out)} if self.left_out else said


class Servers:
    """The agents' MCP servers as seen from one project, in one environment.

    Every changing method plans for all named agents, raises if one of them cannot take the change, and else writes
    all files or none. With `dry_run` it stops before writing; `Applied.plan.diffs()` is what would be written.
    """

    def __init__(self, workspace: Workspace, table: Path, reader: Callable[[], Reader] = Reader) -> None:
        self.workspace = workspace
        self.home = table
        self._reader = reader

    @cached_property
    def journal(self) -> Journal:
        from counsel.configfiles.write.undo_log import Journal  # noqa: PLC0415 - listing needs none

        return Journal(self.home)

    @classmethod
    def here(cls, project: Path | None = None, env: Mapping[str, str] | None = None) -> Servers:
        """For this process: its environment, and the current folder unless another is named."""
        from counsel.settings import default_home  # noqa: PLC0415 - the command line knows the folder already

        env = os.environ if env is None else env
        folder = Path(os.path.abspath(project or reach.current_folder()))  # noqa: PTH100 - links stay, as clients see them
        return cls(workspace_of(env, folder), default_home(env))

    def present(self, scope: str = "user") -> tuple[str, ...]:
        """The clients that are installed or were used here."""
        return tuple(name for name in WITH_SERVERS if is_present(name, self.workspace, scope))

    def listing(self, agents: Collection[str] = WITH_SERVERS, scope: str | None = None) -> Listing:
        _known(agents, scope)
        return list_servers(self.workspace, self._reader(), agents, scope)

    def find(
        self, name: str, agents: Collection[str] = WITH_SERVERS, scope: str | None = None
    ) -> list[ListedServer]:
        """Every place that has a server of this name; `NotFound` when none has."""
        return self._find(self._reader(), name, agents, scope)

    def add(
        self,
        servers: Sequence[Server],
        agents: Collection[str] | None = None,
        scope: str = "user",
        *,
        origin: str | None = None,
        replace: bool = False,
        notes: Sequence[str] = (),
        dry_run: bool = False,
    ) -> Applied:
        """To these clients; None: to all that are present. `notes` are said at every place, before what is to be
        said about that place."""
        from counsel.servers import planning  # noqa: PLC0415 - listing needs none of it

        chosen = self._everywhere(scope) if agents is None else agents
        planner = self._planner()
        for server in servers:
            for table in self._homes(chosen, scope):
                planning.add(planner, table, server, replaces=replace, origin=origin, notes=notes)
        done = self._apply(planner, f"add {_names(servers)}", dry_run=dry_run)
        absent = () if agents is not None else tuple(name for name in WITH_SERVERS if name not in chosen)
        return done.replaced(left_out=absent)

    def update(
        self,
        name: str,
        change: Callable[[Server], Server],
        agents: Sequence[str] | None = None,
        scope: str | None = None,
        *,
        notes: Sequence[str] = (),
        dry_run: bool = False,
    ) -> Applied:
        """`change` gets the server as it is and gives it as it shall be; `Server.replaced` will do."""
        from counsel.servers import planning  # noqa: PLC0415 - listing needs none of it

        planner = self._planner()
        for found in self._chosen(planner.reader, name, agents, scope):
            planning.update(planner, found, change, notes)
        self._refuse_unreadable(planner, name, agents, scope)
        return self._apply(planner, f"update {name}", dry_run=dry_run)

    def remove(
        self,
        name: str,
        agents: Sequence[str] | None = None,
        scope: str | None = None,
        *,
        dry_run: bool = False,
    ) -> Applied:
        from counsel.servers import planning  # noqa: PLC0415 - listing needs none of it

        planner = self._planner()
        held = self._removable(planner.reader, name, agents, scope)
        for table in held:
            planning.remove(planner, table, name)
        self._refuse_unreadable(planner, name, agents, scope)
        plan = planner.plan(f"remove {name}")
        plan.writes = [self._as_before(one, held, name) for one in plan.writes]
        return self._applied(plan, dry_run=dry_run)

    def copy(
        self,
        name: str,
        source: tuple[str, str | None],
        to: Sequence[tuple[str, str]],
        *,
        replace: bool = False,
        dry_run: bool = False,
    ) -> Applied:
        """From (agent, scope or None: where it is used) to each (agent, scope)."""
        from counsel.servers import planning  # noqa: PLC0415 - listing needs none of it

        planner = self._planner()
        found = self._one(planner.reader, name, *source)
        server = planning.readable(found)
        for agent, scope in to:
            for table in self._homes([agent], scope):
                planning.add(planner, table, server, replaces=replace, origin=found.agent, copied=True)
        return self._apply(planner, f"copy {name} from {source[0]}", dry_run=dry_run)

    def switch(
        self,
        name: str,
        enabled: bool,
        agents: Sequence[str] | None = None,
        scope: str | None = None,
        *,
        dry_run: bool = False,
    ) -> Applied:
        from counsel.servers import planning  # noqa: PLC0415 - listing needs none of it

        planner = self._planner()
        for found in self._chosen(planner.reader, name, agents, scope, self._switchable):
            planning.switch(planner, found, enabled=enabled)
        self._refuse_unreadable(planner, name, agents, scope)
        return self._apply(planner, f"{'enable' if enabled else 'disable'} {name}", dry_run=dry_run)

    def rename(
        self,
        name: str,
        to: str,
        agents: Sequence[str] | None = None,
        scope: str | None = None,
        *,
        dry_run: bool = False,
    ) -> Applied:
        """Give a server another name where it stands; refused where `to` is taken."""
        from counsel.servers import planning  # noqa: PLC0415 - listing needs none of it

        if to == name:
            raise InvalidArgument(f"{name!r} is its name already.")
        planner = self._planner()
        for found in self._chosen(planner.reader, name, agents, scope):
            planning.rename(planner, found, to)
        self._refuse_unreadable(planner, name, agents, scope)
        return self._apply(planner, f"rename {name} to {to}", dry_run=dry_run)

    def history(self) -> Sequence[Operation]:
        """What was written and can be undone, newest first."""
        return self.journal.operations()

    def undo(
        self, operation: str | None = None, *, dry_run: bool = False
    ) -> tuple[Operation, Plan, str | None]:
        """Take back the last change, or one by its id; `Conflict` when it was changed again since."""
        found = self.journal.find(operation)
        writes = self.journal.undo_plan(found)
        from counsel.servers.planning import Plan  # noqa: PLC0415 - as above

        plan = Plan(f"undo {found.id}", [], writes)
        if dry_run:
            return found, plan, None
        what = f"undo of {found.id}: {found.what}"
        return found, plan, self.journal.apply(writes, what, undoes=found.id)

    # ── choosing places ──────────────────────────────────────────────────────────────────────────────

    def _planner(self) -> Planner:
        from counsel.servers.planning import Planner  # noqa: PLC0415 - as above

        return Planner(self.workspace, self._reader())

    def _apply(self, planner: Planner, what: str, *, dry_run: bool) -> Applied:
        return self._applied(planner.plan(what), dry_run=dry_run)

    def _applied(self, plan: Plan, *, dry_run: bool) -> Applied:
        plan.refuse_if_any_refused()
        done = None if dry_run else self.journal.apply(plan.writes, plan.what)
        return Applied(plan, done, dry_run)

    def _as_before(self, planned: Planned, tables: Sequence[ServerTable], name: str) -> Planned:
        """A file that is exactly as our own `add` left it becomes exactly what it was before that.

        Clients leave an empty `mcpServers` behind; where `add` had to make it, `remove` takes it out again.
        """
        change = planned.change
        paths = [(*table.keys, name) for table in tables if table.target == change.target]

        def rewrite(data: bytes | None) -> bytes | None:
            after = whole(change.rewrite(data))
            older = self.journal.origin(change.target.path, data) if data is not None else None
            return (
                older if older is not None and _same_but_empty(change.target, older, after, paths) else after
            )

        return safewrite.plan(Change(change.target, rewrite))

    def _everywhere(self, scope: str) -> tuple[str, ...]:
        if found := self.present(scope):
            return found
        raise InvalidArgument(
            "No client was found here: none is on PATH, and none has left files.",
            hint=f"Name one with --agent: {', '.join(WITH_SERVERS)}.",
        )

    def _homes(self, agents: Collection[str], scope: str) -> list[ServerTable]:
        _known(agents, scope)
        found: list[ServerTable] = []
        for agent in dict.fromkeys(agents):
            held = [one for one in tables(format_of(agent), self.workspace) if one.scope == scope]
            if not held:
                raise self._no_such_scope(agent, scope)
            found += held
        return found

    def _no_such_scope(self, agent: str, scope: str) -> InvalidArgument:
        label, scopes = AGENTS[agent].label, AGENTS[agent].scopes
        if scope in scopes:
            return InvalidArgument(
                f"In {self.workspace.project} the scope {scope!r} of {label} is the user's own file.",
                hint="Use --scope user, or another folder with --project.",
            )
        return InvalidArgument(
            f"{label} has no scope {scope!r} that can be written.", hint=f"It has: {', '.join(scopes)}."
        )

    def _find(
        self, reader: Reader, name: str, agents: Collection[str], scope: str | None
    ) -> list[ListedServer]:
        _known(agents, scope)
        seen = list_servers(self.workspace, reader, agents, scope)
        found = [one for one in seen.servers if one.server.name == name]
        if found:
            return found
        broken = [one for one in seen.problems if one.get("name") in (None, name)]
        hint = problem_words(broken[0]) if broken else "`counsel servers list` shows all."
        raise NotFound(_nobody_has(name, agents, scope), hint=hint)

    def _chosen(
        self,
        reader: Reader,
        name: str,
        agents: Sequence[str] | None,
        scope: str | None,
        changeable: Callable[[ServerTable], bool] = lambda table: table.writable,
    ) -> list[ListedServer]:
        """The places that are meant: the named agents', or the only one there is."""
        seen = self._find(reader, name, WITH_SERVERS if agents is None else agents, scope)
        found = [one for one in seen if changeable(one.table)]
        if not found:
            raise not_ours(seen[0])
        if agents is None and len(found) > 1:
            places = "; ".join(f"{one.agent} {one.scope}" for one in found)
            raise InvalidArgument(
                f"{name!r} is in several places: {places}.",
                hint="Say which agents and which scope (--agent, --scope), or --everywhere.",
            )
        return found

    def _refuse_unreadable(
        self, planner: Planner, name: str, agents: Sequence[str] | None, scope: str | None
    ) -> None:
        """Whoever names agents means all their places: a file that cannot be read may have the server, too."""
        kept = [table for agent in agents or () for table in tables(format_of(agent), self.workspace)]
        files = {table.target.path: table for table in kept if scope in (None, table.scope)}
        for table in files.values():
            try:
                planner.reader.read(table.target)
            except CounselError as error:
                planner.refuse(table, name, error)

    def _switchable(self, table: ServerTable) -> bool:
        """A server that somebody else keeps can be switched where the agent notes that in the user's own files."""
        switches = format_of(table.agent).switches(self.workspace, table)
        return table.writable or (bool(switches) and all(one.target != table.target for one in switches))

    def _removable(
        self, reader: Reader, name: str, agents: Sequence[str] | None, scope: str | None
    ) -> list[ServerTable]:
        """Entries that the agent could not read can be removed, too."""
        among = WITH_SERVERS if agents is None else agents
        _known(among, scope)
        seen = list_servers(self.workspace, reader, among, scope)
        broken = {
            (one["agent"], one["scope"], one["path"]) for one in seen.problems if one.get("name") == name
        }
        unreadable = [
            table
            for agent in among
            for table in tables(format_of(agent), self.workspace)
            if (table.agent, table.scope, str(table.target.path)) in broken
            if scope in (None, table.scope)
        ]
        if unreadable and agents is not None:
            held = [one for one in seen.servers if one.server.name == name and one.table.writable]
            return unreadable + [one.table for one in held]
        return unreadable or [one.table for one in self._chosen(reader, name, agents, scope)]

    def _one(self, reader: Reader, name: str, agent: str, scope: str | None) -> ListedServer:
        found = self._find(reader, name, [agent], scope)
        used = [one for one in found if one.shadowed_by is None]
        return (used or found)[0]


def _same_but_empty(target: Target, older: bytes, after: bytes | None, paths: Sequence[Keys]) -> bool:
    meant = [safewrite.document(data, target.kind, target.path).value for data in (older, after)]
    for path in paths:
        meant = [without_empty_parents(value, path) for value in meant]
    return bool(meant[0] == meant[1])


def _known(agents: Collection[str], scope: str | None) -> None:
    if isinstance(agents, str) or not agents:  # an empty list must not mean every agent
        raise InvalidArgument("agents must be a list of names.", hint=f"Agents: {', '.join(WITH_SERVERS)}.")
    for agent in agents:
        format_of(agent)
    if scope is not None and scope not in (*SCOPES, *OTHERS_SCOPES):
        raise InvalidArgument(
            f"There is no scope {scope!r}.", hint=f"Scopes: {', '.join((*SCOPES, *OTHERS_SCOPES))}."
        )


def not_ours(found: ListedServer) -> InvalidArgument:
    """Why a server that is listed cannot be changed."""
    return InvalidArgument(
        f"{found.server.name!r} ({AGENTS[found.agent].label}, {found.scope}) is kept by {found.table.kept_by} in "
        f"{found.table.target.path}; it is not changed here.",
        hint=_ELSEWHERE[found.scope],
        file=str(found.table.target.path),
    )


_ELSEWHERE = {
    "project": "Name that folder with --project.",
    "plugin": "Switch it with `counsel servers disable`, or remove the plugin with the agent's own command.",
    "system": "A server of the same name in your own scope takes its place.",
    "managed": "Whoever keeps that file can change it.",
}


def _nobody_has(name: str, agents: Collection[str], scope: str | None) -> str:
    where = f" in scope {scope}" if scope else ""
    if len(agents) == 1:
        return f"{AGENTS[next(iter(agents))].label} has no server {name!r}{where}."
    among = "" if tuple(agents) == tuple(WITH_SERVERS) else f" of {', '.join(agents)}"
    return f"{'None' if among else 'No agent'}{among} has a server {name!r}{where}."


def _names(servers: Sequence[Server]) -> str:
    return ", ".join(server.name for server in servers)

"""Operations on MCP servers, for every interface: plan first, then write all files or none."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counsel.agents.definitions import WITH_SERVERS, Workspace, workspace_of
from counsel.agents.server_format import Server, ServerTable
from counsel.configfiles.content import as_bytes
from counsel.configfiles.edits import Path as Keys
from counsel.configfiles.edits import without_empty_parents
from counsel.configfiles.write import safewrite
from counsel.configfiles.write.safewrite import Change, PlannedWrite, Reader, Target
from counsel.errors import CounselError, InvalidArgument
from counsel.paths import current_folder
from counsel.records import Record
from counsel.servers.formats import is_present
from counsel.servers.listing import ListedServer, Listing
from counsel.servers.listing import listing as list_servers
from counsel.servers.selection import Selection, refuse_unknown

if TYPE_CHECKING:
    from counsel.configfiles.write.undo_log import Operation, UndoLog
    from counsel.servers.plan import Plan, Planner


class Applied(Record):
    """A plan, and the id of the change (None: a dry run, or nothing to write)."""

    plan: Plan
    id: str | None
    dry_run: bool
    left_out: tuple[str, ...] = ()  # clients that are not present, if the caller named none

    def as_dict(self, *, masked: bool = False) -> dict[str, Any]:
        document = self.plan.as_dict(dry_run=self.dry_run, operation=self.id, masked=masked)
        return {**document, "left_out": list(self.left_out)} if self.left_out else document


class Servers:
    """The agents' MCP servers as seen from one project, in one environment.

    Every method that changes something plans for all named agents, raises if one of them does not support the change,
    and writes all files or none. With `dry_run` it stops before writing; `Applied.plan.diffs()` shows what it would
    write.
    """

    def __init__(self, workspace: Workspace, home: Path, reader: Callable[[], Reader] = Reader) -> None:
        self.workspace = workspace
        self.home = home
        self._reader = reader

    @cached_property
    def undo_log(self) -> UndoLog:
        from counsel.configfiles.write.undo_log import UndoLog  # listing does not need it

        return UndoLog(self.home)

    @classmethod
    def here(cls, project: Path | None = None, env: Mapping[str, str] | None = None) -> Servers:
        """The servers for this process: its environment, and the current folder unless `project` is given."""
        from counsel.settings import default_home  # the command line does not need it

        env = os.environ if env is None else env
        folder = Path(os.path.abspath(project or current_folder()))  # noqa: PTH100 - keeps links, like the clients
        return cls(workspace_of(env, folder), default_home(env))

    def present(self, scope: str = "user") -> tuple[str, ...]:
        """The clients that are installed or were used on this machine."""
        return tuple(name for name in WITH_SERVERS if is_present(name, self.workspace, scope))

    def listing(self, agents: Collection[str] = WITH_SERVERS, scope: str | None = None) -> Listing:
        refuse_unknown(agents, scope)
        return list_servers(self.workspace, self._reader(), agents, scope)

    def find(
        self, name: str, agents: Collection[str] = WITH_SERVERS, scope: str | None = None
    ) -> list[ListedServer]:
        """Every server of this name; `NotFound` when there is none."""
        return self._selection(self._reader()).find(name, agents, scope)

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
        """Add servers to these clients; None: to all that are present. Each result's warnings start with `notes`."""
        from counsel.servers import changes  # listing does not need it

        clients = self._present_clients(scope) if agents is None else agents
        planner = self._planner()
        for server in servers:
            for table in self._selection(planner.reader).tables(clients, scope):
                changes.add(planner, table, server, replaces=replace, origin=origin, notes=notes)
        applied = self._apply(planner, f"add {_names(servers)}", dry_run=dry_run)
        absent = () if agents is not None else tuple(name for name in WITH_SERVERS if name not in clients)
        return applied.replaced(left_out=absent)

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
        """Change a server. `change` takes the current server and returns the new one; see `Server.replaced`."""
        from counsel.servers import changes  # listing does not need it

        planner = self._planner()
        for row in self._selection(planner.reader).to_change(name, agents, scope):
            changes.update(planner, row, change, notes)
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
        from counsel.servers import changes  # listing does not need it

        planner = self._planner()
        tables = self._selection(planner.reader).to_remove(name, agents, scope)
        for table in tables:
            changes.remove(planner, table, name)
        self._refuse_unreadable(planner, name, agents, scope)
        plan = planner.plan(f"remove {name}")
        plan.writes = [self._restored_write(write, tables, name) for write in plan.writes]
        return self._apply_plan(plan, dry_run=dry_run)

    def copy(
        self,
        name: str,
        source: tuple[str, str | None],
        to: Sequence[tuple[str, str]],
        *,
        replace: bool = False,
        dry_run: bool = False,
    ) -> Applied:
        """Copy a server from `source` to each target, all (agent, scope). Source scope None: the server in use."""
        from counsel.servers import changes  # listing does not need it

        planner = self._planner()
        selection = self._selection(planner.reader)
        row = selection.effective(name, *source)
        server = changes.readable(row)
        for agent, scope in to:
            for table in selection.tables([agent], scope):
                changes.add(planner, table, server, replaces=replace, origin=row.agent, source=row)
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
        from counsel.servers import changes  # listing does not need it

        planner = self._planner()
        for row in self._selection(planner.reader).to_switch(name, agents, scope):
            changes.switch(planner, row, enabled=enabled)
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
        """Rename a server in place; refused where the name `to` is taken."""
        from counsel.servers import changes  # listing does not need it

        if to == name:
            raise InvalidArgument(f"The server is already called {name!r}.")
        planner = self._planner()
        for row in self._selection(planner.reader).to_change(name, agents, scope):
            changes.rename(planner, row, to)
        self._refuse_unreadable(planner, name, agents, scope)
        return self._apply(planner, f"rename {name} to {to}", dry_run=dry_run)

    def history(self) -> Sequence[Operation]:
        """The changes that can be undone, newest first."""
        return self.undo_log.operations()

    def undo(
        self, operation: str | None = None, *, dry_run: bool = False
    ) -> tuple[Operation, Plan, str | None]:
        """Undo the last change, or the one with this id; `Conflict` if the entry was changed again since."""
        change = self.undo_log.find(operation)
        writes = self.undo_log.undo_plan(change)
        from counsel.servers.plan import Plan  # as above

        plan = Plan(f"undo {change.id}", [], writes)
        if dry_run:
            return change, plan, None
        title = f"undo of {change.id}: {change.what}"
        return change, plan, self.undo_log.apply(writes, title, undoes=change.id)

    # ── applying ─────────────────────────────────────────────────────────────────────────────────────

    def _selection(self, reader: Reader) -> Selection:
        return Selection(self.workspace, reader)

    def _planner(self) -> Planner:
        from counsel.servers.plan import Planner  # as above

        return Planner(self.workspace, self._reader())

    def _apply(self, planner: Planner, title: str, *, dry_run: bool) -> Applied:
        return self._apply_plan(planner.plan(title), dry_run=dry_run)

    def _apply_plan(self, plan: Plan, *, dry_run: bool) -> Applied:
        plan.raise_if_refused()
        operation = None if dry_run else self.undo_log.apply(plan.writes, plan.title)
        return Applied(plan, operation, dry_run)

    def _restored_write(self, write: PlannedWrite, tables: Sequence[ServerTable], name: str) -> PlannedWrite:
        """The write that restores a file's exact earlier bytes if the file is still exactly as `add` wrote it.

        A plain removal would leave an empty `mcpServers` behind, which `add` may have created.
        """
        change = write.change
        paths = [(*table.keys, name) for table in tables if table.target == change.target]

        def rewrite(data: bytes | None) -> bytes | None:
            after = as_bytes(change.rewrite(data))
            earlier = self.undo_log.bytes_before(change.target.path, data) if data is not None else None
            return (
                earlier
                if earlier is not None and _same_but_empty(change.target, earlier, after, paths)
                else after
            )

        return safewrite.plan(Change(change.target, rewrite))

    def _present_clients(self, scope: str) -> tuple[str, ...]:
        if clients := self.present(scope):
            return clients
        raise InvalidArgument(
            "No client was found: none is on PATH, and none has files on this machine.",
            hint=f"Name one with --agent: {', '.join(WITH_SERVERS)}.",
        )

    def _refuse_unreadable(
        self, planner: Planner, name: str, agents: Sequence[str] | None, scope: str | None
    ) -> None:
        """Refuse unreadable files of the named agents, which may have the server, too."""
        tables = self._selection(planner.reader).user_tables(agents or (), scope)
        for table in {table.target.path: table for table in tables}.values():
            try:
                planner.reader.read(table.target)
            except CounselError as error:
                planner.refuse(table, name, error)


def _same_but_empty(target: Target, before: bytes, after: bytes | None, paths: Sequence[Keys]) -> bool:
    values = [safewrite.document(data, target.kind, target.path).value for data in (before, after)]
    for path in paths:
        values = [without_empty_parents(value, path) for value in values]
    return bool(values[0] == values[1])


def _names(servers: Sequence[Server]) -> str:
    return ", ".join(server.name for server in servers)

"""Which tables and servers a command means: by name, agents and scope."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from counsel.agents.definitions import AGENTS, OTHERS_SCOPES, SCOPES, WITH_SERVERS, Workspace
from counsel.agents.server_format import ServerTable
from counsel.configfiles.write.safewrite import Reader
from counsel.errors import InvalidArgument, NotFound
from counsel.servers.formats import format_of, tables
from counsel.servers.listing import ListedServer, listing, problem_text


class Selection:
    """The servers of one workspace, read through one reader."""

    def __init__(self, workspace: Workspace, reader: Reader) -> None:
        self.workspace = workspace
        self.reader = reader

    def tables(self, agents: Collection[str], scope: str) -> list[ServerTable]:
        """The agents' tables of one scope, to which a server can be added."""
        refuse_unknown(agents, scope)
        result: list[ServerTable] = []
        for agent in dict.fromkeys(agents):
            in_scope = [table for table in tables(format_of(agent), self.workspace) if table.scope == scope]
            if not in_scope:
                raise self._no_such_scope(agent, scope)
            result += in_scope
        return result

    def _no_such_scope(self, agent: str, scope: str) -> InvalidArgument:
        label, scopes = AGENTS[agent].label, AGENTS[agent].scopes
        if scope in scopes:
            return InvalidArgument(
                f"In {self.workspace.project} the scope {scope!r} of {label} is the user's own file.",
                hint="Use --scope user, or another folder with --project.",
            )
        return InvalidArgument(
            f"{label} has no writable scope {scope!r}.", hint=f"Its writable scopes: {', '.join(scopes)}."
        )

    def find(self, name: str, agents: Collection[str], scope: str | None) -> list[ListedServer]:
        """Every server of this name; `NotFound` when there is none."""
        refuse_unknown(agents, scope)
        rows = listing(self.workspace, self.reader, agents, scope)
        matches = [row for row in rows.servers if row.server.name == name]
        if matches:
            return matches
        broken = [problem for problem in rows.problems if problem.get("name") in (None, name)]
        hint = problem_text(broken[0]) if broken else "`counsel servers list` shows all servers."
        raise NotFound(_no_such_server(name, agents, scope), hint=hint)

    def effective(self, name: str, agent: str, scope: str | None) -> ListedServer:
        """The server of this name that the agent uses; if it uses none, one that is shadowed."""
        matches = self.find(name, [agent], scope)
        return min(matches, key=lambda row: (row.shadowed_by is not None, row.waits_for is not None))

    def to_change(
        self,
        name: str,
        agents: Sequence[str] | None,
        scope: str | None,
        changeable: Callable[[ServerTable], bool] = lambda table: table.writable,
    ) -> list[ListedServer]:
        """The named agents' servers of this name; without agents, the only server of this name."""
        matches = self.find(name, WITH_SERVERS if agents is None else agents, scope)
        rows = [row for row in matches if changeable(row.table)]
        if not rows:
            raise not_changeable(matches[0])
        if agents is None and len(rows) > 1:
            locations = "; ".join(f"{row.agent} {row.scope}" for row in rows)
            raise InvalidArgument(
                f"{name!r} exists in several places: {locations}.",
                hint="Choose one with --agent and --scope, or all with --everywhere.",
            )
        return rows

    def to_switch(self, name: str, agents: Sequence[str] | None, scope: str | None) -> list[ListedServer]:
        return self.to_change(name, agents, scope, self._switchable)

    def _switchable(self, table: ServerTable) -> bool:
        """Whether the table's servers can be switched; if their file is not writable, by a switch in another file."""
        switches = format_of(table.agent).switches(self.workspace, table)
        return table.writable or (
            bool(switches) and all(switch.target != table.target for switch in switches)
        )

    def to_remove(self, name: str, agents: Sequence[str] | None, scope: str | None) -> list[ServerTable]:
        """The tables with a server of this name, including entries that the agent cannot read."""
        agent_names = WITH_SERVERS if agents is None else agents
        refuse_unknown(agent_names, scope)
        current = listing(self.workspace, self.reader, agent_names, scope)
        broken = {
            (problem["agent"], problem["scope"], problem["path"])
            for problem in current.problems
            if problem.get("name") == name and not problem.get("editable")
        }
        unreadable = [
            table
            for table in self.user_tables(agent_names, scope)
            if (table.agent, table.scope, str(table.target.path)) in broken
        ]
        if unreadable and agents is not None:
            return unreadable + [
                row.table for row in current.servers if row.server.name == name and row.table.writable
            ]
        return unreadable or [row.table for row in self.to_change(name, agents, scope)]

    def user_tables(self, agents: Collection[str], scope: str | None) -> list[ServerTable]:
        all_tables = (table for agent in agents for table in tables(format_of(agent), self.workspace))
        return [table for table in all_tables if scope in (None, table.scope)]


def refuse_unknown(agents: Collection[str], scope: str | None) -> None:
    if isinstance(agents, str) or not agents:  # an empty list must not select every agent
        raise InvalidArgument("agents must be a list of names.", hint=f"Agents: {', '.join(WITH_SERVERS)}.")
    for agent in agents:
        format_of(agent)
    if scope is not None and scope not in (*SCOPES, *OTHERS_SCOPES):
        raise InvalidArgument(
            f"There is no scope {scope!r}.", hint=f"Scopes: {', '.join((*SCOPES, *OTHERS_SCOPES))}."
        )


def not_changeable(row: ListedServer) -> InvalidArgument:
    """Why a listed server cannot be changed."""
    return InvalidArgument(
        f"{row.server.name!r} ({AGENTS[row.agent].label}, {row.scope}) belongs to {row.table.kept_by} "
        f"({row.table.target.path}); counsel does not change it.",
        hint=_ELSEWHERE[row.scope],
        file=str(row.table.target.path),
    )


_ELSEWHERE = {
    "project": "Name that folder with --project.",
    "plugin": "Switch it with `counsel servers disable`, or remove the plugin with the agent's own command.",
    "system": "A server of the same name in your own scope overrides it.",
    "managed": "Only the owner of that file can change it.",
}


def _no_such_server(name: str, agents: Collection[str], scope: str | None) -> str:
    where = f" in scope {scope}" if scope else ""
    if len(agents) == 1:
        return f"{AGENTS[next(iter(agents))].label} has no server {name!r}{where}."
    among = "" if tuple(agents) == tuple(WITH_SERVERS) else f" of {', '.join(agents)}"
    return f"{'None' if among else 'No agent'}{among} has a server {name!r}{where}."

"""Every agent's servers in every scope, with what is shadowed and what differs. Reads files only; starts nothing."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from counsel.agents import self_entry
from counsel.agents.definitions import AGENTS, AgentName, Scope, Workspace
from counsel.agents.references import plain
from counsel.agents.server_format import (
    ANY_NAME,
    Entry,
    Server,
    ServerFormat,
    ServerTable,
    Unread,
    Unreadable,
    WaitsFor,
    translated,
)
from counsel.configfiles.edits import MISSING
from counsel.configfiles.write.safewrite import Reader
from counsel.errors import ConfigInvalid, CounselError
from counsel.records import Record
from counsel.servers import codex_layers, secrets
from counsel.servers.formats import FORMATS, tables


class ListedServer(Record):
    """A server and the table that holds it."""

    server: Server
    table: ServerTable
    entry: Entry  # as in the file
    shadowed_by: Scope | None = None  # the scope whose server of the same name is used instead
    unloaded: str = ""  # why the client does not load it, although it is not disabled
    waits_for: WaitsFor | None = None  # what the user has to answer before the client loads it
    drift: tuple[str, ...] = ()  # fields that differ between the agents that have a server of this name

    def __repr__(self) -> str:  # no entry: it may hold secrets
        return f"ListedServer({self.server}, {self.table.agent}, {self.table.scope})"

    @property
    def agent(self) -> AgentName:
        return self.table.agent

    @property
    def scope(self) -> Scope:
        return self.table.scope

    @property
    def enabled(self) -> bool:
        return self.server.enabled and not self.unloaded

    @property
    def state(self) -> str:
        """`on` only where the client would load it now."""
        return (self.waits_for or "on") if self.enabled else "off"

    def as_dict(self, *, reveal: bool = False) -> dict[str, Any]:
        server = translated(self.server, plain)
        server = server if reveal else secrets.masked_server(server)
        return {
            "name": server.name,
            "agent": self.agent,
            "scope": self.scope,
            "path": str(self.table.target.path),
            **server_dict(server),
            "enabled": self.enabled,
            "waits_for": self.waits_for if self.enabled else None,
            "shadowed_by": self.shadowed_by,
            "drift": list(self.drift),
            "writable": self.table.writable,
        }


def server_dict(server: Server) -> dict[str, object]:
    return {
        "transport": server.transport,
        "enabled": server.enabled,
        "command": server.command or None,
        "args": list(server.args),
        "env": dict(server.env),
        "cwd": server.cwd,
        "url": server.url or None,
        "headers": dict(server.headers),
        "token_env": server.token_env,
        "timeout": server.timeout,
        "include_tools": None if server.include_tools is None else list(server.include_tools),
        "exclude_tools": None if server.exclude_tools is None else list(server.exclude_tools),
        "extras": dict(server.extras),
    }


class Listing(Record):
    servers: tuple[ListedServer, ...]
    problems: tuple[dict[str, object], ...]  # files and entries that cannot be read

    def as_dict(self, *, reveal: bool = False) -> dict[str, Any]:
        return {
            "servers": [row.as_dict(reveal=reveal) for row in self.servers],
            "problems": list(self.problems),
        }


def problem_text(problem: Mapping[str, Any]) -> str:
    """One line: the file (unless the error names it), the server, the error."""
    path = "" if problem["path"] in problem["error"] else f"{problem['path']}:"
    name = f"{problem['name']}:" if "name" in problem else ""
    return " ".join(filter(None, (path, name, problem["error"])))


def listing(
    workspace: Workspace, reader: Reader, agents: Iterable[str] = FORMATS, scope: str | None = None
) -> Listing:
    all_rows: list[ListedServer] = []
    problems: list[dict[str, object]] = []
    for agent in FORMATS:
        if agent not in agents:
            continue
        fmt = FORMATS[agent]  # imports the client's module
        all_tables = [*tables(fmt, workspace), *fmt.others(workspace, reader)]
        rows = _Client(fmt, workspace, reader, problems).rows(all_tables)
        alone = next((table for table in all_tables if table.alone), None)
        all_rows += _with_shadowing(rows, fmt, alone)
    result = [row for row in _with_drift(all_rows) if scope is None or row.scope == scope]
    return Listing(tuple(result), tuple(problems))


class _Client:
    """Reads one client's files."""

    def __init__(
        self, fmt: ServerFormat, workspace: Workspace, reader: Reader, problems: list[dict[str, object]]
    ) -> None:
        self._fmt = fmt
        self._workspace = workspace
        self._reader = reader
        self._problems = problems
        self._unread: list[Unread] = []

    def rows(self, all_tables: list[ServerTable]) -> list[ListedServer]:
        fmt, reader = self._fmt, self._reader
        weaker_servers = (
            codex_layers.weaker_servers(fmt, self._workspace, all_tables, reader) if fmt.layered else {}
        )
        rows: list[ListedServer] = []
        for table in all_tables:
            rows += self._rows_of(table, weaker_servers.get(table.target.path, {}))
        parts = [part for part in self._unread if not self._is_completed(part, rows, all_tables)]
        stopping = next((part for part in parts if fmt.stops_at(self._workspace, part)), None)
        if stopping is not None:
            return self._all_unloaded(rows, _location(stopping.table))
        if other_file := fmt.stopped_by(self._workspace, reader) if rows else None:
            path, error = other_file
            location = {"agent": fmt.agent, "scope": "user", "path": str(path)}
            self._problems.append({**location, "error": error, "code": ConfigInvalid.code})
            return self._all_unloaded(rows, location)
        return rows

    def _is_completed(self, part: Unread, rows: list[ListedServer], all_tables: list[ServerTable]) -> bool:
        """Whether a stronger file supplies what this entry lacks: the entry is then not a problem."""
        if not self._fmt.completes or part.part != "entry":
            return False
        layers = codex_layers.weakest_first(self._fmt, all_tables)
        stronger = layers[layers.index(part.table) + 1 :] if part.table in layers else []
        trusted_rows = [row for row in rows if row.waits_for != "trust"]
        if not any(row.server.name == part.name and row.table in stronger for row in trusted_rows):
            return False
        self._problems.remove(part.problem)
        return True

    def _all_unloaded(self, rows: list[ListedServer], location: Mapping[str, str]) -> list[ListedServer]:
        """The rows of a client that does not start because of this file: it loads none of its servers."""
        reason = f"{AGENTS[self._fmt.agent].label} does not start until {location['path']} is corrected"
        if any(row.enabled for row in rows):
            error = f"{reason}: it loads none of its servers."
            self._problems.append({**location, "editable": True, "error": error, "code": ConfigInvalid.code})
        return [row if row.unloaded else row.replaced(unloaded=reason) for row in rows]

    def _rows_of(self, table: ServerTable, weaker_servers: Mapping[str, object]) -> list[ListedServer]:
        try:
            entries, refusal = _entries(table, self._reader)
        except CounselError as error:
            self._report_file(table, error)
            return []
        if refusal:
            self._unread.append(Unread(table, "file", self._report(table, f"{refusal}.", editable=True)))
        if entries is MISSING:
            return []
        if not isinstance(entries, Mapping):
            problem = self._report(table, f"{'.'.join(table.keys)} is not an object")
            self._unread.append(Unread(table, "table", problem))
            return []
        is_disabled = self._fmt.is_disabled(self._workspace, table, self._reader)
        waits_for = self._fmt.waits_for(self._workspace, table, self._reader)
        rows = []
        for name, entry in entries.items():
            full_entry = codex_layers.merged(weaker_servers[name], entry) if name in weaker_servers else entry
            try:
                server = self._fmt.read(name, full_entry)
            except Unreadable as error:
                problem = self._report(table, str(error), name=name)
                self._unread.append(Unread(table, "entry", problem, name, entry))
                continue
            server = server.replaced(enabled=server.enabled and not is_disabled(name))
            unloaded = refusal or self._refused_name(table, name)
            row = ListedServer(server, table, full_entry, unloaded=unloaded, waits_for=waits_for(name))
            rows.append(row)
        return rows

    def _report(self, table: ServerTable, error: str, **more: object) -> dict[str, object]:
        problem = {**_location(table), **more, "error": error, "code": ConfigInvalid.code}
        self._problems.append(problem)
        return problem

    def _report_file(self, table: ServerTable, error: CounselError) -> None:
        problem: dict[str, object] = {**_location(table), **error.as_dict()}
        if not any(earlier["path"] == problem["path"] for earlier in self._problems):
            self._problems.append(problem)
        if isinstance(error, ConfigInvalid):
            self._unread.append(Unread(table, "file", problem))

    def _refused_name(self, table: ServerTable, name: str) -> str:
        """Why the client loads no server of this name."""
        loads = self._fmt.loads or self._fmt.names
        if name not in self._fmt.reserved and (loads is ANY_NAME or loads.fullmatch(name)):
            return ""
        reason = f"{AGENTS[table.agent].label} loads no server of this name"
        self._report(table, f"{reason}; `counsel servers rename` renames it.", name=name, editable=True)
        return reason


def _location(table: ServerTable) -> dict[str, str]:
    return {"agent": table.agent, "scope": table.scope, "path": str(table.target.path)}


def _entries(table: ServerTable, reader: Reader) -> tuple[object, str]:
    """The table's entries, and why the agent ignores all of them."""
    if table.entries is not None:
        return table.entries, ""
    document = reader.read(table.target)
    if document is None:
        return MISSING, ""
    return document.get(table.keys), FORMATS[table.agent].refuses(table, document)


def _with_shadowing(
    rows: list[ListedServer], fmt: ServerFormat, alone: ServerTable | None
) -> list[ListedServer]:
    """The rows, each with the scope that shadows it: the strongest scope wins; of a project's files, the nearest.

    A server that the client does not use (yet) shadows only others that it does not use.
    """
    if alone is not None:
        return [row if row.table is alone else row.replaced(shadowed_by=alone.scope) for row in rows]
    if not fmt.precedence:
        return rows
    strongest: dict[tuple[str, bool], ListedServer] = {}
    for row in sorted(rows, key=lambda row: codex_layers.rank(fmt, row.table)):
        strongest.setdefault((row.server.name, _is_used(row, fmt)), row)
    return [row.replaced(shadowed_by=_stronger_scope(row, strongest, fmt)) for row in rows]


def _stronger_scope(
    row: ListedServer, strongest: Mapping[tuple[str, bool], ListedServer], fmt: ServerFormat
) -> Scope | None:
    used = strongest.get((row.server.name, True))
    is_used = _is_used(row, fmt)
    ranks = [codex_layers.rank(fmt, item.table) for item in (used or row, row)]
    if used is not None and used is not row and (is_used or ranks[0] < ranks[1]):
        return used.scope
    unused = strongest.get((row.server.name, False))
    return None if is_used or unused is None or unused is row else unused.scope


def _is_used(row: ListedServer, fmt: ServerFormat) -> bool:
    """Whether the client uses the server. In layers, a disabled one counts, too: weaker entries are merged into it."""
    return row.waits_for is None and (row.server.enabled or fmt.layered)


def _with_drift(rows: list[ListedServer]) -> list[ListedServer]:
    by_name: dict[str, list[ListedServer]] = defaultdict(list)
    loaded = {(row.agent, row.server.name) for row in rows if row.waits_for is None}
    for row in rows:
        is_ignored = row.waits_for is not None and (row.agent, row.server.name) in loaded
        if row.shadowed_by is None and not is_ignored:
            by_name[row.server.name].append(row)
    drift = {name: _differences(group) for name, group in by_name.items()}
    return [
        row.replaced(drift=drift[row.server.name]) if row in by_name[row.server.name] else row for row in rows
    ]


def _differences(rows: list[ListedServer]) -> tuple[str, ...]:
    """Fields that differ between agents, except those that one of the agents does not support."""
    if len({row.server.transport for row in rows}) > 1:
        return ("transport",)
    ignored_fields = {name for row in rows for name in FORMATS[row.agent].unsupported}
    if all(self_entry.is_ours(row.server) for row in rows):
        ignored_fields |= self_entry.BY_AGENT
    meanings = [row.server.compared_fields() for row in rows]
    fields = dict.fromkeys(name for values in meanings for name in values)
    return tuple(
        name
        for name in fields
        if name not in ignored_fields
        and any(values.get(name) != meanings[0].get(name) for values in meanings)
    )

"""Every agent's servers, scope by scope, with what is shadowed and what differs. Starts nothing."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from counsel.agents import self_entry
from counsel.agents.definitions import AgentName, Scope, Workspace
from counsel.agents.references import plain
from counsel.agents.server_format import Entry, Server, ServerTable, Unreadable, translated
from counsel.configfiles.edits import MISSING
from counsel.configfiles.write.safewrite import Reader
from counsel.errors import CounselError
from counsel.records import Record
from counsel.servers import codex_layers, secrets
from counsel.servers.formats import FORMATS, tables


class ListedServer(Record):
    """A server and the table that holds it."""

    server: Server
    table: ServerTable
    entry: Entry  # as in the file
    shadowed_by: Scope | None = None  # the scope whose server of the same name is used instead
    drift: tuple[str, ...] = ()  # fields that differ between the agents that have this name

    def __repr__(self) -> str:  # no entry: it may hold secrets
        return f"Found({self.server}, {self.table.agent}, {self.table.scope})"

    @property
    def agent(self) -> AgentName:
        return self.table.agent

    @property
    def scope(self) -> Scope:
        return self.table.scope

    def as_dict(self, *, reveal: bool = False) -> dict[str, Any]:
        server = translated(self.server, plain)
        server = server if reveal else secrets.masked_server(server)
        return {
            "name": server.name,
            "agent": self.agent,
            "scope": self.scope,
            "path": str(self.table.target.path),
            **server_dict(server),
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
    """One line: the file, the server, the error. Some errors name their file themselves."""
    path = "" if problem["path"] in problem["error"] else f"{problem['path']}:"
    name = f"{problem['name']}:" if "name" in problem else ""
    return " ".join(filter(None, (path, name, problem["error"])))


def listing(
    workspace: Workspace, reader: Reader, agents: Iterable[str] = FORMATS, scope: str | None = None
) -> Listing:
    listed: list[ListedServer] = []
    problems: list[dict[str, object]] = []
    for agent in FORMATS:
        if agent not in agents:
            continue
        fmt = FORMATS[agent]  # imports the client's module
        rows: list[ListedServer] = []
        all_tables = [*tables(fmt, workspace), *fmt.others(workspace, reader)]
        beneath = codex_layers.beneath(fmt, all_tables, reader) if fmt.layered else {}
        for table in all_tables:
            rows += _at(workspace, table, reader, problems, beneath.get(table.target.path, {}))
        listed += _shadowed(rows, fmt.precedence, next((table for table in all_tables if table.alone), None))
    selected = [row for row in _drifted(listed) if scope is None or row.scope == scope]
    return Listing(tuple(selected), tuple(problems))


def _at(
    workspace: Workspace,
    table: ServerTable,
    reader: Reader,
    problems: list[dict[str, object]],
    beneath: Mapping[str, object],
) -> list[ListedServer]:
    location = {"agent": table.agent, "scope": table.scope, "path": str(table.target.path)}
    try:
        entries, refusal = _entries(table, reader)
    except CounselError as error:
        if not any(problem["path"] == location["path"] for problem in problems):
            problems.append({**location, **error.as_dict()})
        return []
    if refusal:
        problems.append({**location, "error": f"{refusal}.", "code": "CONFIG_INVALID", "editable": True})
    if entries is MISSING:
        return []
    if not isinstance(entries, Mapping):
        message = f"{'.'.join(table.keys)} is not an object"
        problems.append({**location, "error": message, "code": "CONFIG_INVALID"})
        return []
    off = FORMATS[table.agent].off(workspace, table, reader)
    rows = []
    for name, entry in entries.items():
        if name in beneath:
            entry = codex_layers.merged(beneath[name], entry)  # noqa: PLW2901 - the merged one counts
        try:
            server = FORMATS[table.agent].read(name, entry)
        except Unreadable as error:
            problems.append({**location, "name": name, "error": str(error), "code": "CONFIG_INVALID"})
            continue
        on = server.enabled and not off(name) and not refusal
        rows.append(ListedServer(server.replaced(enabled=on), table, entry))
    return rows


def _entries(table: ServerTable, reader: Reader) -> tuple[object, str]:
    """The table's entries, and why the agent ignores all of them."""
    if table.entries is not None:
        return table.entries, ""
    document = reader.read(table.target)
    if document is None:
        return MISSING, ""
    return document.get(table.keys), FORMATS[table.agent].refuses(table, document)


def _shadowed(
    rows: list[ListedServer], precedence: tuple[Scope, ...], alone: ServerTable | None
) -> list[ListedServer]:
    """The strongest scope wins; of a project's files, the nearest."""
    if alone is not None:
        return [row if row.table is alone else row.replaced(shadowed_by=alone.scope) for row in rows]
    best: dict[str, ListedServer] = {}
    for row in rows:
        strongest = best.get(row.server.name)
        if strongest is None or _rank(row, precedence) < _rank(strongest, precedence):
            best[row.server.name] = row
    if not precedence:
        return rows
    return [
        row if best[row.server.name] is row else row.replaced(shadowed_by=best[row.server.name].scope)
        for row in rows
    ]


def _rank(row: ListedServer, precedence: tuple[Scope, ...]) -> int:
    return precedence.index(row.scope) if row.scope in precedence else 0


def _drifted(rows: list[ListedServer]) -> list[ListedServer]:
    by_name: dict[str, list[ListedServer]] = defaultdict(list)
    for row in rows:
        if row.shadowed_by is None:
            by_name[row.server.name].append(row)
    drift = {name: _differences(same) for name, same in by_name.items()}
    return [row if row.shadowed_by else row.replaced(drift=drift[row.server.name]) for row in rows]


def _differences(rows: list[ListedServer]) -> tuple[str, ...]:
    """Fields that differ between agents, except those that one of the agents does not support."""
    if len({row.server.transport for row in rows}) > 1:
        return ("transport",)
    ignored = {name for row in rows for name in FORMATS[row.agent].lacks}
    if all(self_entry.is_ours(row.server) for row in rows):
        ignored |= self_entry.BY_AGENT
    meanings = [row.server.means() for row in rows]
    fields = dict.fromkeys(name for values in meanings for name in values)
    return tuple(
        name
        for name in fields
        if name not in ignored and any(values.get(name) != meanings[0].get(name) for values in meanings)
    )

"""An MCP server in a form that belongs to no agent, and what each agent's module says about its own form."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self, TypeAlias

from counsel.agents.definitions import AgentName, Scope, Workspace
from counsel.agents.references import Syntax
from counsel.configfiles.document import Document, Meaning
from counsel.configfiles.edits import Edit, Put, lookup
from counsel.configfiles.edits import Path as Keys
from counsel.configfiles.write.safewrite import Reader, Target
from counsel.records import Record

Entry: TypeAlias = Mapping[str, Any]
NOTHING: Mapping[str, Any] = MappingProxyType({})
ANY_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]+")  # neither control characters nor lone surrogates
TRANSPORTS = ("stdio", "http", "sse")
WaitsFor: TypeAlias = Literal["trust", "approval"]


class Server(Record):
    """References to variables inside the values are `${NAME}` or `${NAME:-default}` (references.py)."""

    name: str
    transport: str = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = NOTHING
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = NOTHING
    token_env: str | None = None  # the variable that holds a bearer token
    timeout: float | None = None  # seconds for one tool call
    enabled: bool = True
    include_tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] | None = None
    extras: Mapping[str, Any] = NOTHING  # one agent's own fields, unchanged

    def compared_fields(self) -> dict[str, object]:
        """The fields in which definitions may differ: what runs, not whether it is enabled or its tools are
        filtered."""
        fields = (
            ("transport", "command", "args", "env", "cwd")
            if self.transport == "stdio"
            else ("transport", "url", "headers", "token_env")
        )
        return {name: getattr(self, name) for name in fields}

    def without(self, *names: str) -> Self:
        """The server with these fields set to their defaults."""
        return self.replaced(**{name: getattr(Server, name) for name in names})

    def __repr__(self) -> str:  # no values: they may hold secrets
        return f"Server({self.name}, {self.transport})"


class ServerTable(Record):
    """A table of servers in one of an agent's files."""

    agent: AgentName
    scope: Scope
    target: Target
    keys: Keys
    # What a client writes around the first server of such a table.
    frame: Mapping[str, object] | None = None
    kept_by: str = ""  # the owner, if counsel must not write it: a plugin, the machine's administrator
    # The entries as the agent understands them, if they differ from those in the file.
    entries: Mapping[str, object] | None = None
    alone: bool = False  # as long as this file exists, the agent uses no other
    by_project: bool = False  # in use only through the project's own settings
    strength: int = 0  # tables with more are stronger, whatever their scopes

    @property
    def writable(self) -> bool:
        return not self.kept_by


class Switch(Record):
    """How an agent enables and disables a server: edits of one file. `note` is shown to the user."""

    target: Target
    edits: Callable[[Meaning, str, bool], list[Edit]]
    note: str = ""


class Mention(Record):
    """Another place in a file that names a server: the edits that treat a new name there like the old one."""

    target: Target
    edits: Callable[[Meaning, str, str], list[Edit]]  # (the file, the old name, the new name)


class Unread(Record):
    """A part of a client's files that cannot be read: a file, its table of servers, or one entry."""

    table: ServerTable
    part: Literal["file", "table", "entry"]
    problem: dict[str, object]  # as the listing reports it
    name: str = ""
    entry: object = None  # as in the file


def switch_enabled(_workspace: Workspace, table: ServerTable) -> list[Switch]:
    """The switch of agents whose entries have a field `enabled`."""

    def edits(document: Meaning, name: str, enabled: bool) -> list[Edit]:
        path = (*table.keys, name, "enabled")
        if not enabled:
            return [Put(path, value=False)]
        return [Put(path, value=True)] if lookup(document.value, path) is False else []

    return [Switch(table.target, edits)]


class ServerFormat(Record):
    """How one agent stores MCP servers."""

    agent: AgentName
    read: Callable[[str, Entry], Server]
    write: Callable[[Server], dict[str, object]]
    tables: Callable[[Workspace], list[ServerTable]]  # the user's own tables
    syntax: Syntax
    names: re.Pattern[str]  # that its own commands accept
    names_text: str
    # Which of two servers with one name is used, the strongest scope first; empty: both are started.
    precedence: tuple[Scope, ...]
    # Other tables that the agent reads. Only `precedence` matters, not their order; within a scope the first wins.
    others: Callable[[Workspace, Reader], Iterable[ServerTable]] = lambda _workspace, _reader: ()
    layered: bool = False  # servers of one name are merged, field by field (servers/codex_layers.py)
    completes: bool = False  # only merged entries must be complete: a stronger file may add what one lacks
    reserved: frozenset[str] = frozenset()
    loads: re.Pattern[str] | None = None  # names that it loads from its files, if it accepts more there
    transports: frozenset[str] = frozenset(TRANSPORTS)
    # Fields that the agent does not support → the warning when they are left out.
    unsupported: Mapping[str, str] = {}
    # Alternative spellings of keys; an update keeps the spelling in the file.
    aliases: Mapping[str, tuple[str, ...]] = {}
    switches: Callable[[Workspace, ServerTable], list[Switch]] = lambda _workspace, _table: []
    # Whether a server of this name is disabled by something outside its entry.
    is_disabled: Callable[[Workspace, ServerTable, Reader], Callable[[str], bool]] = (
        lambda _workspace, _table, _reader: lambda _name: False
    )
    # What the user has to answer before the client loads a server of this name in this folder.
    waits_for: Callable[[Workspace, ServerTable, Reader], Callable[[str], WaitsFor | None]] = (
        lambda _workspace, _table, _reader: lambda _name: None
    )
    waiting: Mapping[WaitsFor, str] = {}  # what the user is told for each
    # Other lists of names that a rename extends. The old name stays: another scope's server may have it.
    mentions: Callable[[Workspace, ServerTable], list[Mention]] = lambda _workspace, _table: []
    no_switch: str = ""  # why servers cannot be disabled
    # Notes for the user when a server is added here.
    notes: Callable[[Workspace, ServerTable, Reader], list[str]] = lambda _workspace, _table, _reader: []
    warns: Callable[[Server], list[str]] = lambda _server: []
    # Why the agent ignores a file that can be read; empty if it does not.
    refuses: Callable[[ServerTable, Document], str] = lambda _table, _document: ""
    # Whether this unreadable part keeps the client from starting.
    stops_at: Callable[[Workspace, Unread], bool] = lambda _workspace, _unread: False
    # Another file that keeps the client from starting, and what is wrong with it.
    stopped_by: Callable[[Workspace, Reader], tuple[Path, str] | None] = lambda _workspace, _reader: None
    # Paths besides its servers' files that show that the client was used here.
    signs: Callable[[Workspace], Iterable[Path]] = lambda _workspace: ()
    # Whether a pasted entry has a form that only this client uses.
    is_own_entry: Callable[[Entry], bool] = lambda _entry: False
    # The limit in seconds that a file sets for calls to all servers that have none of their own.
    call_limit: Callable[[Document], float | None] = lambda _document: None
    # Whether it falls back to SSE if a server declared as streamable HTTP does not support that.
    tries_sse: Callable[[Entry], bool] = lambda _entry: False


def has_key(*keys: str) -> Callable[[Entry], bool]:
    return lambda entry: any(key in entry for key in keys)


class Unreadable(ValueError):
    """An entry that the agent itself cannot use; `str(error)` says why."""


def string_list(value: object, label: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Unreadable(f"{label} must be a list of strings")
    return tuple(value)


def string_map(value: object, label: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Unreadable(f"{label} must be an object")
    return {
        key: item if isinstance(item, str) else _plain(item, f"{label}.{key}") for key, item in value.items()
    }


def _plain(value: object, label: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise Unreadable(f"{label} must be a string")


def text(value: object, label: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Unreadable(f"{label} must be a string")
    return value


def number(value: object, label: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(f"{label} must be a number")
    return value


def optional_strings(entry: Entry, key: str) -> tuple[str, ...] | None:
    return string_list(entry[key], key) if entry.get(key) is not None else None


def read_references(server: Server, syntax: Syntax) -> Server:
    """Every value with the agent's references in our syntax."""
    return translated(server, syntax.read)


def with_values(value: object, values: Mapping[str, str]) -> Any:
    """Every string in an entry with `${name}` replaced: what a client itself fills in before any variable."""
    if isinstance(value, Mapping):
        return {key: with_values(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [with_values(item, values) for item in value]
    if isinstance(value, str):
        for name, replacement in values.items():
            value = value.replace(f"${{{name}}}", replacement)
    return value


_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})


def script_of(server: Server) -> int | None:
    """The position of the argument that is a shell script (`sh -c '…'`), in which the shell expands variables."""
    if server.command.rpartition("/")[2] not in _SHELLS:
        return None
    flags = (at for at, arg in enumerate(server.args) if re.fullmatch(r"-[A-Za-z]*c", arg))
    at = next(flags, None)
    return None if at is None or at + 1 >= len(server.args) else at + 1


def with_script(server: Server, change: Callable[[str], str]) -> Server:
    """The server with a changed shell script, if it has one."""
    at = script_of(server)
    return server.replaced(args=tuple(change(arg) if n == at else arg for n, arg in enumerate(server.args)))


def translated(server: Server, change: Callable[[str], str]) -> Server:
    return server.replaced(
        command=change(server.command),
        args=tuple(map(change, server.args)),
        env={key: change(value) for key, value in server.env.items()},
        cwd=None if server.cwd is None else change(server.cwd),
        url=change(server.url),
        headers={key: change(value) for key, value in server.headers.items()},
    )

"""An MCP server in no agent's form, and what an agent's module says about its own form."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeAlias

from counsel.agents.definitions import AgentName, Scope, Workspace
from counsel.agents.references import Syntax
from counsel.configfiles.document import Document, Meaning
from counsel.configfiles.edits import Edit
from counsel.configfiles.edits import Path as Keys
from counsel.configfiles.write.safewrite import Reader, Target
from counsel.records import Record

Entry: TypeAlias = Mapping[str, Any]
NOTHING: Mapping[str, Any] = MappingProxyType({})
TRANSPORTS = ("stdio", "http", "sse")


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
    extras: Mapping[str, Any] = NOTHING  # one agent's own fields, verbatim

    def means(self) -> dict[str, Any]:
        """What is compared between agents: what runs, not how one agent switches or filters it."""
        kept = (
            ("transport", "command", "args", "env", "cwd")
            if self.transport == "stdio"
            else ("transport", "url", "headers", "token_env")
        )
        return {name: getattr(self, name) for name in kept}

    def without(self, *names: str) -> Self:
        """With the defaults in these fields."""
        return self.replaced(**{name: getattr(Server, name) for name in names})

    def __repr__(self) -> str:  # no values: they may hold secrets
        return f"Server({self.name}, {self.transport})"


class ServerTable(Record):
    """One place where an agent keeps servers: a file, and the table in it."""

    agent: AgentName
    scope: Scope
    target: Target
    keys: Keys
    # What a client puts around the first server of such a place.
    frame: Mapping[str, Any] | None = None
    kept_by: str = ""  # who writes it, where that is not for us: a plugin, the machine's administrator
    # What stands there as the agent understands it, when that is not simply what the file says.
    entries: Mapping[str, Any] | None = None
    alone: bool = False  # as long as this file is there, the agent uses no other
    by_project: bool = False  # used only because the project's own settings say so

    @property
    def writable(self) -> bool:
        return not self.kept_by


class Switch(Record):
    """How an agent turns a server on and off: edits of one file. `note` is said to the user."""

    target: Target
    edits: Callable[[Meaning, str, bool], list[Edit]]
    note: str = ""


class ServerFormat(Record):
    """One agent's way to keep MCP servers."""

    agent: AgentName
    read: Callable[[str, Entry], Server]
    write: Callable[[Server], dict[str, Any]]
    tables: Callable[[Workspace], list[ServerTable]]  # what is the user's to write
    syntax: Syntax
    names: re.Pattern[str]  # that its own commands take
    names_text: str
    # Which of two servers with one name is used, the strongest first; empty: both are started.
    precedence: tuple[Scope, ...]
    # Other places that the agent reads. The order does not matter, `precedence` does; within a scope the first wins.
    others: Callable[[Workspace, Reader], Iterable[ServerTable]] = lambda _workspace, _reader: ()
    layered: bool = False  # servers of one name are merged, field by field (servers/codex_layers.py)
    reserved: frozenset[str] = frozenset()
    loads: re.Pattern[str] | None = None  # names that it loads from its files, where these are more
    transports: frozenset[str] = frozenset(TRANSPORTS)
    # Neutral fields that the agent does not have, and what that means; they are left out with these words.
    lacks: Mapping[str, str] = {}
    # Keys whose other spelling an entry may have; an update keeps the spelling that is there.
    aliases: Mapping[str, tuple[str, ...]] = {}
    switches: Callable[[Workspace, ServerTable], list[Switch]] = lambda _workspace, _table: []
    # Whether a server of this name is switched off by something outside its entry.
    off: Callable[[Workspace, ServerTable, Reader], Callable[[str], bool]] = (
        lambda _workspace, _table, _reader: lambda _name: False
    )
    no_switch: str = ""  # why servers cannot be turned off
    # Said when a server is added here.
    notes: Callable[[Workspace, ServerTable, Reader], list[str]] = lambda _workspace, _table, _reader: []
    warns: Callable[[Server], list[str]] = lambda _server: []
    # Why the agent uses nothing of a file that can be read.
    refuses: Callable[[ServerTable, Document], str] = lambda _table, _document: ""
    # What, beside its servers' files, says that the client was used here.
    signs: Callable[[Workspace], Iterable[Path]] = lambda _workspace: ()
    # Whether an entry that somebody pastes has a form that only this client has.
    tells: Callable[[Entry], bool] = lambda _entry: False
    # Whether it tries SSE where a server declared as streamable HTTP does not speak that.
    tries_sse: Callable[[Entry], bool] = lambda _entry: False


def has_key(*keys: str) -> Callable[[Entry], bool]:
    return lambda entry: any(key in entry for key in keys)


def there(path: Path) -> bool:
    """Whether something is at a path. (`Path.exists` fails in a folder that may not be entered.)"""
    return os.access(path, os.F_OK)


class Unreadable(ValueError):
    """An entry that the agent itself could not use; `str(error)` says why."""


def texts(value: Any, what: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Unreadable(f"{what} must be a list of texts")
    return tuple(value)


def text_map(value: Any, what: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Unreadable(f"{what} must be an object")
    return {
        key: item if isinstance(item, str) else _plain(item, f"{what}.{key}") for key, item in value.items()
    }


def _plain(value: Any, what: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise Unreadable(f"{what} must be text")


def text(value: Any, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Unreadable(f"{what} must be text")
    return value


def number(value: Any, what: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(f"{what} must be a number")
    return value


def optional_texts(entry: Entry, key: str) -> tuple[str, ...] | None:
    return texts(entry[key], key) if entry.get(key) is not None else None


def read_references(server: Server, syntax: Syntax) -> Server:
    """Every value with the agent's references in our form."""
    return translated(server, syntax.read)


def filled(value: Any, words: Mapping[str, str]) -> Any:
    """Every text in an entry with `${word}` replaced: what a client fills in itself, before any variable."""
    if isinstance(value, Mapping):
        return {key: filled(item, words) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, words) for item in value]
    if isinstance(value, str):
        for word, meant in words.items():
            value = value.replace(f"${{{word}}}", meant)
    return value


_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})


def script_of(server: Server) -> int | None:
    """Which argument is a shell's script (`sh -c '…'`): the shell expands its variables, whoever else does or does not."""
    if server.command.rpartition("/")[2] not in _SHELLS:
        return None
    flags = (at for at, arg in enumerate(server.args) if re.fullmatch(r"-[A-Za-z]*c", arg))
    at = next(flags, None)
    return None if at is None or at + 1 >= len(server.args) else at + 1


def with_script(server: Server, change: Callable[[str], str]) -> Server:
    """Only a shell's script changed, if there is one."""
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

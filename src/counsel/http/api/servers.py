"""`/api/servers…`: the agents' MCP servers over HTTP, for the console.

Secrets are masked in every answer. Files are read and written in a thread, so that a slow disk delays no other request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from counsel.agents.definitions import WITH_SERVERS, workspace_of
from counsel.errors import InvalidArgument, NotFound
from counsel.front.json_messages import quoted
from counsel.http.api.endpoint import ApiCall
from counsel.servers import fields, paste
from counsel.servers.check import check, rows_to_check
from counsel.servers.service import Servers
from counsel.servers.targets import targets
from counsel.settings import Settings

_COMMON_FIELDS = frozenset({"agents", "scope", "project", "dry_run"})

Arguments: TypeAlias = Mapping[str, Any]
# The first argument is the server's name, or "" where there is none.
Work: TypeAlias = Callable[[str, Servers, Arguments], Awaitable[object]]


def _handler(work: Work) -> Callable[[ApiCall], Awaitable[object]]:
    async def handler(call: ApiCall) -> object:
        name = call.name if call.request.path_params else ""
        arguments = call.body if call.request.method in {"POST", "PATCH"} else _query(call)
        return await work(name, _servers(arguments, call.settings), arguments)

    return handler


def _query(call: ApiCall) -> Arguments:
    return {name: value for name, value in call.query.items() if value is not None and value != ()}


def _servers(arguments: Arguments, settings: Settings) -> Servers:
    project = arguments.get("project")
    if project is not None and (not isinstance(project, str) or not Path(project).is_dir()):
        raise InvalidArgument("project must be a folder on this machine.")
    folder = Path(project).absolute() if project else Path.cwd()
    return Servers(workspace_of(settings.env, folder), settings.home)


def _check_fields(arguments: Arguments, *extra_fields: str) -> None:
    for name in arguments:
        if name not in _COMMON_FIELDS and name not in extra_fields:
            raise InvalidArgument(
                f"Unknown field {quoted(name)!r}.",
                hint=f"Fields: {', '.join(sorted({*_COMMON_FIELDS, *extra_fields}))}.",
            )


def _agents(arguments: Arguments) -> list[str] | None:
    agents = arguments.get("agents")
    if agents is None:
        return None
    if not isinstance(agents, list) or not all(isinstance(name, str) for name in agents) or not agents:
        raise InvalidArgument("agents must be a list of names.")
    return agents


def _text(arguments: Arguments, name: str) -> str | None:
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"{name} must be a string.")
    return value


def _scope(arguments: Arguments) -> str | None:
    return _text(arguments, "scope")


def _flag(arguments: Arguments, name: str) -> bool:
    value = arguments.get(name, False)
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} must be true or false.")
    return value


def _fields(arguments: Arguments) -> dict[str, object]:
    server = arguments.get("server", {})
    if not isinstance(server, dict):
        raise InvalidArgument("server must be an object.")
    return server


async def _list(_: str, servers: Servers, arguments: Arguments) -> object:
    _check_fields(arguments)
    return await asyncio.to_thread(_listing, servers, arguments)


def _listing(servers: Servers, arguments: Arguments) -> dict[str, object]:
    listing = servers.listing(_agents(arguments) or WITH_SERVERS, _scope(arguments))
    return {**listing.as_dict(), "agents": targets(servers.workspace)}


async def _show(name: str, servers: Servers, arguments: Arguments) -> object:
    _check_fields(arguments)
    entries = await asyncio.to_thread(
        servers.find, name, _agents(arguments) or WITH_SERVERS, _scope(arguments)
    )
    return {"servers": [entry.as_dict() for entry in entries]}


async def _add(_: str, servers: Servers, arguments: Arguments) -> object:
    """`{"name", "server": {…}, "literal"?}`, or `{"paste": "JSON or TOML of any agent", "name"?, "server"?}`."""
    _check_fields(arguments, "name", "server", "paste", "replace", "literal")
    literal = _flag(arguments, "literal")
    name, text = _text(arguments, "name"), _text(arguments, "paste")
    if text is not None:
        new, origin = paste.servers(text, name)
        new = [fields.patched(server, _fields(arguments), literal=literal) for server in new]
    elif name:
        new, origin = [fields.new_server(name, _fields(arguments), literal=literal)], None
    else:
        raise InvalidArgument("name is missing.")
    agents, scope = _agents(arguments), _scope(arguments) or "user"
    result = await asyncio.to_thread(
        servers.add,
        new,
        agents,
        scope,
        origin=origin,
        replace=_flag(arguments, "replace"),
        notes=fields.reference_notes(_fields(arguments), literal=literal),
        dry_run=_flag(arguments, "dry_run"),
    )
    return await asyncio.to_thread(result.as_dict, masked=True)


async def _update(name: str, servers: Servers, arguments: Arguments) -> object:
    """`{"server": {field: value}, "literal"?}`; null removes a field, or a name in env and headers."""
    _check_fields(arguments, "server", "literal")
    changes, literal = _fields(arguments), _flag(arguments, "literal")
    result = await asyncio.to_thread(
        servers.update,
        name,
        lambda server: fields.patched(server, changes, literal=literal),
        _agents(arguments),
        _scope(arguments),
        notes=fields.reference_notes(changes, literal=literal),
        dry_run=_flag(arguments, "dry_run"),
    )
    return await asyncio.to_thread(result.as_dict, masked=True)


async def _remove(name: str, servers: Servers, arguments: Arguments) -> object:
    _check_fields(arguments)
    result = await asyncio.to_thread(
        servers.remove, name, _agents(arguments), _scope(arguments), dry_run=_flag(arguments, "dry_run")
    )
    return await asyncio.to_thread(result.as_dict, masked=True)


async def _rename(name: str, servers: Servers, arguments: Arguments) -> object:
    """`{"to": "new name"}`."""
    _check_fields(arguments, "to")
    to = _text(arguments, "to")
    if not to:
        raise InvalidArgument("to is missing: the new name.")
    dry_run = _flag(arguments, "dry_run")
    result = await asyncio.to_thread(
        servers.rename, name, to, _agents(arguments), _scope(arguments), dry_run=dry_run
    )
    return await asyncio.to_thread(result.as_dict, masked=True)


async def _copy(name: str, servers: Servers, arguments: Arguments) -> object:
    """`{"from": {"agent", "scope"?}, "to": [{"agent", "scope"?}]}`."""
    _check_fields(arguments, "from", "to", "replace")
    destinations = arguments.get("to")
    if not isinstance(destinations, list) or not destinations:
        raise InvalidArgument("to must be a list of {agent, scope}.")
    source = _location(arguments.get("from"))
    to = [(agent, scope or "user") for agent, scope in map(_location, destinations)]
    result = await asyncio.to_thread(
        servers.copy,
        name,
        source,
        to,
        replace=_flag(arguments, "replace"),
        dry_run=_flag(arguments, "dry_run"),
    )
    return await asyncio.to_thread(result.as_dict, masked=True)


def _location(value: object) -> tuple[str, str | None]:
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("agent"), str)
        or value.keys() - {"agent", "scope"}
    ):
        raise InvalidArgument("from and to must be objects with agent and, optionally, scope.")
    return value["agent"], _scope(value)


async def _enable(name: str, servers: Servers, arguments: Arguments) -> object:
    return await _switch(name, servers, arguments, enabled=True)


async def _disable(name: str, servers: Servers, arguments: Arguments) -> object:
    return await _switch(name, servers, arguments, enabled=False)


async def _switch(name: str, servers: Servers, arguments: Arguments, *, enabled: bool) -> object:
    _check_fields(arguments)
    result = await asyncio.to_thread(
        servers.switch,
        name,
        enabled,
        _agents(arguments),
        _scope(arguments),
        dry_run=_flag(arguments, "dry_run"),
    )
    return await asyncio.to_thread(result.as_dict, masked=True)


_ACTIONS: Mapping[str, Work] = {
    "update": _update,
    "remove": _remove,
    "rename": _rename,
    "copy": _copy,
    "enable": _enable,
    "disable": _disable,
}


async def _change(_: str, servers: Servers, arguments: Arguments) -> object:
    """`{"name", "action", …}`: for names that no URL can have, such as `..`, which browsers resolve even if it is
    escaped."""
    name, action = _text(arguments, "name"), _text(arguments, "action")
    if name is None:
        raise InvalidArgument("name is missing.")
    work = _ACTIONS.get(action or "")
    if work is None:
        raise InvalidArgument(f"action must be one of {', '.join(_ACTIONS)}.")
    rest = {key: value for key, value in arguments.items() if key not in {"name", "action"}}
    return await work(name, servers, rest)


async def _check(_: str, servers: Servers, arguments: Arguments) -> object:
    _check_fields(arguments, "name", "timeout", "trust_folder")
    agents, scope, name = _agents(arguments) or WITH_SERVERS, _scope(arguments), _text(arguments, "name")
    trust_folder = _flag(arguments, "trust_folder")
    timeout = arguments.get("timeout", 30)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 600:
        raise InvalidArgument("timeout must be seconds, from 0 to 600.")
    rows, skipped = await asyncio.to_thread(
        rows_to_check, servers, name, agents, scope, trust_folder=trust_folder
    )
    results = [*await check(rows, servers.workspace, timeout, trust_folder=trust_folder), *skipped]
    return {"checks": [result.as_dict() for result in results]}


async def _reveal(_: str, servers: Servers, arguments: Arguments) -> object:
    """`{"name", "agent", "scope"?, "field": "env.NAME"}`: one value as it is in the file."""
    _check_fields(arguments, "name", "agent", "field")
    name, agent, field = (_text(arguments, key) for key in ("name", "agent", "field"))
    if name is None or not agent or not field:
        raise InvalidArgument(
            "name, agent and field are required.", hint="field: env.NAME, headers.NAME, url, args.0."
        )
    rows = await asyncio.to_thread(servers.find, name, [agent], _scope(arguments))
    if len(rows) > 1:
        scopes = ", ".join(row.scope for row in rows)
        raise InvalidArgument(
            f"{agent} has {len(rows)} servers of this name.", hint=f"Choose one by its scope: {scopes}."
        )
    return {"value": _value(rows[0].as_dict(reveal=True), field)}


_REVEALABLE = frozenset({"env", "headers", "args", "url", "command", "cwd", "extras"})


def _value(server: Mapping[str, object], field: str) -> str:
    """`env.NAME`, `args.0`, `extras.oauth.secret`. A name may contain dots: the longest one that exists wins."""
    value: Any = server if field.partition(".")[0] in _REVEALABLE else None
    rest = field
    while rest and value is not None:
        head, rest = _step(value, rest)
        value = value[int(head)] if isinstance(value, list) and head else value.get(head) if head else None
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise NotFound(
            f"The server has no value {quoted(field)!r}.", hint="field: env.NAME, headers.NAME, url, args.0."
        )
    return str(value)


def _step(value: object, field: str) -> tuple[str, str]:
    """Split the path into its next key and the rest; the key is "" if nothing matches."""
    if isinstance(value, Mapping):
        parts = field.split(".")
        for count in range(len(parts), 0, -1):
            if (key := ".".join(parts[:count])) in value:
                return key, ".".join(parts[count:])
    if isinstance(value, list):
        number, _, rest = field.partition(".")
        if number.isascii() and number.isdigit() and len(number) < 6 and int(number) < len(value):
            return number, rest
    return "", field


async def _history(_: str, servers: Servers, arguments: Arguments) -> object:
    _check_fields(arguments)
    operations = await asyncio.to_thread(servers.history)
    return {"operations": [operation.as_dict() for operation in operations]}


async def _undo(_: str, servers: Servers, arguments: Arguments) -> object:
    _check_fields(arguments, "id")
    operation_id = _text(arguments, "id")
    dry_run = _flag(arguments, "dry_run")
    operation, plan, undo_id = await asyncio.to_thread(servers.undo, operation_id, dry_run=dry_run)
    return {"undone": operation.as_dict(), **plan.as_dict(dry_run=dry_run, operation=undo_id, masked=True)}


list_servers, show, history = _handler(_list), _handler(_show), _handler(_history)
add, update, remove = _handler(_add), _handler(_update), _handler(_remove)
copy, rename, enable, disable = _handler(_copy), _handler(_rename), _handler(_enable), _handler(_disable)
check_servers, undo, reveal = _handler(_check), _handler(_undo), _handler(_reveal)
change = _handler(_change)

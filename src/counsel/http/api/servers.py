"""`/api/servers…`: the agents' MCP servers over HTTP, for the console.

Secrets are masked in every answer. Files are read and written in a thread, so that a slow disk delays no other request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from counsel.agents.definitions import WITH_SERVERS, workspace_of
from counsel.errors import InvalidArgument
from counsel.front.json_messages import quoted
from counsel.http.api import routes as api
from counsel.requests import Engine
from counsel.servers import fields, paste, secrets
from counsel.servers.check import check, chosen
from counsel.servers.service import Servers
from counsel.settings import Settings

_COMMON_FIELDS = frozenset({"agents", "scope", "project", "dry_run"})
_TRUTH = {"1": True, "true": True, "0": False, "false": False}

Handler = Callable[[Request, Servers, Mapping[str, Any]], Awaitable[Any]]


def routes(_engine: Engine, settings: Settings) -> list[BaseRoute]:
    def at(path: str, method: str, handler: Handler) -> Route:
        return Route(path, _answering(handler, settings), methods=[method])

    name = "/api/servers/{name:path}"
    return [
        at("/api/servers", "GET", _list),
        at("/api/servers", "POST", _add),
        at("/api/servers:check", "POST", _check),
        at("/api/servers:history", "GET", _history),
        at("/api/servers:undo", "POST", _undo),
        at(f"{name}/copy", "POST", _copy),
        at(f"{name}/rename", "POST", _rename),
        at(f"{name}/enable", "POST", _enable),
        at(f"{name}/disable", "POST", _disable),
        at(name, "GET", _show),
        at(name, "PATCH", _update),
        at(name, "DELETE", _remove),
    ]


def _answering(handler: Handler, settings: Settings) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Any:
        arguments = await api.body(request) if request.method in {"POST", "PATCH"} else _query(request)
        return _without_secrets(await handler(request, _servers(arguments, settings), arguments))

    return api.answering(answer)


def _without_secrets(shown: Any) -> object:
    """Mask secrets in diffs, which quote the files."""
    if "diffs" in shown:
        shown["diffs"] = [{**diff, "diff": secrets.masked_lines(diff["diff"])} for diff in shown["diffs"]]
    return shown


def _query(request: Request) -> Mapping[str, object]:
    arguments: dict[str, Any] = dict(request.query_params)
    if "agents" in arguments:
        arguments["agents"] = [name for name in arguments["agents"].split(",") if name]
    if "dry_run" in arguments:  # any other text is refused later
        arguments["dry_run"] = _TRUTH.get(arguments["dry_run"].lower(), arguments["dry_run"])
    return arguments


def _servers(arguments: Mapping[str, object], settings: Settings) -> Servers:
    project = arguments.get("project")
    if project is not None and (not isinstance(project, str) or not Path(project).is_dir()):
        raise InvalidArgument("project must be a folder on this machine.")
    folder = Path(project).absolute() if project else Path.cwd()
    return Servers(workspace_of(settings.env, folder), settings.home)


def _only(arguments: Mapping[str, object], *allowed: str) -> None:
    for name in arguments:
        if name not in _COMMON_FIELDS and name not in allowed:
            raise InvalidArgument(
                f"Unknown field {quoted(name)!r}.",
                hint=f"Fields: {', '.join(sorted({*_COMMON_FIELDS, *allowed}))}.",
            )


def _agents(arguments: Mapping[str, object]) -> list[str] | None:
    agents = arguments.get("agents")
    if agents is None:
        return None
    if not isinstance(agents, list) or not all(isinstance(name, str) for name in agents) or not agents:
        raise InvalidArgument("agents must be a list of names.")
    return agents


def _text(arguments: Mapping[str, object], name: str) -> str | None:
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"{name} must be a string.")
    return value


def _scope(arguments: Mapping[str, object]) -> str | None:
    return _text(arguments, "scope")


def _flag(arguments: Mapping[str, object], name: str) -> bool:
    value = arguments.get(name, False)
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} must be true or false.")
    return value


def _fields(arguments: Mapping[str, object]) -> dict[str, object]:
    server = arguments.get("server", {})
    if not isinstance(server, dict):
        raise InvalidArgument("server must be an object.")
    return server


async def _list(_: Request, servers: Servers, arguments: Mapping[str, object]) -> object:
    _only(arguments)
    listing = await asyncio.to_thread(servers.listing, _agents(arguments) or WITH_SERVERS, _scope(arguments))
    return listing.as_dict()


async def _show(request: Request, servers: Servers, arguments: Mapping[str, object]) -> object:
    _only(arguments)
    name = request.path_params["name"]
    entries = await asyncio.to_thread(
        servers.find, name, _agents(arguments) or WITH_SERVERS, _scope(arguments)
    )
    return {"servers": [entry.as_dict() for entry in entries]}


async def _add(_: Request, servers: Servers, arguments: Mapping[str, object]) -> object:
    """`{"name", "server": {…}, "literal"?}`, or `{"paste": "JSON or TOML of any agent", "name"?, "server"?}`."""
    _only(arguments, "name", "server", "paste", "replace", "literal")
    literal = _flag(arguments, "literal")
    name, text = _text(arguments, "name"), _text(arguments, "paste")
    if text is not None:
        new, origin = paste.servers(text, name)
        new = [fields.patched(server, _fields(arguments), literal=literal) for server in new]
    elif name:
        new, origin = [fields.made(name, _fields(arguments), literal=literal)], None
    else:
        raise InvalidArgument("name is missing.")
    agents, scope = _agents(arguments), _scope(arguments) or "user"
    done = await asyncio.to_thread(
        servers.add,
        new,
        agents,
        scope,
        origin=origin,
        replace=_flag(arguments, "replace"),
        notes=fields.reference_notes(_fields(arguments), literal=literal),
        dry_run=_flag(arguments, "dry_run"),
    )
    return done.as_dict()


async def _update(request: Request, servers: Servers, arguments: Mapping[str, object]) -> object:
    """`{"server": {field: value}, "literal"?}`; null removes a field, or a name in env and headers."""
    _only(arguments, "server", "literal")
    changes, literal = _fields(arguments), _flag(arguments, "literal")
    done = await asyncio.to_thread(
        servers.update,
        request.path_params["name"],
        lambda server: fields.patched(server, changes, literal=literal),
        _agents(arguments),
        _scope(arguments),
        notes=fields.reference_notes(changes, literal=literal),
        dry_run=_flag(arguments, "dry_run"),
    )
    return done.as_dict()


async def _remove(request: Request, servers: Servers, arguments: Mapping[str, object]) -> object:
    _only(arguments)
    name = request.path_params["name"]
    done = await asyncio.to_thread(
        servers.remove, name, _agents(arguments), _scope(arguments), dry_run=_flag(arguments, "dry_run")
    )
    return done.as_dict()


async def _rename(request: Request, servers: Servers, arguments: Mapping[str, object]) -> object:
    """`{"to": "new name"}`."""
    _only(arguments, "to")
    to = _text(arguments, "to")
    if not to:
        raise InvalidArgument("to is missing: the new name.")
    name, dry_run = request.path_params["name"], _flag(arguments, "dry_run")
    done = await asyncio.to_thread(
        servers.rename, name, to, _agents(arguments), _scope(arguments), dry_run=dry_run
    )
    return done.as_dict()


async def _copy(request: Request, servers: Servers, arguments: Mapping[str, object]) -> object:
    """`{"from": {"agent", "scope"?}, "to": [{"agent", "scope"?}]}`."""
    _only(arguments, "from", "to", "replace")
    destinations = arguments.get("to")
    if not isinstance(destinations, list) or not destinations:
        raise InvalidArgument("to must be a list of {agent, scope}.")
    source = _location(arguments.get("from"))
    to = [(agent, scope or "user") for agent, scope in map(_location, destinations)]
    done = await asyncio.to_thread(
        servers.copy,
        request.path_params["name"],
        source,
        to,
        replace=_flag(arguments, "replace"),
        dry_run=_flag(arguments, "dry_run"),
    )
    return done.as_dict()


def _location(value: object) -> tuple[str, str | None]:
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("agent"), str)
        or value.keys() - {"agent", "scope"}
    ):
        raise InvalidArgument("from and to must be objects with agent and, optionally, scope.")
    return value["agent"], _scope(value)


async def _enable(request: Request, servers: Servers, arguments: Mapping[str, object]) -> object:
    return await _switch(request, servers, arguments, enabled=True)


async def _disable(request: Request, servers: Servers, arguments: Mapping[str, object]) -> object:
    return await _switch(request, servers, arguments, enabled=False)


async def _switch(
    request: Request, servers: Servers, arguments: Mapping[str, object], *, enabled: bool
) -> object:
    _only(arguments)
    name = request.path_params["name"]
    done = await asyncio.to_thread(
        servers.switch,
        name,
        enabled,
        _agents(arguments),
        _scope(arguments),
        dry_run=_flag(arguments, "dry_run"),
    )
    return done.as_dict()


async def _check(_: Request, servers: Servers, arguments: Mapping[str, object]) -> Any:
    _only(arguments, "name", "timeout", "trust_folder")
    agents, scope, name = _agents(arguments) or WITH_SERVERS, _scope(arguments), _text(arguments, "name")
    trusted = _flag(arguments, "trust_folder")
    timeout = arguments.get("timeout", 30)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 600:
        raise InvalidArgument("timeout must be seconds, from 0 to 600.")
    rows, skipped = await asyncio.to_thread(chosen, servers, name, agents, scope, trust_folder=trusted)
    results = [*await check(rows, servers.workspace, timeout, trust_folder=trusted), *skipped]
    return {"checks": [result.as_dict() for result in results]}


async def _history(_: Request, servers: Servers, arguments: Mapping[str, object]) -> object:
    _only(arguments)
    operations = await asyncio.to_thread(servers.history)
    return {"operations": [operation.as_dict() for operation in operations]}


async def _undo(_: Request, servers: Servers, arguments: Mapping[str, object]) -> object:
    _only(arguments, "id")
    wanted = _text(arguments, "id")
    dry_run = _flag(arguments, "dry_run")
    operation, plan, done = await asyncio.to_thread(servers.undo, wanted, dry_run=dry_run)
    return {"undone": operation.as_dict(), **plan.as_dict(dry_run=dry_run, operation=done)}

"""`/api/servers…`: the agents' MCP servers over HTTP, for the console. Behind the token, like every `/api`.

Secrets are masked in every answer. File work happens in a thread, so that nobody else waits for a slow disk.
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

_PLACES = frozenset({"agents", "scope", "project", "dry_run"})
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
        given = await api.body(request) if request.method in {"POST", "PATCH"} else _query(request)
        return _without_secrets(await handler(request, _servers(given, settings), given))

    return api.answering(answer)


def _without_secrets(shown: Any) -> Any:
    """Diffs quote the files as they are; a page gets them masked."""
    if "diffs" in shown:
        shown["diffs"] = [{**one, "diff": secrets.masked_lines(one["diff"])} for one in shown["diffs"]]
    return shown


def _query(request: Request) -> Mapping[str, Any]:
    given: dict[str, Any] = dict(request.query_params)
    if "agents" in given:
        given["agents"] = [name for name in given["agents"].split(",") if name]
    if "dry_run" in given:  # what is neither stays text, and is refused
        given["dry_run"] = _TRUTH.get(given["dry_run"].lower(), given["dry_run"])
    return given


def _servers(given: Mapping[str, Any], settings: Settings) -> Servers:
    project = given.get("project")
    if project is not None and (not isinstance(project, str) or not Path(project).is_dir()):
        raise InvalidArgument("project must be a folder on this machine.")
    folder = Path(project).absolute() if project else Path.cwd()
    return Servers(workspace_of(settings.env, folder), settings.home)


def _only(given: Mapping[str, Any], *allowed: str) -> None:
    for name in given:
        if name not in _PLACES and name not in allowed:
            raise InvalidArgument(
                f"There is no field {quoted(name)!r} here.",
                hint=f"Fields: {', '.join(sorted({*_PLACES, *allowed}))}.",
            )


def _agents(given: Mapping[str, Any]) -> list[str] | None:
    agents = given.get("agents")
    if agents is None:
        return None
    if not isinstance(agents, list) or not all(isinstance(name, str) for name in agents) or not agents:
        raise InvalidArgument("agents must be a list of names.")
    return agents


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"{name} must be text.")
    return value


def _scope(given: Mapping[str, Any]) -> str | None:
    return _text(given, "scope")


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} must be true or false.")
    return value


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    server = given.get("server", {})
    if not isinstance(server, dict):
        raise InvalidArgument("server must be an object.")
    return server


async def _list(_: Request, servers: Servers, given: Mapping[str, Any]) -> Any:
    _only(given)
    found = await asyncio.to_thread(servers.listing, _agents(given) or WITH_SERVERS, _scope(given))
    return found.as_dict()


async def _show(request: Request, servers: Servers, given: Mapping[str, Any]) -> Any:
    _only(given)
    name = request.path_params["name"]
    found = await asyncio.to_thread(servers.find, name, _agents(given) or WITH_SERVERS, _scope(given))
    return {"servers": [one.as_dict() for one in found]}


async def _add(_: Request, servers: Servers, given: Mapping[str, Any]) -> Any:
    """`{"name", "server": {…}, "literal"?}`, or `{"paste": "JSON or TOML of any agent", "name"?, "server"?}`."""
    _only(given, "name", "server", "paste", "replace", "literal")
    literal = _flag(given, "literal")
    name, text = _text(given, "name"), _text(given, "paste")
    if text is not None:
        found, origin = paste.servers(text, name)
        found = [fields.patched(server, _fields(given), literal=literal) for server in found]
    elif name:
        found, origin = [fields.made(name, _fields(given), literal=literal)], None
    else:
        raise InvalidArgument("name is missing.")
    agents, scope = _agents(given), _scope(given) or "user"
    done = await asyncio.to_thread(
        servers.add,
        found,
        agents,
        scope,
        origin=origin,
        replace=_flag(given, "replace"),
        notes=fields.reference_notes(_fields(given), literal=literal),
        dry_run=_flag(given, "dry_run"),
    )
    return done.as_dict()


async def _update(request: Request, servers: Servers, given: Mapping[str, Any]) -> Any:
    """`{"server": {field: value}, "literal"?}`; null takes a field, or a name in env and headers, out."""
    _only(given, "server", "literal")
    changes, literal = _fields(given), _flag(given, "literal")
    done = await asyncio.to_thread(
        servers.update,
        request.path_params["name"],
        lambda server: fields.patched(server, changes, literal=literal),
        _agents(given),
        _scope(given),
        notes=fields.reference_notes(changes, literal=literal),
        dry_run=_flag(given, "dry_run"),
    )
    return done.as_dict()


async def _remove(request: Request, servers: Servers, given: Mapping[str, Any]) -> Any:
    _only(given)
    name = request.path_params["name"]
    done = await asyncio.to_thread(
        servers.remove, name, _agents(given), _scope(given), dry_run=_flag(given, "dry_run")
    )
    return done.as_dict()


async def _rename(request: Request, servers: Servers, given: Mapping[str, Any]) -> Any:
    """`{"to": "new name"}`."""
    _only(given, "to")
    to = _text(given, "to")
    if not to:
        raise InvalidArgument("to is missing: the new name.")
    name, dry_run = request.path_params["name"], _flag(given, "dry_run")
    done = await asyncio.to_thread(servers.rename, name, to, _agents(given), _scope(given), dry_run=dry_run)
    return done.as_dict()


async def _copy(request: Request, servers: Servers, given: Mapping[str, Any]) -> Any:
    """`{"from": {"agent", "scope"?}, "to": [{"agent", "scope"?}]}`."""
    _only(given, "from", "to", "replace")
    goals = given.get("to")
    if not isinstance(goals, list) or not goals:
        raise InvalidArgument("to must be a list of {agent, scope}.")
    source = _spot(given.get("from"))
    to = [(agent, scope or "user") for agent, scope in map(_spot, goals)]
    done = await asyncio.to_thread(
        servers.copy,
        request.path_params["name"],
        source,
        to,
        replace=_flag(given, "replace"),
        dry_run=_flag(given, "dry_run"),
    )
    return done.as_dict()


def _spot(value: Any) -> tuple[str, str | None]:
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("agent"), str)
        or value.keys() - {"agent", "scope"}
    ):
        raise InvalidArgument("from and to are objects with agent and, if you like, scope.")
    return value["agent"], _scope(value)


async def _enable(request: Request, servers: Servers, given: Mapping[str, Any]) -> Any:
    return await _switch(request, servers, given, enabled=True)


async def _disable(request: Request, servers: Servers, given: Mapping[str, Any]) -> Any:
    return await _switch(request, servers, given, enabled=False)


async def _switch(request: Request, servers: Servers, given: Mapping[str, Any], *, enabled: bool) -> Any:
    _only(given)
    name = request.path_params["name"]
    done = await asyncio.to_thread(
        servers.switch, name, enabled, _agents(given), _scope(given), dry_run=_flag(given, "dry_run")
    )
    return done.as_dict()


async def _check(_: Request, servers: Servers, given: Mapping[str, Any]) -> Any:
    _only(given, "name", "timeout", "trust_folder")
    agents, scope, name = _agents(given) or WITH_SERVERS, _scope(given), _text(given, "name")
    trusted = _flag(given, "trust_folder")
    timeout = given.get("timeout", 30)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 600:
        raise InvalidArgument("timeout must be seconds, from 0 to 600.")
    rows, skipped = await asyncio.to_thread(chosen, servers, name, agents, scope, trust_folder=trusted)
    results = [*await check(rows, servers.workspace, timeout, trust_folder=trusted), *skipped]
    return {"checks": [result.as_dict() for result in results]}


async def _history(_: Request, servers: Servers, given: Mapping[str, Any]) -> Any:
    _only(given)
    known = await asyncio.to_thread(servers.history)
    return {"operations": [one.as_dict() for one in known]}


async def _undo(_: Request, servers: Servers, given: Mapping[str, Any]) -> Any:
    _only(given, "id")
    wanted = _text(given, "id")
    dry_run = _flag(given, "dry_run")
    operation, plan, done = await asyncio.to_thread(servers.undo, wanted, dry_run=dry_run)
    return {"undone": operation.as_dict(), **plan.as_dict(dry_run=dry_run, operation=done)}

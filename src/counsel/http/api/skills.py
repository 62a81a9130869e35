"""`/api/skills…`: `counsel skills` over HTTP, for the console."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from counsel.errors import InvalidArgument
from counsel.front.json_messages import quoted
from counsel.http.api import routes as api
from counsel.requests import Engine
from counsel.settings import Settings
from counsel.skills.discover import list_skills
from counsel.skills.matrix import skill_matrix
from counsel.skills.share import share_skill
from counsel.skills.show import show_skill
from counsel.skills.unshare import undo_sharing, unshare_skill

Env = Mapping[str, str]
Work = Callable[[Request, Env], Awaitable[dict[str, Any]]]


def routes(_engine: Engine, settings: Settings) -> list[BaseRoute]:
    table: list[tuple[str, str, Work]] = [
        ("GET", "/api/skills", _list),
        ("GET", "/api/skills/matrix", _matrix),
        ("GET", "/api/skills/show", _show),
        ("POST", "/api/skills/share", _share),
        ("POST", "/api/skills/unshare", _unshare),
        ("POST", "/api/skills/undo", _undo),
    ]
    return [Route(path, _answered(work, settings.env), methods=[method]) for method, path, work in table]


def _answered(work: Work, env: Env) -> Callable[[Request], Awaitable[Response]]:
    return api.answering(lambda request: work(request, env))


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


def _list_parameter(request: Request, name: str) -> list[str]:
    """`?agent=a,b&agent=c` is a, b and c."""
    return [
        word.strip()
        for value in request.query_params.getlist(name)
        for word in value.split(",")
        if word.strip()
    ]


def _filters(request: Request, env: Env) -> dict[str, Any]:
    return {
        "agents": _list_parameter(request, "agent"),
        "scopes": _list_parameter(request, "scope"),
        "project": request.query_params.get("project") or None,
        "env": env,
    }


async def _list(request: Request, env: Env) -> dict[str, object]:
    text = request.query_params.get("q", "")
    return (await run_in_threadpool(list_skills, text=text, **_filters(request, env))).as_dict()


async def _matrix(request: Request, env: Env) -> dict[str, Any]:
    listing = await run_in_threadpool(
        list_skills, project=request.query_params.get("project") or None, env=env
    )
    rows = await run_in_threadpool(skill_matrix, listing.skills)
    return {"rows": [row.as_dict() for row in rows], "problems": list(listing.problems)}


async def _show(request: Request, env: Env) -> dict[str, object]:
    """The name is a parameter, not part of the path: names may contain slashes, and a path is accepted as a name."""
    name = request.query_params.get("name")
    if not name:
        raise InvalidArgument("name is missing.", hint="Add the skill's name: /api/skills/show?name=NAME.")
    return (await run_in_threadpool(show_skill, name, **_filters(request, env))).as_dict()


# ── changing ────────────────────────────────────────────────────────────────────────────────────────────

SHARE = {
    "name": str,
    "to": list,
    "scope": str,
    "copy": bool,
    "replace": bool,
    "dry_run": bool,
    "project": str,
}
UNSHARE = {"name": str, "to": list, "scope": str, "dry_run": bool, "project": str}
UNDO = {"id": str, "dry_run": bool}


async def _body(request: Request, known: dict[str, type]) -> dict[str, Any]:
    arguments = await api.body(request)
    for key, value in arguments.items():
        if key not in known:
            raise InvalidArgument(f"unknown field {quoted(key)!r}.", hint=f"Fields: {', '.join(known)}.")
        if not _fits(value, known[key]):
            kind = "a list of strings" if known[key] is list else known[key].__name__
            raise InvalidArgument(f"{key} must be {kind}.")
    if "name" in known and not arguments.get("name"):
        raise InvalidArgument("name is missing.", hint="Give the skill's name.")
    return arguments


def _fits(value: object, kind: type) -> bool:
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, kind)


async def _share(request: Request, env: Env) -> dict[str, Any]:
    arguments = await _body(request, SHARE)
    name, replacing = arguments.pop("name"), arguments.pop("replace", False)
    done = await run_in_threadpool(share_skill, name, replace_existing=replacing, env=env, **arguments)
    return done.as_dict()


async def _unshare(request: Request, env: Env) -> dict[str, Any]:
    arguments = await _body(request, UNSHARE)
    return (await run_in_threadpool(unshare_skill, arguments.pop("name"), env=env, **arguments)).as_dict()


async def _undo(request: Request, env: Env) -> dict[str, Any]:
    arguments = await _body(request, UNDO)
    return (await run_in_threadpool(undo_sharing, arguments.pop("id", None), env=env, **arguments)).as_dict()

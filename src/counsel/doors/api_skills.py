"""Skills over HTTP: what `counsel skills` does, for the console. The HTTP door puts its own lock before these."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from counsel.errors import CounselError, InvalidArgument
from counsel.skills.discover import list_skills
from counsel.skills.matrix import skill_matrix
from counsel.skills.share import share_skill
from counsel.skills.show import show_skill
from counsel.skills.unshare import undo_sharing, unshare_skill

STATUS = {"INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "CONFLICT": 409}

Work = Callable[[Request], Awaitable[dict[str, Any]]]


def routes() -> list[Route]:
    return [
        Route("/api/skills", _answered(_list), methods=["GET"]),
        Route("/api/skills/matrix", _answered(_matrix), methods=["GET"]),
        Route("/api/skills/show", _answered(_show), methods=["GET"]),
        Route("/api/skills/share", _answered(_share), methods=["POST"]),
        Route("/api/skills/unshare", _answered(_unshare), methods=["POST"]),
        Route("/api/skills/undo", _answered(_undo), methods=["POST"]),
    ]


def _answered(work: Work) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return JSONResponse(await work(request))
        except CounselError as error:
            return JSONResponse(error.as_dict(), STATUS.get(error.code, 500))

    return endpoint


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────


def _words(request: Request, name: str) -> list[str]:
    """`?agent=a,b&agent=c` is a, b and c."""
    return [
        word.strip()
        for value in request.query_params.getlist(name)
        for word in value.split(",")
        if word.strip()
    ]


def _wish(request: Request) -> dict[str, Any]:
    return {
        "agents": _words(request, "agent"),
        "scopes": _words(request, "scope"),
        "project": request.query_params.get("project") or None,
    }


async def _list(request: Request) -> dict[str, Any]:
    text = request.query_params.get("q", "")
    return (await run_in_threadpool(list_skills, text=text, **_wish(request))).as_dict()


async def _matrix(request: Request) -> dict[str, Any]:
    found = await run_in_threadpool(list_skills, project=request.query_params.get("project") or None)
    rows = await run_in_threadpool(skill_matrix, found.skills)
    return {"rows": [row.as_dict() for row in rows], "problems": list(found.problems)}


async def _show(request: Request) -> dict[str, Any]:
    """The name is a parameter, not a part of the path: names may hold slashes, and paths are names too."""
    name = request.query_params.get("name", "")
    return (await run_in_threadpool(show_skill, name, **_wish(request))).as_dict()


# ── doing ────────────────────────────────────────────────────────────────────────────────────────────

SHARE = {
    "name": str,
    "to": list,
    "scope": str,
    "copy": bool,
    "replace": bool,
    "dry_run": bool,
    "project": str,
}
UNSHARE = {"name": str, "to": list, "scope": str, "dry_run": bool}
UNDO = {"id": str, "dry_run": bool}


async def _body(request: Request, known: dict[str, type]) -> dict[str, Any]:
    try:
        given = json.loads(await request.body() or b"{}")
    except ValueError:
        raise InvalidArgument("the body is not JSON.") from None
    if not isinstance(given, dict):
        raise InvalidArgument("the body is not a JSON object.")
    for key, value in given.items():
        if key not in known:
            raise InvalidArgument(f"unknown field {key!r}.", hint=f"Fields: {', '.join(known)}.")
        if not _fits(value, known[key]):
            kind = "a list of texts" if known[key] is list else known[key].__name__
            raise InvalidArgument(f"{key} must be {kind}.")
    if "name" in known and not given.get("name"):
        raise InvalidArgument("name is missing.", hint="Give the skill's name.")
    return given


def _fits(value: Any, kind: type) -> bool:
    if kind is list:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, kind)


async def _share(request: Request) -> dict[str, Any]:
    given = await _body(request, SHARE)
    replace = given.pop("replace", False)
    return (
        await run_in_threadpool(share_skill, given.pop("name"), replace_existing=replace, **given)
    ).as_dict()


async def _unshare(request: Request) -> dict[str, Any]:
    given = await _body(request, UNSHARE)
    return (await run_in_threadpool(unshare_skill, given.pop("name"), **given)).as_dict()


async def _undo(request: Request) -> dict[str, Any]:
    given = await _body(request, UNDO)
    return (await run_in_threadpool(undo_sharing, given.pop("id", None), **given)).as_dict()

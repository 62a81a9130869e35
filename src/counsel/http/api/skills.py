"""`/api/skills…`: `counsel skills` over HTTP, for the console."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool

from counsel.errors import InvalidArgument
from counsel.front.json_messages import quoted
from counsel.http.api.endpoint import ApiCall
from counsel.skills.discover import list_skills
from counsel.skills.matrix import skill_matrix
from counsel.skills.share import share_skill
from counsel.skills.show import show_skill
from counsel.skills.undo_log import UndoLog
from counsel.skills.unshare import undo_sharing, unshare_skill

# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


def _filters(call: ApiCall) -> dict[str, Any]:
    return {
        "agents": call.query["agent"],
        "scopes": call.query["scope"],
        "project": call.query["project"],
        "env": call.settings.env,
    }


async def skills(call: ApiCall) -> object:
    return (await run_in_threadpool(list_skills, text=call.query["q"] or "", **_filters(call))).as_dict()


async def matrix(call: ApiCall) -> object:
    listing = await run_in_threadpool(list_skills, project=call.query["project"], env=call.settings.env)
    rows = await run_in_threadpool(skill_matrix, listing.skills)
    return {"rows": [row.as_dict() for row in rows], "problems": list(listing.problems)}


async def show(call: ApiCall) -> object:
    """The name is a parameter, not part of the path: names may contain slashes, and a path is accepted as a name."""
    name = call.query["name"]
    if not name:
        raise InvalidArgument("name is missing.", hint="Add the skill's name: /api/skills/show?name=NAME.")
    return (await run_in_threadpool(show_skill, name, **_filters(call))).as_dict()


async def shared(call: ApiCall) -> object:
    return {"shared": await run_in_threadpool(_shared, UndoLog(call.settings.env))}


def _shared(undo_log: UndoLog) -> list[dict[str, object]]:
    fields = ("id", "skill", "agents", "scope", "kind", "path", "source")
    return [
        {name: getattr(entry, name) for name in fields}
        for entry in undo_log.active()
        if os.path.lexists(entry.path)
    ]


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
_KINDS: dict[type, str] = {list: "a list of strings", str: "a string", bool: "true or false"}


def _checked(arguments: Mapping[str, object], types: dict[str, type]) -> dict[str, Any]:
    for key, value in arguments.items():
        if key not in types:
            raise InvalidArgument(f"Unknown field {quoted(key)!r}.", hint=f"Fields: {', '.join(types)}.")
        if not _fits(value, types[key]):
            raise InvalidArgument(f"{key} must be {_KINDS[types[key]]}.")
    if "name" in types and not arguments.get("name"):
        raise InvalidArgument("name is missing.", hint="Give the skill's name.")
    return dict(arguments)


def _fits(value: object, kind: type) -> bool:
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, kind)


async def share(call: ApiCall) -> object:
    arguments = _checked(call.body, SHARE)
    name, replace = arguments.pop("name"), arguments.pop("replace", False)
    env = call.settings.env
    sharing = await run_in_threadpool(share_skill, name, replace_existing=replace, env=env, **arguments)
    return sharing.as_dict()


async def unshare(call: ApiCall) -> object:
    arguments = _checked(call.body, UNSHARE)
    name, env = arguments.pop("name"), call.settings.env
    return (await run_in_threadpool(unshare_skill, name, env=env, **arguments)).as_dict()


async def undo(call: ApiCall) -> object:
    arguments = _checked(call.body, UNDO)
    operation, env = arguments.pop("id", None), call.settings.env
    return (await run_in_threadpool(undo_sharing, operation, env=env, **arguments)).as_dict()

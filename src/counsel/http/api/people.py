"""`/api/people`, `/api/limits` and `/api/own-keys` of a team's server, for its console and for programs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from counsel.argument_schema import Checker, Schema
from counsel.errors import InvalidArgument, NotFound, NotPermitted
from counsel.front.json_messages import quoted
from counsel.http.api.endpoint import ApiCall
from counsel.models import provider_keys
from counsel.people import ROLES

if TYPE_CHECKING:
    from counsel.engine.store.limits import LimitRow
    from counsel.engine.store.people import PersonRecord
    from counsel.engine.store.protocol import Store
    from counsel.engine.team.own_keys import OwnKeys
    from counsel.engine.team.people.directory import Directory, NewToken

_ROLE: Schema = {"type": "string", "enum": list(ROLES)}
_GROUPS: Schema = {"type": "array", "items": {"type": "string"}}
_ADDING = Checker(
    "person",
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "role": _ROLE, "groups": _GROUPS},
        "required": ["name"],
        "additionalProperties": False,
    },
)
_CHANGING = Checker(
    "person",
    {
        "type": "object",
        "properties": {"role": _ROLE, "groups": _GROUPS, "disabled": {"type": "boolean"}},
        "additionalProperties": False,
    },
)
_MONEY: Schema = {"type": "number", "minimum": 0}  # null is as good as nothing
_COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": 1_000_000}
_LIMIT = Checker(
    "limit",
    {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["person", "group", "provider"]},
            "name": {"type": "string", "minLength": 1},
            "day_usd": _MONEY,
            "month_usd": _MONEY,
            "per_minute": _COUNT,
            "at_once": _COUNT,
        },
        "required": ["kind", "name"],
        "additionalProperties": False,
    },
)
_KEY = Checker(
    "key",
    {
        "type": "object",
        "properties": {"key": {"type": "string", "minLength": 1}},
        "required": ["key"],
        "additionalProperties": False,
    },
)


def _store(call: ApiCall) -> Store:
    """The team's. Raises where the server belongs to one person."""
    store = getattr(call.engine, "store", None)
    if call.person is None or store is None:
        raise NotFound(
            "This server belongs to one person: it has no people.",
            hint="docs/use/team.md tells how a team shares a server.",
        )
    return cast("Store", store)


# ── people ───────────────────────────────────────────────────────────────────────────────────────────


def _directory(call: ApiCall) -> Directory:
    from counsel.engine.team.people.directory import Directory

    return Directory(_store(call).people)


async def listed(call: ApiCall) -> object:
    return {"people": [_shown(record) for record in await _directory(call).listed()]}


async def add(call: ApiCall) -> object:
    directory = _directory(call)
    body = _ADDING.check(call.body)
    made = await directory.add(
        str(body["name"]), str(body.get("role", "member")), _strings(body.get("groups"))
    )
    return await _new_token(directory, made)


async def change(call: ApiCall) -> object:
    directory = _directory(call)
    record = await _record(directory, call.name)
    body = _CHANGING.check(call.body)
    name = record.person.name
    if "disabled" in body:
        if body["disabled"] and call.person and record.person.id == call.person.id:
            raise InvalidArgument("You cannot disable yourself.", hint="Another admin can.")
        record = await (directory.disable(name) if body["disabled"] else directory.enable(name))
    if "role" in body or "groups" in body:
        from counsel.engine.team.people import names

        role = names.role(str(body["role"])) if "role" in body else None
        groups = _strings(body["groups"]) if "groups" in body else None
        record = await directory.change(name, role=role, groups=groups)
    return _shown(record)


async def rotate(call: ApiCall) -> object:
    directory = _directory(call)
    record = await _record(directory, call.name)
    return await _new_token(directory, await directory.rotate(record.person.name))


async def _record(directory: Directory, identity: str) -> PersonRecord:
    for record in await directory.listed():
        if record.person.id == identity:
            return record
    raise NotFound(f"There is no person {quoted(identity)!r}.", hint="GET /api/people lists everyone.")


async def _new_token(directory: Directory, made: NewToken) -> dict[str, object]:
    return {"person": _shown(await directory.find(made.person.name)), "token": made.secret}


def _shown(record: PersonRecord) -> dict[str, object]:
    from counsel.engine.results import iso

    used = [token.used for token in record.tokens if token.used]
    return {
        "id": record.person.id,
        "name": record.person.name,
        "role": record.person.role,
        "groups": list(record.person.groups),
        "created_at": iso(record.created),
        "disabled_at": None if record.disabled is None else iso(record.disabled),
        "used_at": iso(max(used)) if used else None,
        "tokens": len(record.tokens),
    }


def _strings(values: object) -> list[str]:
    return [str(value) for value in values] if isinstance(values, list) else []


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────


async def limits(call: ApiCall) -> object:
    """Admins see all, others those that apply to them."""
    store, person = _store(call), call.person
    rows = await store.limits.listed()
    if person is not None and not person.is_admin:
        from counsel.engine.team.limits import applies

        rows = [row for row in rows if applies(row, person, None)]
    return {"limits": [_limit(row) for row in rows]}


async def set_limit(call: ApiCall) -> object:
    from counsel.engine.team.limits import checked

    body: dict[str, Any] = _LIMIT.check(call.body)
    store = _store(call)
    row = await checked(
        store,
        call.settings,
        kind=body["kind"],
        name=str(body["name"]),
        day=body.get("day_usd"),
        month=body.get("month_usd"),
        per_minute=body.get("per_minute"),
        at_once=body.get("at_once"),
    )
    await store.limits.set(row)
    return _limit(row)


def _limit(row: LimitRow) -> dict[str, object]:
    return {
        "kind": row.kind,
        "name": row.name,
        "shown": row.shown or row.name,
        "day_usd": row.day,
        "month_usd": row.month,
        "per_minute": row.per_minute,
        "at_once": row.at_once,
    }


# ── own keys ─────────────────────────────────────────────────────────────────────────────────────────


async def own_keys(call: ApiCall) -> object:
    keys, person = _keys(call)
    return await _listed_keys(call, keys, person)


async def store_own_key(call: ApiCall) -> object:
    keys, person = _keys(call)
    await keys.set(person, call.name, str(_KEY.check(call.body)["key"]), call.settings)
    return await _listed_keys(call, keys, person)


async def remove_own_key(call: ApiCall) -> object:
    keys, person = _keys(call)
    await keys.remove(person, call.name, call.settings)
    return await _listed_keys(call, keys, person)


def _keys(call: ApiCall) -> tuple[OwnKeys, str]:
    from counsel.engine.team.own_keys import OwnKeys

    store = _store(call)
    assert call.person is not None
    if not call.person.may_ask and call.request.method != "GET":
        raise NotPermitted(f"{call.person.name} may only look: the role is {call.person.role}.")
    return OwnKeys(store), call.person.id


async def _listed_keys(call: ApiCall, keys: OwnKeys, person: str) -> object:
    from counsel.engine.results import iso

    stored = await keys.listed(person)
    rows = await asyncio.to_thread(provider_keys.rows, call.settings)
    return {
        "keys": [
            {
                "provider": row.provider.name,
                "label": row.provider.label,
                "stored_at": iso(stored[row.provider.name]) if row.provider.name in stored else None,
                "server": bool(row.key_source),
                "url": row.provider.key_url,
            }
            for row in rows
        ]
    }

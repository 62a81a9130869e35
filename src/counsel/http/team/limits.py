"""`/api/team/limits` and `/api/team/keys`: a team's budgets and rate limits, and its people's own keys."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, cast

from counsel.argument_schema import Checker, Schema
from counsel.http.api.endpoint import ApiCall
from counsel.http.person import note, team_member
from counsel.models import provider_keys

if TYPE_CHECKING:
    from counsel.engine.store.limits import LimitRow
    from counsel.engine.store.protocol import Store
    from counsel.engine.team.own_keys import OwnKeys

_MONEY: Schema = {"type": "number", "minimum": 0}  # the checker drops null, which means no limit
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


class _HasStore(Protocol):
    @property
    def store(self) -> Store: ...


def _store(call: ApiCall) -> Store:
    """The team's store. Raises `NotFound` on a server without a team."""
    team_member(call.person)
    return cast("_HasStore", call.engine).store


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────


async def limits(call: ApiCall) -> object:
    """All limits for admins; for others those that apply to them."""
    store, person = _store(call), call.person
    rows = await store.limits.listed()
    if person is not None and not person.is_admin:
        from counsel.engine.team.limits import applies

        rows = [row for row in rows if applies(row, person, None)]
    return {"limits": [_limit(row) for row in rows]}


async def set_limit(call: ApiCall) -> object:
    from counsel.engine.team.limits import new_row

    body: dict[str, Any] = _LIMIT.check(call.body)
    store = _store(call)
    row = await new_row(
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
    note(
        call.context.engine,
        call.request.scope,
        "people changed",
        row.shown or row.name,
        f"limits: {_words(row)}",
    )
    return _limit(row)


def _words(row: LimitRow) -> str:
    """The limits in words, for the audit log."""
    values = {"day": row.day, "month": row.month, "per minute": row.per_minute, "at once": row.at_once}
    return ", ".join(f"{name} {value:g}" for name, value in values.items() if value is not None) or "none"


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
    return await _key_list(call, keys, person)


async def store_own_key(call: ApiCall) -> object:
    keys, person = _keys(call)
    name = await keys.set(person, call.name, str(_KEY.check(call.body)["key"]), call.settings)
    note(call.context.engine, call.request.scope, "people changed", name, "own key stored")
    return await _key_list(call, keys, person)


async def remove_own_key(call: ApiCall) -> object:
    keys, person = _keys(call)
    name = await keys.remove(person, call.name, call.settings)
    note(call.context.engine, call.request.scope, "people changed", name, "own key removed")
    return await _key_list(call, keys, person)


def _keys(call: ApiCall) -> tuple[OwnKeys, str]:
    from counsel.engine.team.own_keys import OwnKeys

    person = team_member(call.person)
    if call.request.method != "GET":
        person.refuse_if_read_only("store or remove keys")
    return OwnKeys(_store(call)), person.id


async def _key_list(call: ApiCall, keys: OwnKeys, person: str) -> object:
    from counsel.engine.results import iso

    times = await keys.listed(person)
    rows = await asyncio.to_thread(provider_keys.rows, call.settings)
    return {
        "keys": [
            {
                "provider": row.provider.name,
                "label": row.provider.label,
                "stored_at": iso(times[row.provider.name]) if row.provider.name in times else None,
                "server": bool(row.key_source),
                "url": row.provider.key_url,
            }
            for row in rows
            # providers without a key run on the server's own machine
            if row.provider.key_required or row.provider.name in times
        ]
    }

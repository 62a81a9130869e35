"""`/api/team/…`: people, their tokens and the audit log, for admins; one's own record for everyone."""

from __future__ import annotations

import time
from typing import Protocol, cast

from counsel.argument_schema import Checker, Schema
from counsel.engine.store.people import PersonRecord, SignedIn
from counsel.engine.store.protocol import Store
from counsel.engine.team.people import documents, names
from counsel.engine.team.people.directory import LONGEST_DAYS, Directory
from counsel.errors import Conflict, NotFound, NotPermitted
from counsel.http.api.endpoint import ApiCall
from counsel.http.auth import SESSIONS, SIGNED_IN
from counsel.http.person import note
from counsel.http.team.sessions import SESSION_PREFIX, TeamSession
from counsel.people import OPERATOR, ROLES
from counsel.types import Json

_DAYS: Schema = {"type": "integer", "minimum": 1, "maximum": LONGEST_DAYS}
_GROUPS: Schema = {"type": "array", "items": {"type": "string"}, "maxItems": names.MOST_GROUPS}
_ROLE: Schema = {"type": "string", "enum": ROLES}
LONGEST_OVERLAP = 30 * 86400
OWN_DAYS = 90  # of a token that a person makes for a machine, unless it says otherwise
MOST_OWN_DAYS = 365
MOST_TOKENS = 20


def _checker(tool: str, required: tuple[str, ...] = (), /, **properties: Schema) -> Checker:
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return Checker(tool, schema)


_ADD = _checker("people", ("name",), name={"type": "string"}, role=_ROLE, groups=_GROUPS, days=_DAYS)
_CHANGE = _checker(
    "people", role=_ROLE, groups=_GROUPS, disabled={"type": "boolean"}, force={"type": "boolean"}
)
_OVERLAP: Schema = {"type": "integer", "minimum": 0, "maximum": LONGEST_OVERLAP}
_ROTATE = _checker("rotate", days=_DAYS, overlap=_OVERLAP)
_OWN_TOKEN = _checker(
    "tokens",
    days={"type": "integer", "minimum": 1, "maximum": MOST_OWN_DAYS},
    label={"type": "string"},
)
_TOKEN = _checker("tokens", days=_DAYS, label={"type": "string"})


class _Stored(Protocol):
    store: Store


def _directory(call: ApiCall) -> Directory:
    if call.person is None:
        raise NotFound(
            "This server has no team.", hint="It has one with COUNSEL_DATABASE (docs/use/team.md)."
        )
    return Directory(cast(_Stored, call.context.engine).store.people)


def _changed(call: ApiCall, name: str, detail: str) -> None:
    note(call.context.engine, call.request.scope, "people changed", name, detail)


async def listed(call: ApiCall) -> object:
    return {"people": [documents.person(record) for record in await _directory(call).listed()]}


async def me(call: ApiCall) -> object:
    directory = _directory(call)
    assert call.person is not None  # `_directory` has checked
    if call.person.id == OPERATOR.id:
        return {
            "id": OPERATOR.id,
            "name": OPERATOR.name,
            "role": OPERATOR.role,
            "groups": [],
            "created_at": "",
            "disabled_at": None,
            "tokens": [],
        }
    return documents.person(await directory.find(call.person.name))


async def add_own_token(call: ApiCall) -> object:
    """Not with a token: whoever finds one must not be able to make others of it."""
    asked: Json = _OWN_TOKEN.check(call.body)
    directory, own = _directory(call), await _own(call)
    signed_in: SignedIn = call.request.scope[SIGNED_IN]
    if not signed_in.token.startswith(SESSION_PREFIX):
        raise NotPermitted("A token makes no other tokens.", hint="Sign in to the console, or ask an admin.")
    if len(own.tokens) >= MOST_TOKENS:
        raise Conflict(f"You have {len(own.tokens)} tokens.", hint="End those that you no longer use.")
    made = await directory.add_token(
        own.person.name,
        days=asked.get("days", OWN_DAYS),
        label=asked.get("label", "laptop"),
        until=_end_of_sign_in(call, own),
    )
    _changed(call, made.person.name, f"token {made.token.id} added")
    return documents.new_token(made)


def _end_of_sign_in(call: ApiCall, own: PersonRecord) -> float | None:
    """When the token ends with which the person has signed in: whoever has it gets no longer access by that."""
    session: TeamSession = call.request.scope[SESSIONS]["session"]
    return next((token.expires for token in own.tokens if token.id == session.origin), None)


async def end_own_token(call: ApiCall) -> object:
    token, own = str(call.request.path_params["token"]), await _own(call)
    record = await _directory(call).end_token(own.person.name, token)
    _changed(call, record.person.name, f"token {token} ended")
    return documents.person(record)


async def _own(call: ApiCall) -> PersonRecord:
    directory = _directory(call)
    if call.person is None or call.person.id == OPERATOR.id:
        raise NotFound("The operator has no tokens but COUNSEL_TOKEN.", hint="Add a person for yourself.")
    return await directory.find(call.person.name)


async def add(call: ApiCall) -> object:
    asked: Json = _ADD.check(call.body)
    made = await _directory(call).add(
        asked["name"], asked.get("role", "member"), asked.get("groups", ()), asked.get("days")
    )
    _changed(call, made.person.name, f"added as {made.person.role}, token {made.token.id}")
    return documents.new_token(made)


async def change(call: ApiCall) -> object:
    asked: Json = _CHANGE.check(call.body)
    directory, force = _directory(call), bool(asked.get("force"))
    if "role" in asked or "groups" in asked:
        await directory.change(call.name, role=asked.get("role"), groups=asked.get("groups"), force=force)
        words = [f"{name}: {asked[name]}" for name in ("role", "groups") if name in asked]
        _changed(call, call.name, ", ".join(words))
    if asked.get("disabled") is True:
        await directory.disable(call.name, force=force)
        _changed(call, call.name, "disabled")
    elif asked.get("disabled") is False:
        await directory.enable(call.name)
        _changed(call, call.name, "enabled")
    return documents.person(await directory.find(call.name))


async def rotate(call: ApiCall) -> object:
    asked: Json = _ROTATE.check(call.body)
    made = await _directory(call).rotate(call.name, days=asked.get("days"), overlap=asked.get("overlap", 0))
    _changed(call, made.person.name, f"rotated, token {made.token.id}")
    return documents.new_token(made)


async def add_token(call: ApiCall) -> object:
    asked: Json = _TOKEN.check(call.body)
    made = await _directory(call).add_token(call.name, days=asked.get("days"), label=asked.get("label", ""))
    _changed(call, made.person.name, f"token {made.token.id} added")
    return documents.new_token(made)


async def end_token(call: ApiCall) -> object:
    token = str(call.request.path_params["token"])
    record = await _directory(call).end_token(call.name, token)
    _changed(call, record.person.name, f"token {token} ended")
    return documents.person(record)


async def usage(call: ApiCall) -> object:
    _directory(call)
    store = cast(_Stored, call.context.engine).store
    await store.flush()
    rows = await store.people.usage(time.time() - call.query["seconds"])
    return {"people": [documents.used(row) for row in rows]}


async def audit(call: ApiCall) -> object:
    _directory(call)
    query = call.query
    person = names.folded(query["person"]) if query["person"] else None
    store = cast(_Stored, call.context.engine).store
    await store.flush()
    records = await store.audit.read(time.time() - query["seconds"], person, query["limit"])
    return {"records": [documents.audited(record) for record in records]}

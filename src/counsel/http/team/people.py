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
from counsel.http.person import note, team_member
from counsel.http.team.sessions import SESSION_PREFIX, TeamSession
from counsel.people import OPERATOR, ROLES
from counsel.types import Json

_DAYS: Schema = {"type": "integer", "minimum": 1, "maximum": LONGEST_DAYS}
_GROUPS: Schema = {"type": "array", "items": {"type": "string"}, "maxItems": names.MOST_GROUPS}
_ROLE: Schema = {"type": "string", "enum": ROLES}
LONGEST_OVERLAP = 30 * 86400
OWN_DAYS = 90  # default lifetime of a token that a person makes for a machine
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


class _HasStore(Protocol):
    store: Store


def _directory(call: ApiCall) -> Directory:
    team_member(call.person)
    return Directory(cast(_HasStore, call.context.engine).store.people)


def _note_change(call: ApiCall, name: str, detail: str) -> None:
    note(call.context.engine, call.request.scope, "people changed", name, detail)


async def list_people(call: ApiCall) -> object:
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
    """Only with a session of the console: whoever finds a token must not be able to make others with it."""
    body: Json = _OWN_TOKEN.check(call.body)
    directory, own = _directory(call), await _own(call)
    signed_in: SignedIn = call.request.scope[SIGNED_IN]
    if not signed_in.token.startswith(SESSION_PREFIX):
        raise NotPermitted(
            "A token cannot be used to make another one.", hint="Sign in to the console, or ask an admin."
        )
    if len(own.tokens) >= MOST_TOKENS:
        raise Conflict(f"You have {len(own.tokens)} tokens.", hint="End those that you no longer use.")
    new_token = await directory.add_token(
        own.person.name,
        days=body.get("days", OWN_DAYS),
        label=body.get("label", "laptop"),
        until=_token_expiry(call, own),
    )
    _note_change(call, new_token.person.name, f"token {new_token.token.id} added")
    return documents.new_token(new_token)


def _token_expiry(call: ApiCall, own: PersonRecord) -> float | None:
    """When the token that the person signed in with expires: no token made with it may last longer."""
    session: TeamSession = call.request.scope[SESSIONS]["session"]
    return next((token.expires for token in own.tokens if token.id == session.origin), None)


async def end_own_token(call: ApiCall) -> object:
    token, own = str(call.request.path_params["token"]), await _own(call)
    record = await _directory(call).end_token(own.person.name, token)
    _note_change(call, record.person.name, f"token {token} ended")
    return documents.person(record)


async def _own(call: ApiCall) -> PersonRecord:
    directory = _directory(call)
    if call.person is None or call.person.id == OPERATOR.id:
        raise NotFound("The operator has no token but COUNSEL_TOKEN.", hint="Add a person for yourself.")
    return await directory.find(call.person.name)


async def add(call: ApiCall) -> object:
    body: Json = _ADD.check(call.body)
    new_token = await _directory(call).add(
        body["name"], body.get("role", "member"), body.get("groups", ()), body.get("days")
    )
    _note_change(call, new_token.person.name, f"added as {new_token.person.role}, token {new_token.token.id}")
    return documents.new_token(new_token)


async def change(call: ApiCall) -> object:
    body: Json = _CHANGE.check(call.body)
    directory, force = _directory(call), bool(body.get("force"))
    if "role" in body or "groups" in body:
        await directory.change(call.name, role=body.get("role"), groups=body.get("groups"), force=force)
        changes = [f"{name}: {body[name]}" for name in ("role", "groups") if name in body]
        _note_change(call, call.name, ", ".join(changes))
    if body.get("disabled") is True:
        await directory.disable(call.name, force=force)
        _note_change(call, call.name, "disabled")
    elif body.get("disabled") is False:
        await directory.enable(call.name)
        _note_change(call, call.name, "enabled")
    return documents.person(await directory.find(call.name))


async def rotate(call: ApiCall) -> object:
    body: Json = _ROTATE.check(call.body)
    new_token = await _directory(call).rotate(
        call.name, days=body.get("days"), overlap=body.get("overlap", 0)
    )
    _note_change(call, new_token.person.name, f"rotated, token {new_token.token.id}")
    return documents.new_token(new_token)


async def add_token(call: ApiCall) -> object:
    body: Json = _TOKEN.check(call.body)
    new_token = await _directory(call).add_token(
        call.name, days=body.get("days"), label=body.get("label", "")
    )
    _note_change(call, new_token.person.name, f"token {new_token.token.id} added")
    return documents.new_token(new_token)


async def end_token(call: ApiCall) -> object:
    token = str(call.request.path_params["token"])
    record = await _directory(call).end_token(call.name, token)
    _note_change(call, record.person.name, f"token {token} ended")
    return documents.person(record)


async def usage(call: ApiCall) -> object:
    _directory(call)
    store = cast(_HasStore, call.context.engine).store
    await store.flush()
    rows = await store.people.usage(time.time() - call.query["seconds"])
    return {"people": [documents.used(row) for row in rows]}


async def audit(call: ApiCall) -> object:
    _directory(call)
    query = call.query
    person = names.folded(query["person"]) if query["person"] else None
    store = cast(_HasStore, call.context.engine).store
    await store.flush()
    records = await store.audit.read(time.time() - query["seconds"], person, query["limit"])
    return {"records": [documents.audited(record) for record in records]}

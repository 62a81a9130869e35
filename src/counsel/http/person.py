"""Who sent a request to a team's server, and the engine and identity that the request may use.

Without a team, every request may use the whole engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from counsel.caller import Caller
from counsel.errors import AuthenticationFailed, ConfigInvalid, NotFound, NotPermitted
from counsel.http.auth import SIGNED_IN, Scope
from counsel.mcp.identity import ClientIdentity
from counsel.people import Person
from counsel.requests import Engine

if TYPE_CHECKING:
    from counsel.engine.store.audit import Action
    from counsel.engine.store.people import SignedIn
    from counsel.engine.team.audit import Audit

E = TypeVar("E", bound=Engine)


class TeamEngine(Protocol):
    is_team: bool

    audit: Audit

    def for_person(self, person: Person, token: str = "", address: str = "") -> Engine: ...


class TeamPerson(Protocol):
    async def with_own_keys(self, caller: Caller) -> Caller: ...


def person_of(scope: Scope) -> Person | None:
    signed_in: SignedIn | None = scope.get(SIGNED_IN)
    return signed_in.person if signed_in else None


def owner_of(scope: Scope) -> str:
    person = person_of(scope)
    return person.id if person else ""


def engine_of(engine: E, scope: Scope) -> E:
    """The engine that the sender of this request may use; on a team's server never the whole one."""
    if not getattr(engine, "is_team", False):
        return engine
    signed_in: SignedIn | None = scope.get(SIGNED_IN)
    if signed_in is None:
        raise AuthenticationFailed("A token is required.")
    return cast(E, cast(TeamEngine, engine).for_person(signed_in.person, signed_in.token, address_of(scope)))


def address_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def note(engine: Engine, scope: Scope, action: Action, subject: str, detail: str = "") -> None:
    """Write a line to the audit log of a team's server."""
    signed_in: SignedIn | None = scope.get(SIGNED_IN)
    if getattr(engine, "is_team", False):
        from counsel.engine.team.audit import Sender

        sender = Sender(
            signed_in.person if signed_in else None, signed_in.token if signed_in else "", address_of(scope)
        )
        cast(TeamEngine, engine).audit.note(sender, action, subject, detail)


def identity_of(identity: ClientIdentity, scope: Scope) -> ClientIdentity:
    person = person_of(scope)
    return identity if person is None else identity.of_person(person)


async def caller_of(engine: Engine, caller: Caller) -> Caller:
    """The caller with the person's own keys, for lists of the models that can be asked."""
    if caller.person is None:
        return caller
    try:
        return await cast(TeamPerson, engine).with_own_keys(caller)
    except ConfigInvalid:  # this server cannot read the keys: it refuses a question with the reason
        return caller


def team_member(person: Person | None) -> Person:
    """The sender. Raises `NotFound` on a server without a team."""
    if person is None:
        raise NotFound(
            "This server has no team.", hint="Set COUNSEL_DATABASE to run one for a team (docs/use/team.md)."
        )
    return person


def check_admin(scope: Scope) -> None:
    person = person_of(scope)
    if person is not None and not person.is_admin:
        raise NotPermitted("Only admins may do this.", hint="`counsel people list` shows who the admins are.")

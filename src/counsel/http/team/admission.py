"""Decides who may sign in with the issuer, and with which role and groups."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from counsel.engine.store.sessions import Subject
from counsel.engine.team.people import names
from counsel.errors import InvalidArgument
from counsel.http.team.oidc import Identity, SignInFailed
from counsel.people import Person, Role

if TYPE_CHECKING:
    from counsel.engine.store.people import PeopleStore
    from counsel.engine.store.sessions import SessionStore
    from counsel.http.team.oidc_config import OidcConfig

log = logging.getLogger("counsel.signin")


async def admit(
    identity: Identity, config: OidcConfig, sessions: SessionStore, people: PeopleStore
) -> tuple[Person, str]:
    """Return the identity's person, with the role and groups that the issuer gives, and a description of changes.

    Raises `SignInFailed`.
    """
    if config.domains and identity.email.rpartition("@")[2] not in config.domains:
        raise SignInFailed("denied", "the e-mail address is not verified, or its domain is not allowed")
    subject = _subject(identity, creates=config.creates)
    person = await sessions.identify(subject, time.time())
    if person is None:
        raise SignInFailed("denied", "no person has this e-mail address, or the person is disabled")
    is_new = subject.new is not None and subject.new.id == person.id
    if identity.groups is None:
        return person, _change(person, is_new=is_new) if is_new else ""
    groups = _groups(identity.groups)
    role = _role(identity.groups, config) if config.roles else person.role
    if (role, groups) == (person.role, person.groups):
        return person, _change(person, is_new=is_new) if is_new else ""
    if not await people.change(person.id, role=role, groups=groups):
        log.warning("%s stays an admin: there is no other admin", person.id)
        await people.change(person.id, groups=groups)
        role = person.role
    updated_person = Person(person.id, person.name, role, groups)
    return updated_person, _change(updated_person, is_new=is_new)


def _change(person: Person, *, is_new: bool) -> str:
    groups = f"groups: {', '.join(person.groups)}" if person.groups else "no groups"
    return f"by the issuer: {'added as' if is_new else 'now'} {person.role}, {groups}"


def _subject(identity: Identity, *, creates: bool) -> Subject:
    new = None
    with suppress(InvalidArgument):  # an address that cannot be a name
        new = Person(names.new_id("p"), names.person(identity.email)) if creates and identity.email else None
    return Subject(
        identity.issuer, identity.subject, names.folded(identity.email) if identity.email else "", new
    )


def _role(groups: Iterable[str], config: OidcConfig) -> Role:
    """The role of the first matching row, else member: whoever leaves the admins' group is no longer an admin."""
    own = set(groups)
    return next((role for group, role in config.roles.items() if group in own), "member")


def _groups(claims: Iterable[str]) -> tuple[str, ...]:
    """The groups whose names are valid here."""
    valid = set()
    for name in claims:
        with suppress(InvalidArgument):
            valid.add(names.group(name))
    return tuple(sorted(valid)[: names.MOST_GROUPS])

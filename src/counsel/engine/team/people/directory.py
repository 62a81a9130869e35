"""The people of a team: adding, changing and disabling them, and their tokens."""

from __future__ import annotations

import time
from collections.abc import Sequence

from counsel.engine.store.people import PeopleStore, PersonRecord, SignedIn, TokenRecord
from counsel.engine.team.people import names
from counsel.errors import Conflict, InvalidArgument, NotFound
from counsel.lazy_dataclass import dataclass
from counsel.people import Person, Role

MOST_TOKENS = 20  # per person
LONGEST_DAYS = 3650


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token with its secret, which is not stored."""

    person: Person
    token: TokenRecord
    secret: str


class Directory:
    def __init__(self, store: PeopleStore) -> None:
        self._store = store

    async def listed(self) -> list[PersonRecord]:
        return await self._store.listed()

    async def find(self, name: str) -> PersonRecord:
        record = await self._store.named(names.folded(name))
        if record is None:
            raise NotFound(f"There is no person {name[:80]!r}.", hint="`counsel people list` shows everyone.")
        return record

    async def add(
        self, name: str, role: str = "member", groups: Sequence[str] = (), days: int | None = None
    ) -> NewToken:
        person = Person(names.new_id("p"), names.person(name), names.role(role), names.groups(list(groups)))
        token, secret = _new_token(days)
        if not await self._store.add(person, names.folded(person.name), token, names.hashed(secret)):
            raise Conflict(
                f"There is already a person called {person.name[:80]!r}.",
                hint="`counsel people rotate NAME` makes a new token; `enable` lets a disabled person back in.",
            )
        return NewToken(person, token, secret)

    async def change(
        self,
        name: str,
        *,
        role: Role | None = None,
        groups: Sequence[str] | None = None,
        force: bool = False,
    ) -> PersonRecord:
        record = await self.find(name)
        new_groups = None if groups is None else names.groups(list(groups))
        is_changed = await self._store.change(
            record.person.id, role=role, groups=new_groups, keep_admin=not force
        )
        if not is_changed:
            raise _last_admin(record.person)
        return await self.find(name)

    async def disable(self, name: str, *, force: bool = False) -> PersonRecord:
        """Disable a person: all their tokens stop working, on every server and in open streams."""
        record = await self.find(name)
        if record.disabled is None and not await self._store.set_disabled(
            record.person.id, time.time(), keep_admin=not force
        ):
            raise _last_admin(record.person)
        return await self.find(name)

    async def enable(self, name: str) -> PersonRecord:
        record = await self.find(name)
        await self._store.set_disabled(record.person.id, None)
        return await self.find(name)

    async def rotate(self, name: str, *, days: int | None = None, overlap: float = 0.0) -> NewToken:
        """A new token in place of all others, which work for another `overlap` seconds."""
        return await self._add_token(name, days, "", others_end=time.time() + overlap)

    async def add_token(
        self, name: str, *, days: int | None = None, label: str = "", until: float | None = None
    ) -> NewToken:
        """An additional token, for another machine. `until`: when it ends at the latest."""
        return await self._add_token(name, days, label, others_end=None, until=until)

    async def end_token(self, name: str, token: str) -> PersonRecord:
        record = await self.find(name)
        if token not in {
            token_record.id for token_record in record.tokens
        } or not await self._store.end_token(token):
            raise NotFound(f"{record.person.name} has no token {token[:80]!r}.")
        return await self.find(name)

    async def signed_in(self, secret: str) -> SignedIn | None:
        if not secret.startswith(names.PREFIX) or len(secret) > names.LONGEST_TOKEN:
            return None
        return await self._store.signed_in(names.hashed(secret))

    async def _add_token(
        self,
        name: str,
        days: int | None,
        label: str,
        *,
        others_end: float | None,
        until: float | None = None,
    ) -> NewToken:
        record = await self.find(name)
        if others_end is None and len(record.tokens) >= MOST_TOKENS:
            raise Conflict(
                f"{record.person.name} has {MOST_TOKENS} tokens.",
                hint="End one with `counsel people token NAME --end ID`.",
            )
        token, secret = _new_token(days, label, until)
        await self._store.add_token(record.person.id, token, names.hashed(secret), others_end=others_end)
        return NewToken(record.person, token, secret)


def _new_token(days: int | None, label: str = "", until: float | None = None) -> tuple[TokenRecord, str]:
    if days is not None and not 0 < days <= LONGEST_DAYS:
        raise InvalidArgument(f"A token expires after 1 to {LONGEST_DAYS} days.")
    now = time.time()
    ends = [end for end in (None if days is None else now + days * 86400, until) if end is not None]
    expires = min(ends, default=None)
    return TokenRecord(names.new_id("t"), names.label(label), now, expires, None), names.new_token()


def _last_admin(person: Person) -> Conflict:
    return Conflict(
        f"{person.name} is the last admin: nobody else could manage people.",
        hint="Make someone else an admin first, or repeat with --force.",
    )
